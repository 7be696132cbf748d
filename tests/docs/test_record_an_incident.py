"""The program of the page on recordings records, and its tests pass with a recording."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyinformer
from pyinformer.testing import APIServer, replay
from tests.docs import pages

_PAGE = "docs/howto/record-an-incident.md"
_INCIDENT = Path(__file__).parents[1] / "cache/recording/version_1.jsonl"


def _shown() -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in pages.blocks(_PAGE):
        if block.language == "python":
            exec(compile(block.text, block.page, "exec"), namespace)  # noqa: S102 - our own page
    return namespace


def test_the_tests_of_record_an_incident_md_pass() -> None:
    tests = {name: shown for name, shown in _shown().items() if name.startswith("test_")}

    assert len(tests) == 2
    for test in tests.values():
        test(_INCIDENT)


async def test_the_program_of_record_an_incident_md_records(tmp_path: Path) -> None:
    path, stop = tmp_path / "incident.jsonl", asyncio.Event()
    stop.set()
    with APIServer() as server:
        async with (
            pyinformer.connect(server=server.url) as cluster,
            pyinformer.SharedInformer(cluster, "v1", "pods") as pods,
        ):
            await pods.wait_for_cache_sync(timeout_seconds=100)
            await _shown()["record"](pods, str(path), stop)

    assert not replay(path).problems
