"""The alerts and the dashboard name metrics that exist, and each alert has a runbook."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from pyinformer.operator.diagnosis import THRESHOLDS
from pyinformer.telemetry.metrics import CATALOGUE
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

_ALERTS: Final = ROOT / "docs" / "prometheus" / "alerts.yaml"
_DASHBOARD: Final = ROOT / "docs" / "prometheus" / "dashboard.json"
_RUNBOOKS: Final = ROOT / "docs" / "howto" / "metrics.md"
_METRIC: Final = re.compile(r"\b([a-z]+(?:_[a-z]+)+)(?=\{| >| ==|\[|\))")
_OF_A_HISTOGRAM: Final = re.compile(r"_(bucket|sum|count)$")


def _alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(_ALERTS.read_text(encoding="utf-8"))["groups"]
    return list(group["rules"])


def _expressions() -> Iterator[str]:
    for alert in _alerts():
        yield alert["expr"]
    for panel in json.loads(_DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def test_every_expression_asks_for_metrics_that_exist() -> None:
    for expression in _expressions():
        names = {_OF_A_HISTOGRAM.sub("", name) for name in _METRIC.findall(expression)}
        assert names or expression.startswith("sum by (job) (up"), expression
        assert names <= set(CATALOGUE), expression


def test_every_alert_has_its_runbook() -> None:
    (_, runbooks) = _RUNBOOKS.read_text(encoding="utf-8").split("## Alerts and a dashboard\n")
    headings = re.findall(r"^### (\w+)$", runbooks, re.MULTILINE)
    assert headings == [alert["alert"] for alert in _alerts()]
    for alert in _alerts():
        anchor = alert["alert"].lower()
        assert alert["annotations"]["runbook"] == f"howto/metrics.md#{anchor}"
        assert alert["labels"]["severity"] in {"warning", "critical"}


def test_the_page_counts_the_alerts() -> None:
    (number,) = re.findall(r"has (\w+) alerts", _RUNBOOKS.read_text(encoding="utf-8"))
    assert number == {13: "thirteen", 14: "fourteen", 15: "fifteen"}[len(_alerts())]


def test_alerts_and_the_doctor_have_the_same_limits() -> None:
    alerts = {alert["alert"]: alert for alert in _alerts()}
    minutes = THRESHOLDS.unsynced_seconds / 60
    assert alerts["InformerNotSynced"]["for"] == f"{minutes:g}m"
    for name, seconds in (
        ("InformerCacheStale", THRESHOLDS.stale_seconds),
        ("InformerHandlerBehind", THRESHOLDS.stuck_handler_seconds),
    ):
        assert alerts[name]["expr"].endswith(f" > {seconds:g}")
