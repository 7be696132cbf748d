"""Frozen records of a controller's state, for health endpoints and tests.

They hold keys, names and numbers, never the content of an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, final

from pyinformer._printable import printable
from pyinformer.cache.informer import counted

if TYPE_CHECKING:
    from pyinformer.controller.sources import SourceStatus
    from pyinformer.telemetry import WatchdogStatistics
    from pyinformer.workqueue import WorkQueueStatistics


EngagedState: TypeAlias = Literal["starting", "working", "ending", "failed"]
"""The state of an engaged cluster: it starts when its caches have synced, however late; what failed
has ended, and stays so until it is disengaged."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """What one worker reconciles."""

    name: str
    request: str | None
    """The object, `namespace/name` or `name`, after `cluster:` if the cluster has a name; None if
    the worker is idle."""
    seconds: float
    """How long that has taken so far; 0 if it is idle."""
    is_stuck: bool
    """Whether its reconcile ignores its cancellation; the key waits until it returns."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FailingKeyStatus:
    """An object whose last reconcile failed."""

    request: str
    """The object, as in WorkerStatus."""
    failures: int
    """Counted failures in a row; 0 if each named the time of its retry."""
    error: str
    """The type of the last error, and of a 403 the right that is missing, as a Role has it."""
    retry_seconds: float
    """How long until the retry; 0 if it is due."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingKeyStatus:
    """An object whose reconcile returned that it waits, or gave it up until it changes."""

    request: str
    """The object, as in WorkerStatus."""
    waiting_for: str
    """What it waits for, as its last reconcile returned it, or why it was given up."""
    seconds: float
    """For how long its reconciles have returned that they wait, or since it was given up."""
    is_given_up: bool = False
    """Whether it was given up until it changes, by a TerminalError."""

    def __str__(self) -> str:
        return printable(f"{self.request} for {self.seconds:.0f} s ({self.waiting_for})")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HotLoopStatus:
    """An object that is reconciled too often, as of its detection."""

    request: str
    """The object, as in WorkerStatus."""
    reconciles: int
    """How often it was reconciled within ten seconds."""
    inputs: int
    """How many different versions of objects caused that; its own requeues do not count. Far fewer
    than reconciles: it wakes itself without a cause. About as many: objects change too often, most
    likely by its own writes."""
    reasons: tuple[str, ...]
    """Sources, events, and how often: `reconcile requeue (x200)`."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NoopWriteStatus:
    """The writes of a controller's reconciles that changed nothing."""

    writes: int
    """Answered writes of which it is known whether they changed anything."""
    noops: int
    """Writes that were answered with the earlier resource version."""
    noop_ratio: float
    """Their share of the newest 100 writes; 0 if there were less than 20 lately."""
    is_storm: bool
    """Whether the share or the rate is beyond its limit."""
    top: tuple[tuple[str, int], ...]
    """Objects whose reconciles made only such writes lately, and how many in a row; the worst
    first, ten at most."""
    breaker: Literal["off", "closed", "open", "half-open"]
    """Whether requests are held: `half-open` while the last probe was good."""
    held: int
    """The number of requests that are held now."""
    held_total: int
    """The number of requests that were held so far."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonsStatus:
    """The tasks of a controller's objects."""

    running: int
    """Tasks that run, and were not cancelled."""
    stopping: int
    """Cancelled tasks within their grace period."""
    waiting: int
    """Objects that wait for a free place."""
    limit: int
    """How many tasks may run at once."""
    ignoring_total: int
    """Tasks that ignore their cancellation: their objects wait until they return."""
    ignoring: tuple[str, ...]
    """The objects of those, as in WorkerStatus; twenty at most."""

    def line(self) -> str:
        """Return the numbers that are not 0, for people."""
        parts = [f"{counted(self.running, 'daemon')} run{'s' if self.running == 1 else ''}"]
        if self.stopping:
            parts.append(f"{self.stopping} stopping")
        if self.waiting:
            parts.append(f"{self.waiting} waiting (limit {self.limit})")
        if self.ignoring:
            left = self.ignoring_total - len(self.ignoring)
            more = f", and {left} more" if left else ""
            parts.append(f"daemons ignoring cancellation: {', '.join(self.ignoring)}{more}")
        return ", ".join(parts)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStatus:
    """The state of one controller."""

    name: str
    is_running: bool
    """Whether its workers run."""
    has_synced: bool
    """Whether every source has enqueued its initial keys, and the workers have begun."""
    queue: WorkQueueStatistics
    """Waiting requests, their number by priority, and the age of the oldest."""
    workers: tuple[WorkerStatus, ...]
    """The workers, the stuck ones included."""
    stuck: tuple[str, ...]
    """The objects whose reconcile ignores its cancellation."""
    outcomes: Mapping[str, int]
    """The number of reconciles by their end: `success`, `requeue`, `error`, `retry_after`,
    `terminal`; `timeout` and `panic` (a bug of the function, such as a TypeError), which count as
    an error, too, and `cancelled`, by closing."""
    failing: int
    """Objects whose last reconcile failed and will be retried."""
    hot: tuple[str, ...]
    """Objects that are slowed because they are reconciled too often."""
    hot_loops: tuple[HotLoopStatus, ...]
    """The details of these objects."""
    noop_writes: NoopWriteStatus
    """Writes that changed nothing, and the breaker."""
    postponed: int
    """Starts that were postponed because the key is slowed."""
    late_results: int
    """Reconciles that returned after their worker was stuck; what they returned was dropped."""
    dropped: int
    """Requests that were waiting when the controller was closed, or came later."""
    last_error: str | None
    """The type of the last error, of a 403 the missing right, and where it was raised; None without
    an error."""
    sources: tuple[SourceStatus, ...]
    debounced: int = 0
    """Requests that wait until no other comes for their object: see `debounce_seconds`."""
    failing_keys: tuple[FailingKeyStatus, ...] = ()
    """The worst of the objects that `failing` counts, those with the most failures first; twenty
    at most, out of the thousand that have failed for longest."""
    waiting: int = 0
    """Objects whose last reconcile returned that it waits for something, or gave them up with a
    TerminalError: they wait for a change."""
    waiting_keys: tuple[WaitingKeyStatus, ...] = ()
    """Those that have waited for longest; a hundred at most."""
    given_up: int = 0
    """Objects, of those that wait, that were given up: see `is_given_up`."""
    daemons: DaemonsStatus | None = None
    """The tasks of its objects; None for a controller without them."""

    def line(self) -> str:
        """Return the state in one line, for people."""
        return printable(f"controller {self.name}: {self._summary()}; {'; '.join(self._parts())}")

    def _summary(self) -> str:
        noops = self.noop_writes
        if not (self.is_running and self.has_synced):
            return "not working"
        if noops.is_storm:
            return f"STORM: {noops.noop_ratio * 100:.0f} % of its newest writes changed nothing"
        return "working"

    def _parts(self) -> list[str]:
        queue, noops = self.queue, self.noop_writes
        busy = sum(worker.request is not None for worker in self.workers)
        parts = [
            "1 key waits" if queue.depth == 1 else f"{queue.depth} keys wait",
            "1 is reconciled" if busy == 1 else f"{busy} are reconciled",
        ]
        if noops.held or noops.breaker in {"open", "half-open"}:
            parts.append(f"{counted(noops.held, 'request')} held (breaker {noops.breaker})")
        if queue.delayed:
            debounced = f", {self.debounced} of them debounced" if self.debounced else ""
            parts.append(f"{queue.delayed} delayed{debounced}")
        if self.failing:
            fail = "1 fails" if self.failing == 1 else f"{self.failing} fail"
            parts.append(f"{fail}, last: {self.last_error}")
        if self.given_up:
            parts.append(f"{self.given_up} given up until a change")
        if self.waiting_keys:
            waits = "1 waits" if self.waiting == 1 else f"{self.waiting} wait"
            parts.append(f"{waits}, longest: {self.waiting_keys[0]}")
        if self.hot:
            parts.append(f"hot loops of {', '.join(self.hot)}")
        if self.stuck:
            parts.append(f"ignoring cancellation: {', '.join(self.stuck)}")
        if self.daemons is not None:
            parts.append(self.daemons.line())
        return parts


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EngagedClusterStatus:
    """The state of the controllers of a cluster that a group has engaged."""

    name: str
    """The name under which it was engaged."""
    state: EngagedState
    state_seconds: float
    """For how long it has been in this state."""
    reason: str
    """What it waits for, or why it ended; empty while it works."""
    age_seconds: float | None
    """How long ago the oldest of its caches was last proven to be current; None if unknown."""
    controllers: tuple[ControllerStatus, ...]

    def line(self) -> str:
        """Return the state in one line, for people."""
        names = ", ".join(one.name for one in self.controllers)
        text = f"cluster {self.name} ({names}): {self.state} for {self.state_seconds:.0f} s"
        if self.age_seconds is not None:
            text += f", proven {self.age_seconds:.0f} s ago"
        return printable(f"{text}: {self.reason}" if self.reason else text)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerGroupStatus:
    """The state of a group of controllers."""

    controllers: tuple[ControllerStatus, ...]
    """Those with which it was made."""
    watchdog: WatchdogStatistics
    """How often the event loop was blocked, and by which reconcile or handler."""
    abandoned: tuple[str, ...]
    """Reconciles that closing did not wait for, and that still run."""
    waiting: tuple[str, ...] = ()
    """Controllers of a leader that do not run yet, each with the reason."""
    failure: str = ""
    """Why they will not run again, though nothing has closed them: leader election has ended."""
    engaged: tuple[EngagedClusterStatus, ...] = ()
    """The clusters that were engaged while it runs."""
