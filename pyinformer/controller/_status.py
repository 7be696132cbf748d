"""What controllers say about themselves: frozen records for health endpoints and tests.

What enters are the figures of one moment; what leaves holds keys, names and numbers, never the
content of an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

from pyinformer._printable import printable
from pyinformer.informer import counted

if TYPE_CHECKING:
    from pyinformer.sources._source import SourceStatus
    from pyinformer.tasks import WatchdogStatistics
    from pyinformer.workqueue import WorkQueueStatistics


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """What one worker is busy with."""

    name: str
    request: str | None
    """The object, `namespace/name` or `name`, with `cluster:` before it where there are several;
    None if it is idle."""
    seconds: float
    """How long it has been busy with that; 0 if it is idle."""
    is_stuck: bool
    """Its reconcile ignores that it was cancelled; the key waits for it."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HotLoopStatus:
    """An object that was reconciled again and again, as it was when that was noticed."""

    request: str
    """The object, as in WorkerStatus."""
    reconciles: int
    """How often it was reconciled within `hot_loop_window_seconds`."""
    inputs: int
    """How many different versions of objects asked for that meanwhile: its own wishes to come back
    are none. Far fewer than reconciles: it wakes itself without a cause. About as many: something
    changes again and again, most likely by its own writes."""
    reasons: tuple[str, ...]
    """Sources, what they saw, and how often: `reconcile requeue (x200)`."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NoopWriteStatus:
    """The writes of a controller's reconciles that changed nothing."""

    writes: int
    """Writes that were answered, of which it is known whether they changed anything."""
    noops: int
    """Those that were answered with the resource version of before."""
    noop_ratio: float
    """Their share of the newest 100 writes; 0 if there were less than 20 lately."""
    is_storm: bool
    """The alarm is on: the share or the rate is beyond its limit."""
    top: tuple[tuple[str, int], ...]
    """Objects whose reconciles wrote nothing else lately, and how many such writes in a row; the
    worst first, ten at most."""
    breaker: Literal["off", "closed", "open", "half-open"]
    """Whether requests are held: `half-open` while the last one that tried was good."""
    held: int
    """How many requests it holds at this moment."""
    held_total: int
    """How many it has held so far."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStatus:
    """How one controller is doing."""

    name: str
    is_running: bool
    """It was started, and neither closed nor broken since."""
    has_synced: bool
    """Every source has enqueued its initial keys, and the workers have begun."""
    queue: WorkQueueStatistics
    """Requests that wait, their number by priority, and the age of the oldest."""
    workers: tuple[WorkerStatus, ...]
    """The workers, the stuck ones included."""
    stuck: tuple[str, ...]
    """The objects whose reconcile ignores that it was cancelled."""
    outcomes: Mapping[str, int]
    """How many reconciles ended so: `success`, `requeue`, `error`, `retry_after`, `terminal`; and
    `timeout`, which are among the errors, and `cancelled`, by closing."""
    failing: int
    """Objects whose last reconcile failed and will be retried."""
    hot: tuple[str, ...]
    """Objects that are slowed because they were reconciled again and again."""
    hot_loops: tuple[HotLoopStatus, ...]
    """What is known of them."""
    noop_writes: NoopWriteStatus
    """Writes that changed nothing, and what is done about them."""
    postponed: int
    """Starts that had to wait, for the limit per key or because the key is hot."""
    late_results: int
    """Reconciles that returned long after their deadline; what they returned was dropped."""
    dropped: int
    """Requests that waited when the controller was closed, or came later."""
    last_error: str | None
    """The type of the last error and where it was raised; None if there was none."""
    sources: tuple[SourceStatus, ...]

    def line(self) -> str:
        """Return it in one line, for people."""
        return printable(f"controller {self.name}: {self._in_a_word()}; {'; '.join(self._parts())}")

    def _in_a_word(self) -> str:
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
            parts.append(f"{queue.delayed} delayed")
        if self.failing:
            fail = "1 fails" if self.failing == 1 else f"{self.failing} fail"
            parts.append(f"{fail}, last: {self.last_error}")
        if given_up := self.outcomes.get("terminal", 0):
            parts.append(f"{given_up} given up (terminal)")
        if self.hot:
            parts.append(f"hot loops of {', '.join(self.hot)}")
        if self.stuck:
            parts.append(f"ignore their end: {', '.join(self.stuck)}")
        return parts


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerGroupStatus:
    """How the controllers of a group are doing."""

    controllers: tuple[ControllerStatus, ...]
    watchdog: WatchdogStatistics
    """How often the event loop was blocked, and by which reconcile or handler."""
    abandoned: tuple[str, ...]
    """Reconciles that were left to themselves when the group was closed, and still run."""
