"""Which keys wait, which are being processed, and which must come again: no loop, no threads.

What enters are keys; what leaves are the same keys, each held by one worker at most, and none
lost: a key that is added while it is processed comes again once that is done. One dict knows both
states, so that a pass through the queue costs four look-ups: a moment for a key that waits, None
for one that is being processed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final, Generic, Protocol

from typing_extensions import TypeVar

from pyinformer.apimachinery import InvalidTypeError
from pyinformer.workqueue._meter import Meter
from pyinformer.workqueue._ordering import FIFO, Ordering

T = TypeVar("T", bound=Hashable)

_ABSENT: Final = math.nan  # told by identity: no moment, and not None


class Waiter(Protocol):
    """Somebody who waits for a key: a future of the event loop's."""

    def done(self) -> bool:
        """Tell whether it was woken or has gone."""
        ...

    def set_result(self, result: None, /) -> None:
        """Wake it."""
        ...


def unhashable(item: object, error: TypeError) -> InvalidTypeError:
    """Say that a key cannot be one."""
    kind = type(item).__name__
    return InvalidTypeError("item", f"a key must be hashable, and this {kind} is not: {error}")


class QueueCore(Generic[T]):
    """The decisions of a work queue; the loop's thread is the only one that may call them."""

    __slots__ = (
        "_again",
        "_clock",
        "_closed",
        "_dropped",
        "_is_quiet",
        "_mark",
        "_meter",
        "_ordering",
        "_peak",
        "_pop",
        "_push",
        "_ready",
        "_states",
        "_waiters",
    )

    def __init__(
        self, ordering: Ordering[T] | None, clock: Callable[[], float], meter: Meter | None
    ) -> None:
        self._states: dict[T, float | None] = {}
        self._again: set[T] = set()  # added while being processed
        self._ordering: Ordering[T] = FIFO[T]() if ordering is None else ordering
        ordering = self._ordering
        self._ready = ordering.items if isinstance(ordering, FIFO) else ordering
        self._push = ordering.push
        self._pop = ordering.pop
        self._clock = clock
        self._mark = 0.0  # since when a key that is added now waits; 0.0: the clock says it
        self._meter = meter
        self._waiters: deque[Waiter] = deque()
        self._closed = False
        self._is_quiet = meter is None  # one look in place of three, for every key
        self._peak = 0
        self._dropped = 0

    def __len__(self) -> int:
        """Count the keys that wait to be taken; not those that are processed or delayed."""
        return len(self._ready)

    def add_nowait(self, item: T) -> None:
        """Put a key into the queue; only on the loop's thread.

        A key that waits already is not put there twice. One that is being processed comes again
        once that is done. After shutdown nothing is added.

        Args:
            item: the key; hashable, not None.

        Raises:
            InvalidTypeError: the key is not hashable, or None; nothing was added.

        Source:
            client-go util/workqueue/queue.go, Add.
        """
        states = self._states
        try:
            known = item in states
        except TypeError as error:
            raise unhashable(item, error) from error
        if known:
            self._add_known(item)
            return
        if not self._is_quiet or item is None:
            self._add_heard(item)
            return
        self._push(item)
        states[item] = self._mark or self._read_clock()

    def get_nowait(self) -> T | None:
        """Take the key whose turn it is; only on the loop's thread.

        Returns:
            The key, now being processed until `done`; None if none waits.

        Source:
            client-go util/workqueue/queue.go, Get.
        """
        depth = len(self._ready)
        if not depth:
            return self._get_late()
        if depth > self._peak:  # noqa: PLR1730  (max() would be a call on the hot path)
            self._peak = depth
        item = self._pop()
        self._states[item] = None
        if self._meter is not None:
            self._count_taken(self._meter, item)
        return item

    def done(self, item: T) -> None:
        """Say that a key's processing is over; it comes again if it was added meanwhile.

        A key that is not being processed is left as it is.

        Args:
            item: what a get gave.

        Source:
            client-go util/workqueue/queue.go, Done.
        """
        since = self._states.pop(item, _ABSENT)
        if since is not None:
            if since is not _ABSENT:  # it waits: nobody processes it
                self._states[item] = since
            return
        if self._is_quiet and not self._again:
            return
        if self._meter is not None:
            self._meter.done(item, self._clock())
        if self._again and item in self._again:
            self._come_again(item)
        if self._closed:
            self._settle()

    def is_waiting(self, item: T) -> bool:
        """Tell whether a key will come, or come again, without being added once more."""
        return self._states.get(item) is not None or item in self._again

    def is_processing(self, item: T) -> bool:
        """Tell whether a key was taken and is not done."""
        return self._states.get(item, _ABSENT) is None

    def processing(self) -> list[T]:
        """Name the keys that were taken and are not done."""
        return [item for item, since in self._states.items() if since is None]

    def drop_waiting(self) -> list[T]:
        """Take out every key that waits and return them; what is being processed goes on.

        They count as dropped in the statistics. A key that was to come again after its processing
        is among them.
        """
        dropped = [self._pop() for _ in range(len(self._ready))]
        for item in dropped:
            del self._states[item]
        dropped += self._again
        self._again.clear()
        self._drop(dropped)
        if self._closed:
            self._settle()
        return dropped

    def _drop(self, items: list[T]) -> None:
        self._dropped += len(items)
        for item in items:
            self._forget(item)

    def _get_late(self) -> T | None:
        """Look once more, where nothing waits."""
        return None

    def _count_taken(self, meter: Meter, item: T) -> None:
        meter.taken(item, self._clock(), len(self._ready))

    def _add_heard(self, item: T) -> None:
        """Add a key where somebody may have to hear of it, or it may be refused."""
        if self._closed or item is None:
            self._refuse(item)
            return
        self._push(item)
        self._states[item] = self._mark or self._clock()
        if self._meter is not None:
            self._meter.added(item, self._clock(), len(self._ready))
        if self._waiters:
            self._wake_one()

    def _read_clock(self) -> float:
        """Read the clock for a key that is added; the reading may be kept for the next ones."""
        return self._clock()

    def _note_quiet(self) -> None:
        """See whether a key can come and go unheard: nobody counts, nobody waits, no end is near.

        To be called after whatever makes it less quiet.
        """
        self._is_quiet = self._meter is None and not self._waiters and not self._closed

    def _add_known(self, item: T) -> None:
        if self._closed:
            return
        if self._states[item] is not None:
            self._ordering.touch(item)
        elif item not in self._again:
            self._again.add(item)
            if self._meter is not None:
                self._meter.added(item, self._clock(), len(self._ready))

    def _refuse(self, item: T) -> None:
        """Add nothing, and say so if the key is the reason; after shutdown it is silent."""
        if item is None:
            raise InvalidTypeError("item", "None is what get_nowait gives when no key waits")

    def _come_again(self, item: T) -> None:
        self._again.remove(item)
        self._push(item)
        self._states[item] = self._mark or self._clock()
        if self._meter is not None:
            self._meter.depth(len(self._ready))
        if self._waiters:
            self._wake_one()

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                break
        self._note_quiet()

    def _wake_all(self) -> None:
        while self._waiters:
            self._wake_one()

    def _settle(self) -> None:
        """Tell those whom the end concerns, if this is it; the queue is closed."""

    def _forget(self, item: T) -> None:
        """Drop what else is known of a key that was dropped."""
        if self._meter is not None:
            self._meter.dropped(item, len(self._ready))

    def _use_clock(self, clock: Callable[[], float]) -> None:
        """Read another clock from now on; what waits keeps its age."""
        self._mark = 0.0
        if clock is not self._clock:
            seconds = clock() - self._clock()
            self._clock = clock
            self._shift(seconds)

    def _shift(self, seconds: float) -> None:
        for item, since in self._states.items():
            if since is not None:
                self._states[item] = since + seconds
        if self._meter is not None:
            self._meter.shift(seconds)
