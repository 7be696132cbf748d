"""Debian's Prometheus, which scrapes programs each second and evaluates the alerts of the docs.

The alerts are meant for minutes. Here a minute lasts a second: every duration and every threshold
in seconds is a sixtieth of the published one.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from tests.waiting import now, pause

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from pyinformer.operator import HealthServer

_MINUTES: Final = re.compile(r"\b(\d+)m\b")
_SECONDS: Final = re.compile(r"(_seconds > )(\d+)")
_ANSWER_SECONDS: Final = 60.0
_INTERVAL_SECONDS: Final = 0.2
_PATIENCE_SECONDS: Final = 120.0


@final
class Prometheus:
    """A running server.

    Args:
        url: where it listens.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    async def firing(self) -> set[tuple[str, str]]:
        """Return the names of the alerts that fire, each with the program, or the Lease."""
        found = await self._get("alerts")
        return {
            (labels["alertname"], labels.get("program") or labels["name"])
            for labels in (one["labels"] for one in found["alerts"] if one["state"] == "firing")
        }

    async def values(self, expression: str) -> list[float]:
        """Return the values of an expression now, one for each series."""
        found = await self._get("query", query=expression)
        return [float(one["value"][1]) for one in found["result"]]

    async def is_ready(self) -> bool:
        """Return whether it answers."""
        try:
            return bool((await self._get("targets"))["activeTargets"])
        except OSError:
            return False

    async def _get(self, path: str, **query: str) -> Any:
        url = f"{self._url}/api/v1/{path}?{urlencode(query)}"
        return json.loads(await asyncio.to_thread(read, url))["data"]


def hurried(rules: str) -> str:
    """Return rules in which a minute is a second."""
    return _SECONDS.sub(
        lambda found: f"{found[1]}{int(found[2]) // 60}", _MINUTES.sub(r"\1s", rules)
    )


@asynccontextmanager
async def prometheus(
    folder: Path, rules: str, programs: Mapping[str, HealthServer]
) -> AsyncIterator[Prometheus]:
    """Run it until the end of the block.

    Args:
        folder: for its files.
        rules: the alerts.
        programs: what it scrapes, by the value of the label `program`.
    """
    (folder / "alerts.yaml").write_text(rules, encoding="utf-8")
    targets = [
        {"targets": [server.url.removeprefix("http://")], "labels": {"program": name}}
        for name, server in programs.items()
    ]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": [{"job_name": "pyinformer", "static_configs": targets}],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    address = f"127.0.0.1:{_free_port()}"
    command = [
        shutil.which("prometheus") or "prometheus",
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    process = await asyncio.create_subprocess_exec(*command)
    try:
        server = Prometheus(f"http://{address}")
        await until_answers(server.is_ready, what=lambda: "Prometheus does not answer")
        yield server
    finally:
        process.terminate()
        await process.wait()


async def until_answers(
    condition: Callable[[], Awaitable[object]], *, what: Callable[[], str]
) -> None:
    """Wait until an asynchronous condition holds.

    Args:
        condition: asked several times a second.
        what: names what is missing if it does not become true.
    """
    deadline = now() + _PATIENCE_SECONDS
    while not await condition():
        assert now() < deadline, what()
        await pause(_INTERVAL_SECONDS)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def read(url: str) -> bytes:
    """Return what a server on this host answers."""
    with urlopen(url, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310 - of this host
        return bytes(answer.read())
