"""The catalogue of metrics: its page is current, and Prometheus' conventions hold."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from pyinformer.telemetry.metrics import CATALOGUE

_ROOT = Path(__file__).parents[2]

# Of client-go, controller-runtime and ours: promtool asks for base units, and names in snake case.
_NOT_BASE_UNITS = re.compile(
    r"_(milliseconds|minutes|hours|days|ms|us|ns|kilobytes|megabytes|kb|mb)(_|$)"
)


def test_the_page_of_metrics_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(_ROOT / "docs/_extensions"))
    monkeypatch.delitem(sys.modules, "metrics", raising=False)
    metrics = importlib.import_module("metrics")
    assert metrics.PAGE.read_text(encoding="utf-8") == metrics.page(), "run: make options"


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_metric_keeps_the_conventions(name: str) -> None:
    spec = CATALOGUE[name]
    assert spec.name == name
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert re.fullmatch(r"[A-Z].*\.", spec.help), "the help is a sentence"
    assert not _NOT_BASE_UNITS.search(name)
    assert not name.endswith(("_count", "_sum", "_bucket", "_info", "_created"))
    assert not {"namespace", "key", "uid", "message"} & {*spec.labels}, "labels are not of objects"
    if spec.type == "histogram" and name.startswith(("informer_", "controller_")):
        assert name.endswith(("_seconds", "_bytes")), "what is measured has a unit"
