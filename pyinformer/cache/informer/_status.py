"""How informers are doing, as frozen records that a health endpoint can serve.

They consist of plain dataclasses, strings and numbers, so that `dataclasses.asdict` and
`json.dumps` suffice, and never hold the content of an object, only its key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from pyinformer._printable import printable
from pyinformer.cache.informer.delivery import HandlerStatus
from pyinformer.cache.reflector import LineageStatus, ReflectorState, ReflectorStatus
from pyinformer.cache.store import IndexStatistics, OverlayStatistics
from pyinformer.objects import JournalEntry
from pyinformer.telemetry import WatchdogStatistics


def counted(number: int, what: str) -> str:
    """Return a number of things, such as `1 object` or `2 objects`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceStatus:
    """How one namespace of an informer is doing; holds no object content."""

    follows: str
    """What it follows, such as `pods.v1 in default`."""
    namespace: str | None
    """None for all namespaces, and for a resource without namespaces."""
    has_synced: bool
    """Whether all its objects have been cached at least once."""
    objects: int
    """How many objects are cached."""
    position: str
    """The resource version up to which every change is cached; empty before the first list."""
    state: ReflectorState
    """What its reflector does at this moment."""
    age_seconds: float | None
    """How long ago it was last proven to be what the server has; None if it never was."""
    reason: str
    """Why it is in this state; empty while all is well."""
    attempts: int
    """Failed attempts since the last success."""
    last_error: str | None
    loads: int = 0
    """How many complete lists its cache has taken over."""
    epoch: int = 0
    """How often the server's history turned out to be another one since the first list."""
    proof_refused_seconds: float | None = None
    """How long ago the server last answered with an error what could have proven it; None if it
    never did."""
    silent_seconds: float | None = None
    """How long ago the last change or bookmark arrived; None if none did."""
    is_provable: bool = True
    """Whether a list can prove it: not where lists of one object are always refused, nor where the
    versions have no order. There `age_seconds` counts from the last event or bookmark."""

    def __str__(self) -> str:
        how = state_text(self.state, self.reason, self.attempts, self.last_error)
        return printable(f"{self.follows}: {how}")


