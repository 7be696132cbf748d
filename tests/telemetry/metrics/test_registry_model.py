"""The registry against a model: bind, record, open and close scopes, collect, in any order."""

from __future__ import annotations

import sys
import threading
from collections import Counter as Counts
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pyinformer.telemetry.metrics import MetricsRegistry, Sample
from tests.soak import examples
from tests.telemetry.metrics.reading import series

if TYPE_CHECKING:
    from collections.abc import Iterator

_WAYS = st.sampled_from(["a", "b", "c"])
_NUMBERS = st.integers(0, 5)


class Owner:
    """A scope, and what the model knows of it."""

    def __init__(self, scope: Any) -> None:
        self.scope = scope
        self.inner: list[Owner] = []
        self.ways: set[str] = set()
        self.handles: list[tuple[str, Any]] = []
        self.sources: list[tuple[str, float]] = []
        self.is_open = True

    def close(self) -> None:
        """Close it, and what was opened in it."""
        self.is_open = False
        for one in self.inner:
            one.close()


class RegistryMachine(RuleBasedStateMachine):
    """Scopes that share the series of one counter."""

    @initialize()
    def begin(self) -> None:
        """Start with the registry itself, which is never closed."""
        self.registry = MetricsRegistry()
        self.owners = [Owner(self.registry)]
        self.values: dict[str, float] = {}

    def owner(self, number: int) -> Owner:
        """Return one of the owners."""
        return self.owners[number % len(self.owners)]

    def held(self) -> set[str]:
        """Return the series that an open scope holds."""
        return {way for owner in self.owners if owner.is_open for way in owner.ways}

    def settle(self) -> None:
        """Forget the values of series that vanished."""
        self.values = {way: self.values.get(way, 0.0) for way in self.held()}

    @rule(number=_NUMBERS)
    def open(self, number: int) -> None:
        """Open a scope in the registry or in another scope."""
        outer = self.owner(number)
        inner = Owner(outer.scope.scope())
        inner.is_open = outer.is_open
        outer.inner.append(inner)
        self.owners.append(inner)

    @rule(number=_NUMBERS, way=_WAYS)
    def bind(self, number: int, way: str) -> None:
        """Bind a series, perhaps again."""
        owner = self.owner(number)
        handle = owner.scope.counter("app_calls_total", {"way": way})
        if owner.is_open:
            owner.ways.add(way)
            owner.handles.append((way, handle))
        else:
            handle.inc()  # without effect
        self.settle()

    @rule(number=_NUMBERS, index=_NUMBERS)
    def record(self, number: int, index: int) -> None:
        """Use a handle of an open scope."""
        owner = self.owner(number)
        if owner.is_open and owner.handles:
            way, handle = owner.handles[index % len(owner.handles)]
            handle.inc(0.5)
            self.values[way] += 0.5

    @rule(number=_NUMBERS, way=_WAYS)
    def add_source(self, number: int, way: str) -> None:
        """Add a source of the same counter."""
        owner = self.owner(number)
        owner.scope.add_source(lambda: [Sample("app_calls_total", {"way": way}, 2.0)])
        if owner.is_open:
            owner.sources.append((way, 2.0))

    @rule(number=_NUMBERS)
    def close(self, number: int) -> None:
        """Close a scope, perhaps again."""
        owner = self.owner(number)
        if owner.scope is not self.registry:
            owner.scope.close()
            owner.close()
            self.settle()

    @invariant()
    def what_is_collected_is_what_open_scopes_hold(self) -> None:
        """Compare with the model."""
        expected = Counts(self.values)
        for owner in self.owners:
            for way, value in owner.sources if owner.is_open else ():
                expected[way] += value  # type: ignore[assignment]  # counts of floats
        found = series(self.registry, "app_calls_total")
        assert found == {(way,): value for way, value in expected.items()}


RegistryMachine.TestCase.settings = settings(
    max_examples=examples(30), stateful_step_count=30, deadline=None
)
TestRegistryAgainstModel = RegistryMachine.TestCase


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Let threads alternate as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("frequent_switches")
def test_threads_may_collect_while_series_come_and_go_and_are_recorded() -> None:
    registry = MetricsRegistry()
    counter = registry.counter("app_calls_total", {"way": "kept"})
    seconds = registry.histogram("app_seconds", {})
    is_over = threading.Event()
    errors: list[BaseException] = []

    def collect() -> None:
        last = 0.0
        while not is_over.is_set():
            try:
                found = series(registry, "app_calls_total")
                assert last <= float(found["kept",])  # type: ignore[arg-type]
                last = float(found["kept",])  # type: ignore[arg-type]
                (value,) = series(registry, "app_seconds").values()
                assert sorted(value.buckets) == list(value.buckets)  # type: ignore[union-attr]
            except BaseException as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=collect) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(300):
        scope = registry.scope()
        scope.counter("app_calls_total", {"way": str(number)}).inc()
        scope.add_source(lambda: [Sample("app_calls_total", {"way": "source"}, 1.0)])
        for _ in range(20):
            counter.inc()
            seconds.observe(0.01)
        scope.close()
    is_over.set()
    for thread in threads:
        thread.join(100)
    assert errors == []
    assert series(registry, "app_calls_total") == {("kept",): 6_000.0}
    (value,) = series(registry, "app_seconds").values()
    assert value.buckets[-1] == 6_000  # type: ignore[union-attr]
