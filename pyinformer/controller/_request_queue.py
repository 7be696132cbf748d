"""A controller's queue: requests that wait, each once, with the reasons for all of them.

Adding never raises into the code that observed an event: requests that come after the end are
counted and dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from pyinformer.controller._debounce import Debounce
from pyinformer.controller.sources import RequestId
from pyinformer.workqueue import PriorityQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.controller._gate import Gate
    from pyinformer.controller.sources import Reason, Request
    from pyinformer.telemetry.metrics import Metrics

MAX_REASONS: Final = 8  # kept of one request: enough to see a loop, few enough for a storm

_WITHOUT_CHANGE: Final = frozenset({"initial", "resync", "timer", "requeue"})
"""Reasons for which nothing has changed; a retry is of a request for which something has."""
_EVENTS: Final = frozenset({"added", "updated", "deleted", "superseded"})
"""Reasons that are events of an informer."""


@final
class DueTimes:
    """When each waiting request was due first, for programs that trace how long it waited."""

    __slots__ = ("_due_at", "clock")

    def __init__(self) -> None:
        self.clock: Callable[[], float] | None = None
        """The loop's clock, once a loop runs; requests that were put earlier have no due time."""
        self._due_at: dict[RequestId, float] = {}

    def put(self, request_id: RequestId, after_seconds: float) -> None:
        """Record that a request is due after a delay, unless it is due earlier; any thread."""
        if self.clock is not None:
            due_at = self.clock() + after_seconds
            self._due_at[request_id] = min(due_at, self._due_at.get(request_id, due_at))

    def take(self, request_id: RequestId) -> float | None:
        """Return how long a request has been due, and forget it; None if it is not known."""
        due_at = self._due_at.pop(request_id, None)
        return None if due_at is None or self.clock is None else max(0.0, self.clock() - due_at)

    def clear(self) -> None:
        """Forget all."""
        self._due_at.clear()


