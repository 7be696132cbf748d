"""A work queue whose keys may be added for later.

What enters are keys with a delay; what leaves are keys whose time has come, by time. A key waits
once: with several times the earliest stands, and one that is to be taken anyway is not also kept
for later. No task and no timer runs for it unless somebody waits for a key.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Hashable
from functools import partial
from itertools import islice
from typing import Generic, Literal

from typing_extensions import TypeVar

from pyinformer._clock import monotonic
from pyinformer.apimachinery import InvalidArgumentError
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.workqueue._core import QueueCore, unhashable
from pyinformer.workqueue._ordering import Ordering
from pyinformer.workqueue._queue import Queue
from pyinformer.workqueue._schedule import Schedule

T = TypeVar("T", bound=Hashable)

OnShutdown = Literal["drop", "flush"]

_SLICE = 1_000  # due keys moved in one step: about 2 ms


class DelayingQueue(Queue[T], Generic[T]):
    """A Queue with `add_after`.

    Source:
        client-go util/workqueue/delaying_queue.go.
    """

    __slots__ = ("_moments", "_on_shutdown", "_schedule")

    def __init__(
        self,
        name: str = "",
        *,
        on_shutdown: OnShutdown = "drop",
        metrics: Metrics = NO_METRICS,
        ordering: Ordering[T] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Make an empty queue.

        Args:
            name: the label of its metrics.
            on_shutdown: what becomes of keys that wait for their time when the queue is shut
                down: "drop" counts and returns them, "flush" has them taken at once.
            metrics: where its figures go, under client-go's names.
            ordering: who comes first, in place of the one who came first; it belongs to this
                queue from now on.
            clock: monotonic seconds; by default the loop's time, once there is a loop.

        Raises:
            InvalidArgumentError: `on_shutdown` is neither.
        """
        if on_shutdown not in {"drop", "flush"}:
            raise InvalidArgumentError("on_shutdown", f"{on_shutdown!r}; give 'drop' or 'flush'")
        super().__init__(name, metrics=metrics, ordering=ordering, clock=clock)
        self._on_shutdown = on_shutdown
        self._schedule = Schedule[T]()
        self._moments = self._schedule.moments  # tells at once, in C, whether anything is there

    def add_nowait(self, item: T) -> None:
        """Put a key into the queue; only on the loop's thread.

        As `Queue.add_nowait`; a key that waited for its time waits no longer.

        Args:
            item: the key; hashable, not None.

        Raises:
            InvalidTypeError: the key is not hashable, or None; nothing was added.
        """
        if self._moments:
            self._promote()
        Queue.add_nowait(self, item)
        if self._moments:
            self._schedule.discard(item)

    def get_nowait(self) -> T | None:
        """Take the key whose turn it is; only on the loop's thread.

        Returns:
            The key, now being processed until `done`; None if none waits, or none is due.
        """
        if self._moments:
            self._promote()
        return Queue.get_nowait(self)

    def __len__(self) -> int:
        """Count the keys that wait to be taken; not those that are processed or not yet due."""
        depth = super().__len__()
        if self._moments:
            self._promote()
            depth = len(self._ready)
        return depth

    def add_after(self, item: T, delay_seconds: float) -> None:
        """Put a key into the queue after a delay; from any thread, also before there is a loop.

        As `add_after_nowait`; the delay begins with this call.

        Args:
            item: the key; hashable, not None.
            delay_seconds: how long it waits; 0 or less is at once.

        Raises:
            InvalidTypeError: the key is not hashable, or None; nothing was added.
            InvalidArgumentError: the delay is not a finite number.
        """
        check_delay(delay_seconds)
        if self._is_here():
            self.add_after_nowait(item, delay_seconds)
        else:
            self._hand_over(item, partial(self._add_since, item, delay_seconds, self._stamp()))

    def add_after_nowait(self, item: T, delay_seconds: float) -> None:
        """Put a key into the queue after a delay; only on the loop's thread.

        With several delays the earliest time stands, and a key that waits to be taken anyway is
        not kept for later too: it comes once. After shutdown nothing is added.

        Args:
            item: the key; hashable, not None.
            delay_seconds: how long it waits; 0 or less is at once.

        Raises:
            InvalidTypeError: the key is not hashable, or None; nothing was added.
            InvalidArgumentError: the delay is not a finite number.

        Source:
            client-go util/workqueue/delaying_queue.go, AddAfter.
        """
        check_delay(delay_seconds)
        if self._meter is not None and not self._closed:
            self._meter.retried()
        if delay_seconds <= 0 or self._closed:
            DelayingQueue.add_nowait(self, item)  # a subclass has noted the priority already
            return
        try:
            waits = self._waits_to_be_taken(item)
        except TypeError as error:
            raise unhashable(item, error) from error
        if item is None:
            self._refuse(item)
        if not waits:
            self._schedule.put(item, self._clock() + delay_seconds)
            if self._waiters:
                self._arm()

    def forget_delayed(self, item: T) -> bool:
        """Drop a key that waits for its time; tell whether it did."""
        found = self._schedule.discard(item)
        if found:
            self._forget(item)
        return found

    def is_waiting(self, item: T) -> bool:
        """Tell whether a key will come, or come again, without being added once more."""
        return self._waits_to_be_taken(item) or item in self._schedule

    def drop_waiting(self) -> list[T]:
        """Take out every key that waits and return them; what is being processed goes on.

        They count as dropped in the statistics. A key that was to come again after its processing
        is among them, and so is one whose time has not come.
        """
        delayed = self._schedule.clear()
        self._drop(delayed)
        return super().drop_waiting() + delayed

    def _waits_to_be_taken(self, item: T) -> bool:
        return QueueCore.is_waiting(self, item)

    def _add_since(self, item: T, delay_seconds: float, stamp: float) -> None:
        """Add a key for later whose delay began a moment ago, elsewhere."""
        self.add_after_nowait(item, delay_seconds - (self._stamp() - stamp))

    def _stamp(self) -> float:
        """Read a clock that any thread may read, before there is a loop and after."""
        return self._clock() if self._has_own_clock else monotonic()

    def _promote(self) -> None:
        """Let those wait to be taken whose time has come."""
        now = self._clock()
        if self._moments and self._moments[0] <= now:
            for item in islice(self._schedule.pop_due(now), _SLICE):
                self._enqueue_due(item)

    def _enqueue_due(self, item: T) -> None:
        Queue.add_nowait(self, item)

    def _arm(self) -> None:
        if not self._moments:
            return
        loop = asyncio.get_running_loop()
        at = self._moments[0]
        if self._has_own_clock:
            at += loop.time() - self._clock()
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._fall_due)

    def _fall_due(self) -> None:
        self._timer = None
        self._promote()
        if self._waiters or (self._moments and self._moments[0] <= self._clock()):
            self._arm()

    def _close(self) -> list[T]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closed:
            return []
        if self._handover.thread == 0:
            self._handover.run_nowait()
        waiting = self._schedule.clear()
        if self._on_shutdown == "flush":
            for item in waiting:
                self._enqueue_due(item)
            waiting = []
        self._drop(waiting)
        super()._close()
        return waiting

    def _shift(self, seconds: float) -> None:
        super()._shift(seconds)
        self._schedule.shift(seconds)

    def _delayed(self) -> int:
        return len(self._schedule)


def check_delay(delay_seconds: float) -> None:
    """Refuse a delay that is no number, or that never ends.

    Raises:
        InvalidArgumentError: naming the argument.
    """
    if not isinstance(delay_seconds, int | float) or not math.isfinite(delay_seconds):
        reason = f"{delay_seconds!r} is no delay; give finite seconds"
        raise InvalidArgumentError("delay_seconds", reason)
