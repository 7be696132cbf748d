"""The mutation detector: it finds shared values that were changed in place, and restores them.

In `sample` mode a sweep checks as many values as its share of the time allows; in `debug` the
informer checks after every step of a handler as well. In the mode `off` nothing is checked.
"""

from __future__ import annotations

import math
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast, final, get_args
from weakref import WeakSet

import anyio

from pyinformer._runtime.tasks import check_plain, loop_time, spread
from pyinformer.cache.audit._mutation_diff import MutationMode, digest_of
from pyinformer.cache.audit._mutation_ledger import MutationLedger
from pyinformer.errors import InformerError, InvalidArgumentError, InvalidTypeError
from pyinformer.objects import (
    KubeObject,
    check_choice,
    check_integer,
    check_seconds,
    check_text,
)

if TYPE_CHECKING:
    from pyinformer.cache.audit._mutation_diff import CacheMutation
    from pyinformer.cache.audit._mutation_ledger import SharedValue, ValueSource

_DEBUG_PERIOD_SECONDS = 0.25
_HURRIED_PERIOD_SECONDS = 0.05  # after a relist, so that everything is checked ten times sooner
# A relist hurries a round. The next one is hurried only after a rest of 30 times what it took, so
# the sweep takes less than a hundredth of the time, however often lists arrive.
_RESTS = 30


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MutationStatistics:
    """The counts of a mutation detector."""

    mode: MutationMode
    checked: int
    """How many checks of a value there were."""
    mutations: int
    """How many checks found a change."""
    watched: int
    """How many values of the program itself are watched."""
    watched_dropped: int
    """How many of them were dropped because there were too many."""


@final
class WatchedValue:
    """A value that the program made from a cached object and keeps.

    What is stored is a digest, the object (which the cache has anyway) and a weak reference, where
    the value's type allows one.

    Args:
        name: the value's name in reports, and that of its reader.
        record: the object that it was made from.
        value: the dict or the model.

    Raises:
        InvalidTypeError: it cannot be written as JSON, so no digest can be made.
    """

    __slots__ = ("_get", "_is_derived", "digest", "name", "record")

    def __init__(self, name: str, record: KubeObject[object], value: object) -> None:
        self.name = name
        self.record = record
        self.digest = digest_of(value)
        if self.digest is None:
            reason = f"a {type(value).__name__} cannot be written as JSON, so no change is noticed"
            raise InvalidTypeError("value", reason)
        self._get = _reference(value)
        original = self._made_anew(type(value))
        # Changes from before it was watched would appear among the paths of a mutation.
        self._is_derived = original is None or digest_of(original) != self.digest

    @property
    def what(self) -> str:
        """Its name in a report."""
        return f"the value watched as {self.name}"

    @property
    def readers(self) -> Collection[tuple[str, str]]:
        """Its own name; other readers are not known."""
        return ((self.name, ""),)

    def current(self) -> object:
        """Return the value; None if the program has dropped it."""
        return self._get()

    def original(self) -> object:
        """Decode the object again; None if the watched value was not just its content."""
        return None if self._is_derived else self._made_anew(type(self._get()))

    def _made_anew(self, kind: type[object]) -> object:
        try:
            return self.record.to_dict() if kind is dict else self.record.as_type(kind)
        except InformerError:
            return None


@final
class WatchedValues:
    """The watched values of a program, as a source of shared values.

    Args:
        limit: how many are watched; beyond that the oldest are dropped.
    """

    name = "watched values"

    def __init__(self, limit: int) -> None:
        self.dropped: int = 0
        """How many were dropped because there were too many."""
        self._limit = limit
        self._values: OrderedDict[tuple[str, str], WatchedValue] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: WatchedValue) -> None:
        """Watch a value in place of the one of the same name and key."""
        about = value.name, value.record._key
        self._values.pop(about, None)
        self._values[about] = value
        if len(self._values) > self._limit:
            self._values.popitem(last=False)
            self.dropped += 1

    def remove(self, name: str, key: str) -> None:
        """Stop watching a value, if it is watched."""
        self._values.pop((name, key), None)

    def values(self) -> Iterable[SharedValue]:
        """Return the values that the program still has."""
        for about, value in list(self._values.items()):
            if value.current() is None:
                self._values.pop(about, None)
            else:
                yield value

    def handlers(self) -> tuple[str, ...]:
        """Return nothing: each value names its reader."""
        return ()

    def heal(self, value: SharedValue) -> None:
        """Do nothing: the value belongs to the program."""

    def misplaced(self) -> Iterable[CacheMutation | None]:
        """Return nothing: no index holds them."""
        return ()

    def count(self, mutation: CacheMutation) -> None:
        """Do nothing: no informer counts them."""


def _reference(value: object) -> Callable[[], object]:
    try:
        return cast("Callable[[], object]", weakref.ref(value))
    except TypeError:  # dicts, and structs without weak references
        return lambda: value


