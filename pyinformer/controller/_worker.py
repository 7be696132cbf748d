"""A worker's state, and the clock that watches over all workers of a controller.

What enters are the starts of reconciles; what leaves are cancellations of those beyond their
deadline, once each, and then the news that one ignores it. One timer serves all workers, and it is
never due later than the earliest deadline: a reconcile that ends in time rarely costs a timer.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeAlias, final

from pyinformer.controller._result import Result
from pyinformer.controller._status import WorkerStatus

if TYPE_CHECKING:
    from pyinformer.sources._request import Request
    from pyinformer.tasks import UserTask

Ended: TypeAlias = Result | BaseException | None
"""How a reconcile ended: what it returned, or what it raised."""


@final
class Worker:
    """One task, and what it is busy with.

    Args:
        name: names the task while it is idle.
        is_worker: it serves the queue, and not one request only.
    """

    __slots__ = (
        "cancelled_at",
        "is_replaced",
        "is_stuck",
        "is_worker",
        "name",
        "on_stuck",
        "request",
        "started_at",
        "task",
        "user_task",
    )

    def __init__(self, name: str, *, is_worker: bool) -> None:
        self.name: str = name
        self.is_worker: bool = is_worker
        self.on_stuck: Callable[[Ended], None] | None = None
        """Is told that nobody should wait for the reconcile."""
        self.request: Request | None = None
        self.started_at: float = 0.0
        self.cancelled_at: float | None = None
        """When the reconcile was cancelled because of its deadline."""
        self.is_stuck: bool = False
        """The reconcile ignores its cancellation."""
        self.is_replaced: bool = False
        """Another worker has taken its place: it ends when the reconcile does."""
        self.task: asyncio.Task[object]
        self.user_task: UserTask | None = None

    @property
    def is_detached(self) -> bool:
        """Whether nobody waits for it: the end was asked for from inside of it."""
        return self.user_task is not None and self.user_task.is_detached

    def status(self, now: float) -> WorkerStatus:
        """Return what it is busy with.

        Args:
            now: the loop's time.
        """
        request = self.request
        return WorkerStatus(
            name=self.name,
            request=None if request is None else str(request),
            seconds=0.0 if request is None else max(0.0, now - self.started_at),
            is_stuck=self.is_stuck,
        )


@final
class Deadlines:
    """Watches over workers.

    Args:
        workers: the workers as they come and go.
        timeout_seconds: how long a reconcile may take; None for ever.
        grace_seconds: how long it may take to end once it is cancelled.
        on_stuck: is told of a worker whose reconcile did not.
    """

    def __init__(
        self,
        workers: Collection[Worker],
        *,
        timeout_seconds: float | None,
        grace_seconds: float,
        on_stuck: Callable[[Worker], None],
    ) -> None:
        self._workers = workers
        self._timeout_seconds = timeout_seconds
        self._grace_seconds = grace_seconds
        self._on_stuck = on_stuck
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = math.inf

    def started(self, now: float) -> None:
        """Record that a reconcile begins at `now`; its deadline may be the earliest of all."""
        if self._timeout_seconds is not None:
            self._arm(now + self._timeout_seconds)

    def stop_nowait(self) -> None:
        """Watch no more."""
        self._timeout_seconds = None
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, at: float) -> None:
        """Have the timer fire at `at`, or earlier if it does so already."""
        if at >= self._fires_at:
            return
        if self._timer is not None:  # it waits for a later deadline, the end of a grace for one
            self._timer.cancel()
        self._fires_at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        self._timer, self._fires_at = None, math.inf
        now = asyncio.get_running_loop().time()
        next_at = min(
            (self._next_at(worker, now) for worker in tuple(self._workers)), default=math.inf
        )
        if next_at < math.inf and self._timeout_seconds is not None:
            self._arm(next_at)

    def _next_at(self, worker: Worker, now: float) -> float:
        """Do what is due for a worker; return when to look at it again."""
        if worker.request is None or worker.is_stuck or self._timeout_seconds is None:
            return math.inf
        if worker.cancelled_at is None:
            due_at = worker.started_at + self._timeout_seconds
            if now < due_at:
                return due_at
            worker.cancelled_at = now
            worker.task.cancel()
            return now + self._grace_seconds  # even without a grace it gets a step
        due_at = worker.cancelled_at + self._grace_seconds
        if now < due_at:
            return due_at
        self._on_stuck(worker)
        return math.inf