def state_text(state: ReflectorState, reason: str, attempts: int, last_error: str | None) -> str:
    """Return a state with its reason, its failed attempts and its last error, each once."""
    error = f", last error: {last_error}" if last_error else ""
    is_said = error and (state is not ReflectorState.ABSENT or reason in error)
    why = f" ({reason})" if reason and not is_said else ""
    return f"{state.value}{why}, {counted(attempts, 'failed attempt')}{error}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InformerStatus:
    """How one informer is doing; holds no object content.

    With several namespaces, `state` and `reflector` are those of the namespace with the worst
    state, and `position` is that of the namespace that is furthest behind; `namespaces` has each.
    """

    informer: str
    """What it follows, such as `pods.v1 in default`."""
    has_synced: bool
    """Whether its cache has held everything at least once."""
    objects: int
    """How many objects are cached."""
    position: str
    """The resource version up to which every change is cached; empty before the first list."""
    running_seconds: float
    """How long since it was started; 0 before."""
    state: ReflectorState
    """What it does at this moment."""
    age_seconds: float | None
    """How long ago the cache was last proven to be what the server has; None if it never was."""
    last_event_seconds: float | None
    """How long ago the last change arrived; None if none did."""
    last_bookmark_seconds: float | None
    """How long ago the last bookmark arrived; None if none did."""
    reflector: ReflectorStatus
    indexes: tuple[IndexStatistics, ...]
    handlers: tuple[HandlerStatus, ...]
    own_writes: OverlayStatistics | None = None
    """Writes of this process that reads show before the watch brings them."""
    label_indexes: tuple[str, ...] = ()
    """The labels by which the cache has an index at present, made by `list(label_selector=...)`."""
    lineage: LineageStatus | None = None
    """What is known about the history of the server, for all informers of its cluster."""
    journal: tuple[JournalEntry, ...] = ()
    """Its recent journal entries; empty unless `status(with_journal=True)` was called."""
    crash: str | None = None
    """A bug of pyinformer that ended it, as text; None without one. Its cache stays as it was."""
    namespaces: tuple[NamespaceStatus, ...] = ()
    """Each namespace separately; one entry if all namespaces are followed."""
    selection: NamespaceStatus | None = None
    """The state of the `namespace_selector`; None without one."""
    cached_bytes: int = 0
    """The size of the cached bodies as they are kept, stripped or compressed: exact up to 128
    objects, otherwise estimated from so many. What Python adds to each object is not included."""
    cluster: str = ""
    """The name of its cluster; empty if that has none."""

    @property
    def silent_seconds(self) -> float | None:
        """How long ago the last change or bookmark arrived; None if none did.

        That shows whether the watch is alive; `age_seconds` shows how old the cache may be.
        """
        arrived = (self.last_event_seconds, self.last_bookmark_seconds)
        return min((each for each in arrived if each is not None), default=None)

    def __str__(self) -> str:
        if self.crash is not None:
            took = f"{self.running_seconds:.1f} s"
            return printable(f"{self.informer}: crashed after {took}: {self.crash}")
        facts = self.reflector
        how = state_text(facts.state, facts.reason, facts.attempts, facts.last_error)
        return printable(f"{self.informer}: {how}, for {self.running_seconds:.1f} s")

    def pending(self) -> tuple[str, ...]:
        """Return a line for each namespace that has not synced, with the cause."""
        if self.crash is not None or not self._is_divided:
            return (str(self),)
        parts = (*self.namespaces, *(() if self.selection is None else (self.selection,)))
        waiting = [part for part in parts if not part.has_synced]
        return tuple(f"{part}, for {self.running_seconds:.1f} s" for part in waiting)

    @property
    def _is_divided(self) -> bool:
        return len(self.namespaces) > 1 or self.selection is not None

    def line(self) -> str:
        """Return the line for an overview; `str()` has the cause if it waits."""
        return printable("; ".join((f"{self.informer}: {self._how()}", *self._troubles())))

    def _how(self) -> str:
        if self.crash is not None:
            return f"crashed after {self.running_seconds:.1f} s: {self.crash}"
        age = "never proven" if self.age_seconds is None else f"proven {self.age_seconds:.0f} s ago"
        synced = "" if self.has_synced else ", not synced"
        objects = counted(self.objects, "object")
        where = f"{objects} at {self.position}" if self.position else "nothing cached"
        failed = self.reflector.attempts
        attempts = f", {counted(failed, 'failed attempt')}" if failed else ""
        reason = self.reflector.reason and f": {self.reflector.reason}"
        return f"{self.state.value}{synced}, {where}, {age}{attempts}{reason}"

    def _troubles(self) -> Iterator[str]:
        if self.reflector.breaks_order:
            yield "the server breaks the order of resource versions"
        for handler in self.handlers:
            yield from handler.troubles()
        if self._is_divided:
            yield from self._troubled_scopes()

    def _troubled_scopes(self) -> Iterator[str]:
        parts = (*self.namespaces, *(() if self.selection is None else (self.selection,)))
        troubled = [one for one in parts if one.state is not ReflectorState.WATCHING]
        yield from map(str, troubled[:_NAMED])
        if len(troubled) > _NAMED:
            yield f"and {len(troubled) - _NAMED} more namespaces are not followed at present"


_NAMED = 5  # namespaces in a line


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FactoryStatus:
    """How all informers of a factory are doing."""

    informers: tuple[InformerStatus, ...]
    watchdog: WatchdogStatistics
    abandoned_handlers: tuple[str, ...]
    """Handlers that were cancelled, did not end in time, and still run."""

    @property
    def has_synced(self) -> bool:
        """Whether every cache has held everything at least once."""
        return all(informer.has_synced for informer in self.informers)

    def __str__(self) -> str:
        lines = (*(informer.line() for informer in self.informers), *self.lines_on_all())
        return "\n".join(map(printable, lines))

    def lines_on_all(self) -> Iterator[str]:
        """Yield the lines of an overview that concern all informers."""
        lineages = dict.fromkeys(informer.lineage for informer in self.informers)
        for lineage in lineages:
            if lineage is not None and lineage.resets:
                again = ", again and again" if lineage.is_flapping else ""
                times = "once" if lineage.resets == 1 else f"{lineage.resets} times"
                yield f"the server's history was another {times}{again}: {lineage.last_reason}"
        yield str(self.watchdog)
        if self.abandoned_handlers:
            names = ", ".join(self.abandoned_handlers)
            yield f"handlers that were left behind and still run: {names}"
