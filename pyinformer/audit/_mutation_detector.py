"""The mutation detector: who changes in place what others read is found, named and undone.

What enters are the sources of shared values, one for each informer that shares; what leaves are
reports. In `sample` mode a sweep looks at as many values as its share of the time allows; in
`debug` the informer looks at every step as well. Nothing is looked at while the mode is `off`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, final
from weakref import WeakSet

import anyio
from anyio.lowlevel import checkpoint

from pyinformer.apimachinery import (
    InvalidArgumentError,
    InvalidTypeError,
    KubeObject,
    check_seconds,
)
from pyinformer.audit._mutation_ledger import MutationLedger
from pyinformer.audit._mutation_watch import WatchedValue, WatchedValues

if TYPE_CHECKING:
    from pyinformer.apimachinery import View
    from pyinformer.audit._mutation import CacheMutation, MutationMode
    from pyinformer.audit._mutation_ledger import ValueSource

_MODES = ("off", "sample", "debug")
_STEP_SECONDS = 0.004  # a sweep shares the loop with watches that must not fall behind
_DEBUG_PERIOD_SECONDS = 0.25
_HURRIED_PERIOD_SECONDS = 0.05  # after a relist: a tenth of the time until everything was seen
_RESTS = 30  # times as long as that: however often lists come, it stays below a hundredth


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MutationStatistics:
    """What a detector has done."""

    mode: MutationMode
    checked: int
    """How many times a value was looked at."""
    mutations: int
    """How many were found changed."""
    watched: int
    """How many values of the program's own are watched."""
    watched_dropped: int
    """How many of them had to make room."""


