"""The alerts and the dashboard of the docs, with Debian's Prometheus and its tool."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
from pathlib import Path
from typing import Final

from docs._extensions.dashboard import DASHBOARD, dashboard_json
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.tools.faulty_programs import ALERTS, faulty_programs
from tests.tools.prometheus import Prometheus, hurried, prometheus, read, until_answers

_DOCS: Final = Path(__file__).parents[2] / "docs" / "prometheus"


def _promtool(*arguments: str, given: bytes = b"") -> tuple[int, str]:
    ended = subprocess.run(
        ["promtool", *arguments],
        input=given,
        cwd=Path(__file__).parent,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return ended.returncode, ended.stdout.decode()


def test_each_alert_fires_for_its_fault_and_not_for_what_looks_like_it() -> None:
    status, said = _promtool("test", "rules", "alerts_test.yaml")
    assert status == 0, said
    tested = (Path(__file__).parent / "alerts_test.yaml").read_text(encoding="utf-8")
    for alert, _ in ALERTS:
        assert f"alertname: {alert}\n" in tested


def test_the_dashboard_is_current_and_grafana_can_read_it() -> None:
    text = DASHBOARD.read_text(encoding="utf-8")
    assert text == dashboard_json(), "make dashboard writes it again"
    read = Dashboard.from_json(json.loads(text))
    assert read.title == "pyinformer"
    assert read.panels
    assert len(read.panels) == len(json.loads(text)["panels"])


async def test_a_real_prometheus_sees_every_fault_and_fills_every_panel(tmp_path: Path) -> None:
    rules = hurried((_DOCS / "alerts.yaml").read_text(encoding="utf-8"))
    firing: set[tuple[str, str]] = set()
    async with (
        faulty_programs() as programs,
        prometheus(tmp_path, rules, programs) as server,
    ):

        async def all_fire() -> bool:
            firing.update(await server.firing())
            return firing >= ALERTS

        await until_answers(all_fire, what=lambda: f"do not fire: {sorted(ALERTS - firing)}")
        assert not {alert for alert, program in firing if program == "healthy"}
        assert not "\n".join(await _empty_panels(server))
        for program in programs.values():
            text = await asyncio.to_thread(read, f"{program.url}/metrics")
            assert _promtool("check", "metrics", given=text) == (0, "")


async def _empty_panels(server: Prometheus) -> list[str]:
    """Return the titles of the panels one of whose expressions has no figure."""
    empty = []
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"].replace("$job", ".*").replace("$instance", ".*")
            values = await server.values(expression.replace("$__rate_interval", "20s"))
            if all(map(math.isnan, values)):
                empty.append(f"{panel['title']}: {expression}")
    return empty
