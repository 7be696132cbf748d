"""The way into a controller's queue: a request is merged with its like, and so are the reasons.

What enters are requests with a reason each, from sources, from other threads and from outcomes;
what leaves is a request with all its reasons. Nothing here raises into whoever noticed something:
what comes after the end is counted and dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from pyinformer.sources._request import Reason, Request
    from pyinformer.workqueue import PriorityQueue

MAX_REASONS: Final = 8  # kept of one request: enough to see a loop, few enough for a storm

_NO_NEWS: Final = frozenset({"initial", "resync", "timer", "requeue"})
"""Reasons for which nothing has happened; a retry is of something that has."""


@final
class RequestQueue:
    """Puts requests and their reasons side by side.

    Args:
        queue: where the requests wait.
    """

    __slots__ = ("_queue", "_reasons", "refused")

    def __init__(self, queue: PriorityQueue[Request]) -> None:
        self._queue = queue
        self._reasons: dict[Request, tuple[Reason, ...]] = {}  # of waiting requests only
        self.refused: int = 0
        """Requests that came after the end."""

    def put_nowait(self, request: Request, reason: Reason, *, priority: int) -> None:
        """Take a request; on the loop's thread."""
        if self._note(request, reason):
            self._queue.add_nowait(request, priority=priority)

    def put(
        self, request: Request, reason: Reason, *, priority: int, after_seconds: float = 0.0
    ) -> None:
        """Take a request; from any thread, also before there is a loop."""
        if not self._note(request, reason):
            return
        if after_seconds > 0:
            self._queue.add_after(request, after_seconds, priority=priority)
        else:
            self._queue.add(request, priority=priority)

    def put_after_nowait(
        self, request: Request, reason: Reason, *, priority: int, after_seconds: float
    ) -> None:
        """Take a request that comes again; on the loop's thread.

        Args:
            request: what was reconciled; a retry keeps the reasons that it has.
            reason: why it comes again.
            priority: with which priority.
            after_seconds: when.
        """
        if reason.event == "retry":
            self._keep(request, reason)
        if self._note(request, reason):
            self._queue.add_after_nowait(request, after_seconds, priority=priority)

    def with_reasons(self, request: Request) -> Request:
        """Return a request that was just taken, with everything that led to it."""
        return request.with_reasons(self._reasons.pop(request, ()))

    def is_news(self, request: Request) -> bool:
        """Return whether anything has happened that a waiting request is made for."""
        return any(reason.event not in _NO_NEWS for reason in self._reasons.get(request, ()))

    def _keep(self, request: Request, retry: Reason) -> None:
        """Put the reasons of a failed reconcile before those that came meanwhile."""
        before = tuple(reason for reason in request.reasons if reason != retry)
        self._reasons[request] = (*before, *self._reasons.get(request, ()))

    def _note(self, request: Request, reason: Reason) -> bool:
        """Keep the newest reasons. Another thread may lose one of them, and never a request."""
        if self._queue.is_shutting_down:
            self.refused += 1
            return False
        known = self._reasons.get(request)
        if known is None:
            self._reasons[request] = (reason,)
        else:
            self._reasons[request] = (*_newest(known), reason)
        return True


def _newest(known: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Make room for one more; what has happened is not forgotten for reminders that follow it."""
    if len(known) < MAX_REASONS:
        return known
    left = known[1 - MAX_REASONS :]
    dropped = known[-MAX_REASONS]
    if dropped.event in _NO_NEWS or any(reason.event not in _NO_NEWS for reason in left):
        return left
    return (dropped, *left[1:])