@final
class MutationDetector:
    """Finds shared values that were changed in place.

    A factory has one for all of its informers. Objects themselves cannot be changed: this is for
    what `sharing="decoded"` shares, for index functions whose answers change, and for values that
    the program passes to `watch`.

    Args:
        mode: `off`, `sample` or `debug`; None is `sample`, or `debug` under the pytest plugin. In
            `debug` a mutation is raised as CacheMutatedError in the handler that made it, at its
            next await, or at the next read or await of the informer.
        period_seconds: how long the sweep waits between two samples.
        budget_seconds: how long each sample may take, all informers of this detector together: by
            default 5 ms in each second.
        max_watched: how many values of the program are watched; beyond that the oldest are dropped.
        on_mutation: called with each report, in the thread that found it.

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
        check_choice("mode", self.mode, get_args(MutationMode))
        check_seconds("period_seconds", period_seconds, is_positive=True)
        check_seconds("budget_seconds", budget_seconds, is_positive=True)
        if budget_seconds > period_seconds / 2:
            most = period_seconds / 2
            reason = f"must be at most half of period_seconds, {most:g}, got {budget_seconds:g}"
            raise InvalidArgumentError("budget_seconds", reason)
        check_integer("max_watched", max_watched)
        if on_mutation is not None:
            check_plain(on_mutation, "on_mutation(mutation)", 1)
        self._period_seconds = period_seconds
        self._budget_seconds = budget_seconds
        self._watched = WatchedValues(max_watched)
        self._sources: list[ValueSource] = []
        self.ledger: MutationLedger = MutationLedger(names_readers=self.mode == "debug")
        """Checks values and keeps the reports; for the informer."""
        if on_mutation is not None:
            self.ledger.listeners.append(on_mutation)
        if session is not None:
            session.join(self)

    def watch(self, obj: KubeObject[object], value: object, *, name: str) -> None:
        """Report when a value that was made from an object is changed.

        The sweeps of the informers that use this detector check it, and so does `verify`.

        Args:
            obj: the object; if the value is just its content, reports name the changed paths.
            value: a dict, or a model: a msgspec Struct, a dataclass, a pydantic model.
            name: names it, and its owner, in reports; it replaces a value with the same name that
                was made from an object with the same key.

        Raises:
            InvalidTypeError: it cannot be written as JSON, so no change could be noticed; or an
                argument is of another type.
        """
        if not isinstance(obj, KubeObject):
            raise InvalidTypeError("obj", f"must be a KubeObject, got a {type(obj).__name__}")
        check_text("name", name)
        if self.mode != "off":
            self._watched.add(WatchedValue(name, obj, value))

    def unwatch(self, key: str, *, name: str) -> None:
        """Stop watching a value, if it is watched.

        Args:
            key: the key of the object that it was made from.
            name: the name under which it is watched.

        Raises:
            InvalidTypeError: one of them is not a text.
        """
        check_text("key", key)
        check_text("name", name)
        self._watched.remove(name, key)

    def verify_nowait(self) -> tuple[CacheMutation, ...]:
        """Check everything at once; return what was found.

        That blocks the caller for some 5 us per value: for tests and small caches.
        """
        return tuple(found for found in self._round(self._everything()) if found is not None)

    async def verify(self) -> tuple[CacheMutation, ...]:
        """Check everything while other tasks run; return what was found.

        Cancellation:
            Safe; what was found until then is in `recent`.
        """
        found: list[CacheMutation] = []

        def steps() -> Iterator[None]:
            """Check one value in each step."""
            for mutation in self._round(self._everything()):
                if mutation is not None:
                    found.append(mutation)
                yield

        await spread(steps())
        return tuple(found)

    @property
    def recent(self) -> tuple[CacheMutation, ...]:
        """The newest hundred reports."""
        return tuple(self.ledger.recent)

    def statistics(self) -> MutationStatistics:
        """Return the counts."""
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
            relists: returns another value after each complete list: then all values are checked
                soon, beyond the usual sample.

        Cancellation:
            The way to stop it; in `debug` everything is checked once more.
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
            now = loop_time()
            # One round after a list ends before the next begins: else the last values would never
            # be checked.
            if now >= rests_until and relists() != seen:
                seen, work = relists(), self._round((source, self._watched))
                pause, began_at = min(period, _HURRIED_PERIOD_SECONDS), now
                rests_until = math.inf
            if self._advance(work):
                work, pause = self._round((source, self._watched)), period
                if rests_until == math.inf:
                    rests_until = now + _RESTS * (now - began_at)

    def _advance(self, work: Iterator[CacheMutation | None]) -> bool:
        """Check what the budget allows; return whether the round is complete."""
        until = loop_time() + self._budget_seconds / len(self._sources)
        while loop_time() < until:
            if next(work, work) is work:
                return True
        return False

    def _everything(self) -> tuple[ValueSource, ...]:
        return (*self._sources, self._watched)

    def _round(self, sources: tuple[ValueSource, ...]) -> Iterator[CacheMutation | None]:
        """Check every value once, one in each step."""
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
    """Puts every new detector without an explicit mode into `debug`, until it is closed.

    Only test tools use it: nothing else changes informers that it did not make.
    """

    def __init__(self) -> None:
        self._detectors: WeakSet[MutationDetector] = WeakSet()
        self._found: list[CacheMutation] = []
        _sessions.append(self)

    def join(self, detector: MutationDetector) -> None:
        """Collect what a detector finds."""
        self._detectors.add(detector)
        detector.ledger.listeners.append(self._found.append)

    def take(self) -> tuple[CacheMutation, ...]:
        """Check everything; return what was found after the last call."""
        for detector in tuple(self._detectors):
            detector.verify_nowait()
        found = tuple(self._found)
        self._found.clear()
        return found

    def close(self) -> None:
        """Stop changing new detectors."""
        _sessions.remove(self)


_sessions: list[DebugSession] = []