@final
class RequestQueue:
    """The requests of one controller.

    Args:
        name: the label of its metrics.
        metrics: where its metrics go.
    """

    __slots__ = (
        "_event_at",
        "_is_closed",
        "_now",
        "_reasons",
        "debounce",
        "due",
        "gate",
        "queue",
        "refused",
    )

    def __init__(self, name: str, metrics: Metrics) -> None:
        self.queue: PriorityQueue[RequestId] = PriorityQueue(name, metrics=metrics)
        """The ids of the requests that wait, are delayed, or are being reconciled."""
        self._reasons: dict[RequestId, tuple[Reason, ...]] = {}  # of waiting requests only
        self._event_at: dict[RequestId, float] = {}  # of waiting requests, the first event
        self._now: Callable[[], float] | None = None  # None: not measured
        self._is_closed = False
        self.due: DueTimes | None = None
        """When the waiting requests were due; None unless reconciles are traced."""
        self.debounce: Debounce | None = None
        """Which waiting requests are debounced; None if none is, and before the start."""
        self.refused: int = 0
        """Requests that came after the end."""
        self.gate: Gate | None = None
        """Where replicas share the requests: what it does not admit is not added."""

    def start(self, clock: Callable[[], float], *, debounce_seconds: float) -> None:
        """Read the loop's clock from now on.

        Args:
            clock: the loop's time, from any thread.
            debounce_seconds: how long new requests are debounced; 0 for not at all.
        """
        if self.due is not None:
            self.due.clock = clock
        if debounce_seconds > 0:
            self.debounce = Debounce(debounce_seconds, clock)

    def measure_events(self, now: Callable[[], float]) -> None:
        """Record from now on when the first event of each waiting request came.

        Args:
            now: the loop's time, from any thread.
        """
        self._now = now

    def take_event_at(self, request_id: RequestId) -> float | None:
        """Return and forget when the first event of a request that starts came."""
        return self._event_at.pop(request_id, None)

    def put_nowait(self, request: Request, reason: Reason, *, priority: int) -> None:
        """Add a request; on the loop's thread."""
        request_id = request._id
        if self.debounce is not None:
            self.put(request, reason, priority=priority)
        elif self._add_reason(request_id, reason, 0.0):
            self.queue.add_nowait(request_id, priority=priority)

    def put(
        self, request: Request, reason: Reason, *, priority: int, after_seconds: float = 0.0
    ) -> None:
        """Add a request; from any thread, also before there is a loop."""
        debounce, has_time = self.debounce, after_seconds > 0
        if debounce is not None and not has_time:
            after_seconds = debounce.seconds
        if not self._add_reason(request._id, reason, after_seconds):
            return
        if debounce is not None:
            if has_time:
                debounce.requested_after(request._id, after_seconds)
            else:
                debounce.requested(request._id)
        if after_seconds > 0:
            self.queue.add_after(request._id, after_seconds, priority=priority)
        else:
            self.queue.add(request._id, priority=priority)

    def put_again_nowait(
        self, request: Request, reason: Reason, *, priority: int, after_seconds: float
    ) -> None:
        """Add a request that was reconciled; on the loop's thread.

        Args:
            request: what was reconciled; a retry keeps the reasons that it has.
            reason: why it comes again.
            priority: its priority then.
            after_seconds: the delay.
        """
        request_id = request._id
        if self.gate is not None and not self.gate.admits(request_id):
            return  # before its reasons are kept
        if reason.event == "retry":  # the reasons of the failed reconcile precede newer ones
            newer = self._reasons.get(request_id, ())
            before = (each for each in request.reasons if each != reason and each not in newer)
            self._reasons[request_id] = (*before, *newer)
        if self._add_reason(request_id, reason, after_seconds):
            if self.debounce is not None:
                self.debounce.requested_after(request_id, after_seconds)
            self.queue.add_after_nowait(request_id, after_seconds, priority=priority)

    def is_debounced(self, request_id: RequestId, now: float, priority: int) -> bool:
        """Return whether a request that was taken has to wait on; it is put back then.

        Args:
            request_id: the request.
            now: the loop's time.
            priority: the priority with which it is put back.
        """
        wait_seconds = 0.0 if self.debounce is None else self.debounce.wait_seconds(request_id, now)
        if wait_seconds <= 0:
            return False
        if self.due is not None:
            self.due.take(request_id)
            self.due.put(request_id, wait_seconds)
        self.queue.add_after_nowait(request_id, wait_seconds, priority=priority)
        return True

    def admits(self, request_id: RequestId) -> bool:
        """Return whether a request is this process's; from any thread."""
        return self.gate is None or self.gate.admits(request_id)

    def take_reasons(self, request_id: RequestId) -> tuple[Reason, ...]:
        """Return and forget the reasons of a request that starts."""
        if self.debounce is not None:
            self.debounce.forget(request_id)
        return self._reasons.pop(request_id, ())

    def has_changes(self, request_id: RequestId) -> bool:
        """Return whether something changed for which a waiting request was made."""
        reasons = self._reasons.get(request_id, ())
        return any(reason.event not in _WITHOUT_CHANGE for reason in reasons)

    def forget(self, request_id: RequestId) -> None:
        """Forget a request, which may wait: another process has it."""
        self.queue.remove(request_id)
        self._reasons.pop(request_id, None)
        self._event_at.pop(request_id, None)
        if self.debounce is not None:
            self.debounce.forget(request_id)
        if self.due is not None:
            self.due.take(request_id)

    def close(self) -> None:
        """Drop the requests that wait, and refuse new ones."""
        self._is_closed = True
        if self.debounce is not None:
            self.debounce.clear()
        if self.due is not None:
            self.due.clear()
        self.queue.shut_down()
        self.queue.drop_waiting()

    def _add_reason(self, request_id: RequestId, reason: Reason, after_seconds: float) -> bool:
        """Keep the newest reasons. Another thread may lose one of them, but never a request."""
        if self._is_closed:
            self.refused += 1
            return False
        if self.gate is not None and not self.gate.admits(request_id):
            return False
        if self.due is not None:
            self.due.put(request_id, after_seconds)
        known = self._reasons.get(request_id)
        self._reasons[request_id] = (reason,) if known is None else (*_newest(known), reason)
        if self._now is not None and reason.event in _EVENTS:
            self._event_at.setdefault(request_id, self._now())
        return True


def _newest(known: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Make room for one more reason; resyncs and timers do not displace the last change."""
    if len(known) < MAX_REASONS:
        return known
    left = known[1 - MAX_REASONS :]
    dropped = known[-MAX_REASONS]
    if dropped.event in _WITHOUT_CHANGE or any(one.event not in _WITHOUT_CHANGE for one in left):
        return left
    return (dropped, *left[1:])