@final
class MutationDetector:
    """Finds shared values that somebody changed in place.

    A factory has one for all of its informers. Objects themselves cannot be changed: this is for
    what `sharing="decoded"` shares, for index functions whose answers change, and for values of
    the program's own that it is asked to `watch`.

    Args:
        mode: `off`, `sample` or `debug`; None is `sample`, or `debug` under the pytest plugin. In
            `debug` a mutation is raised as CacheMutatedError in the handler that made it, at its
            next await, or at the next read or await of the informer.
        period_seconds: how often the sweep looks at a sample.
        budget_seconds: how long it may look at each time, all informers of this detector together:
            by default 5 ms in each second.
        max_watched: how many values of the program's own are watched; the oldest make room.
        on_mutation: is called with each report, in the thread that found it.

    Raises:
        InvalidArgumentError: an unknown mode, or a number that cannot work.
        InvalidTypeError: `on_mutation` cannot be called.

    Source:
        client-go tools/cache/mutation_detector.go, which keeps copies and ends the process.
    """

    def __init__(
        self,
        mode: MutationMode | None = None,
        *,
        period_seconds: float = 1.0,
        budget_seconds: float = 0.005,
        max_watched: int = 10_000,
        on_mutation: Callable[[CacheMutation], None] | None = None,
    ) -> None:
        session = _sessions[-1] if mode is None and _sessions else None
        default: MutationMode = "sample" if session is None else "debug"
        self.mode: MutationMode = default if mode is None else mode
        """`off`, `sample` or `debug`."""
        if self.mode not in _MODES:
            raise InvalidArgumentError("mode", f"{mode!r} is none of {', '.join(_MODES)}")
        for name, value in (("period_seconds", period_seconds), ("budget_seconds", budget_seconds)):
            check_seconds(name, value)
            if value == 0:
                raise InvalidArgumentError(name, "0 would be a sweep without end or without effect")
        if budget_seconds > period_seconds / 2:
            reason = f"{budget_seconds:g} of every {period_seconds:g} s; half is the most"
            raise InvalidArgumentError("budget_seconds", reason)
        if isinstance(max_watched, bool) or not isinstance(max_watched, int) or max_watched < 1:
            raise InvalidArgumentError("max_watched", f"{max_watched!r}; 1 is the least")
        if on_mutation is not None and not callable(on_mutation):
            raise InvalidTypeError("on_mutation", f"{type(on_mutation).__name__} is not callable")
        self._period_seconds = period_seconds
        self._budget_seconds = budget_seconds
        self._watched = WatchedValues(max_watched)
        self._sources: list[ValueSource] = []
        self.ledger: MutationLedger = MutationLedger(names_readers=self.mode == "debug")
        """Checks and remembers; for the informer."""
        if on_mutation is not None:
            self.ledger.listeners.append(on_mutation)
        if session is not None:
            session.join(self)

    def watch(self, obj: KubeObject[View | None], value: object, *, name: str) -> None:
        """Notice when a value that was made of an object is changed.

        It is looked at by the sweeps of the informers that use this detector, and by `verify`.

        Args:
            obj: what it was made of; where the value is nothing but that, reports name paths.
            value: a dict, or a model: a msgspec Struct, a dataclass, a pydantic model.
            name: names it, and its owner, in reports; a value with the same name that was made of
                an object with the same key is watched no more.

        Raises:
            InvalidTypeError: it cannot be written as JSON, so that no change could be noticed.
        """
        if not isinstance(obj, KubeObject):
            raise InvalidTypeError("obj", f"is a KubeObject, not {type(obj).__name__}")
        if self.mode != "off":
            self._watched.add(WatchedValue(name, obj, value))

    def unwatch(self, key: str, *, name: str) -> None:
        """Watch a value no more; one that is not watched is no error.

        Args:
            key: the key of the object that it was made of.
            name: what it was watched as.
        """
        self._watched.remove(name, key)

    def verify_nowait(self) -> tuple[CacheMutation, ...]:
        """Look at everything at once; return what was found.

        That blocks the caller, for some 5 us for each value: for tests and small caches.
        """
        return tuple(found for found in self._round(self._everything()) if found is not None)

    async def verify(self) -> tuple[CacheMutation, ...]:
        """Look at everything, and let others run meanwhile; return what was found.

        Cancellation:
            Safe; what was found until then is in `recent`.
        """
        found = []
        until = anyio.current_time() + _STEP_SECONDS
        for mutation in self._round(self._everything()):
            if mutation is not None:
                found.append(mutation)
            if anyio.current_time() >= until:
                await checkpoint()
                until = anyio.current_time() + _STEP_SECONDS
        return tuple(found)

    @property
    def recent(self) -> tuple[CacheMutation, ...]:
        """The newest hundred reports."""
        return tuple(self.ledger.recent)

    def statistics(self) -> MutationStatistics:
        """Return what it has done."""
        return MutationStatistics(
            mode=self.mode,
            checked=self.ledger.checked,
            mutations=self.ledger.mutations,
            watched=len(self._watched),
            watched_dropped=self._watched.dropped,
        )

    async def run(self, source: ValueSource, *, relists: Callable[[], object]) -> None:
        """Sweep one informer's values for as long as it runs; for the informer.

        Args:
            source: its shared values.
            relists: returns another thing after each complete list: then all values are looked at
                soon, whatever a sample would be.

        Cancellation:
            The way to stop it; in `debug` everything is looked at once more.
        """
        self._sources.append(source)
        try:
            await self._sweep(source, relists)
        finally:
            self._sources.remove(source)
            if self.mode == "debug":
                for _ in self._round((source, self._watched)):
                    pass

    async def _sweep(self, source: ValueSource, relists: Callable[[], object]) -> None:
        seen, work = relists(), self._round((source, self._watched))
        period = self._period_seconds
        if self.mode == "debug":
            period = min(period, _DEBUG_PERIOD_SECONDS)
        pause, began_at, rests_until = period, -math.inf, -math.inf
        while True:
            await anyio.sleep(pause)
            now = anyio.current_time()
            # One round after a list ends before the next begins: else the last were never seen.
            if now >= rests_until and relists() != seen:
                seen, work = relists(), self._round((source, self._watched))
                pause, began_at = min(period, _HURRIED_PERIOD_SECONDS), now
                rests_until = math.inf
            if self._advance(work):
                work, pause = self._round((source, self._watched)), period
                if rests_until == math.inf:
                    rests_until = now + _RESTS * (now - began_at)

    def _advance(self, work: Iterator[CacheMutation | None]) -> bool:
        """Look at what the budget allows; return whether that was all."""
        until = anyio.current_time() + self._budget_seconds / len(self._sources)
        while anyio.current_time() < until:
            if next(work, work) is work:
                return True
        return False

    def _everything(self) -> tuple[ValueSource, ...]:
        return (*self._sources, self._watched)

    def _round(self, sources: tuple[ValueSource, ...]) -> Iterator[CacheMutation | None]:
        """Look at every value once, one in each step."""
        if self.mode == "off":
            return
        for source in sources:
            for value in source.values():
                yield self.ledger.check(value, source)
            for mutation in source.misplaced():
                if mutation is not None:
                    self.ledger.take(mutation, source)
                yield mutation


@final
class DebugSession:
    """Makes every detector whose mode nobody chose a debugging one, until it is closed.

    For test tools: nothing else decides over informers that it did not make.
    """

    def __init__(self) -> None:
        self._detectors: WeakSet[MutationDetector] = WeakSet()
        self._found: list[CacheMutation] = []
        _sessions.append(self)

    def join(self, detector: MutationDetector) -> None:
        """Hear of what a detector finds."""
        self._detectors.add(detector)
        detector.ledger.listeners.append(self._found.append)

    def take(self) -> tuple[CacheMutation, ...]:
        """Look at everything; return what was found since the last time."""
        for detector in tuple(self._detectors):
            detector.verify_nowait()
        found = tuple(self._found)
        self._found.clear()
        return found

    def close(self) -> None:
        """Leave detectors that are made from now on alone."""
        _sessions.remove(self)


_sessions: list[DebugSession] = []
