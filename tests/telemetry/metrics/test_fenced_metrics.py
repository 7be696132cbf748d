"""A user's metrics system that raises: nothing reaches what is measured."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.errors import InvalidTypeError
from pyinformer.telemetry.metrics import NO_METRICS, MetricsRegistry, fenced
from tests.recorded import Recorded

if TYPE_CHECKING:
    from collections.abc import Mapping


class Raising(Recorded):
    """Metrics that raise in the methods that a test names."""

    def __init__(self, *where: str) -> None:
        super().__init__()
        self.where = where
        self.calls: list[str] = []

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if what in self.where:
            raise RuntimeError("secret")

    def counter(self, name: str, labels: Mapping[str, str]) -> Any:
        self._called("counter")
        return super().counter(name, labels)

    def on_inc(self, name: str, labels: Mapping[str, str], amount: float) -> None:
        self._called("inc")

    def on_set(self, name: str, labels: Mapping[str, str], value: float) -> None:
        self._called("set")

    def on_observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        self._called("observe")

    def add_source(self, source: Any) -> None:
        self._called("add_source")

    def scope(self) -> Any:
        self._called("scope")
        return self

    def close(self) -> None:
        self._called("close")


def use(foreign: Raising) -> None:
    """Do everything that an owner does, twice."""
    metrics = fenced(foreign)
    assert fenced(metrics) is metrics
    for _ in range(2):
        scope = metrics.scope()
        for owner in (metrics, scope):
            owner.counter("a_total", {}).inc()
            owner.gauge("b", {}).set(1.0)
            owner.histogram("c_seconds", {}).observe(1.0)
            owner.add_source(list)
        scope.close()


def test_pyinformers_own_metrics_are_not_fenced() -> None:
    registry = MetricsRegistry()
    scope = registry.scope()
    assert fenced(registry) is registry
    assert fenced(scope) is scope
    assert fenced(NO_METRICS) is NO_METRICS


def test_all_calls_reach_metrics_that_do_not_raise(caplog: pytest.LogCaptureFixture) -> None:
    foreign = Raising()
    use(foreign)
    owner = ["counter", "inc", "set", "observe", "add_source"]
    assert foreign.calls == ["scope", *owner, *owner, "close"] * 2
    assert not caplog.records


def test_an_error_anywhere_is_dropped_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    for where in ("counter", "inc", "set", "observe", "add_source", "scope", "close"):
        caplog.clear()
        foreign = Raising(where)
        use(foreign)
        (record,) = caplog.records
        assert (record.name, record.levelno) == ("pyinformer.telemetry.metrics", logging.ERROR)
        assert "Raising raised RuntimeError" in record.getMessage()
        assert "secret" not in record.getMessage()
        assert foreign.calls.count("set") == (2 if where == "scope" else 4)


def test_an_error_is_logged_once_for_all_owners(caplog: pytest.LogCaptureFixture) -> None:
    foreign = Raising("counter")
    for _ in range(3):
        fenced(foreign).counter("a_total", {}).inc()
    assert len(caplog.records) == 1


@pytest.mark.parametrize("missing", ["counter", "gauge", "histogram", "add_source", "scope"])
def test_what_is_not_a_metrics_system_is_refused(missing: str) -> None:
    bad: Any = type("Half", (Recorded,), {missing: None})()
    message = "metrics: must have counter, gauge, histogram, add_source and scope, and Half has not"
    with pytest.raises(InvalidTypeError, match=message):
        fenced(bad)


@pytest.mark.parametrize("method", ["counter", "gauge", "histogram", "scope"])
def test_what_is_bound_but_lacks_its_methods_is_dropped(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(Raising):
        """Metrics whose handles, or scopes, are of another type."""

    setattr(Odd, method, lambda *_: None)
    use(Odd())
    (record,) = caplog.records
    assert "Odd raised AttributeError" in record.getMessage()


def test_metrics_without_a_hash_are_fenced_too(caplog: pytest.LogCaptureFixture) -> None:
    class Unhashable(Raising):
        __hash__ = None  # type: ignore[assignment]

    use(Unhashable("counter"))
    assert len(caplog.records) == 1
