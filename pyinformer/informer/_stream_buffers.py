"""What waits for the consumer of an event stream, in the two ways of delivery.

The content of the cache and every later event enter; the oldest that is left leaves. Each way has
a bound that no event gets past unseen: `every_event` holds so many and then refuses, `coalesced`
holds one event per key, or a deletion and an addition where another object has taken the name.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterator
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar, final, get_args

from pyinformer.apimachinery import (
    Added,
    Deleted,
    Event,
    InvalidArgumentError,
    InvalidTypeError,
    KubeObject,
    V,
    View,
    stored_bytes,
)
from pyinformer.informer._initial_list import CacheContents, InitialList
from pyinformer.informer._mailbox import BYTES_PER_PLACE, LEAST_BYTES, Slot, merge, newest

Delivery: TypeAlias = Literal["every_event", "coalesced"]
"""Each event by itself and in order, or of each key what has become of it since the last look."""

_B = TypeVar("_B", bound=View | None)


class Buffer(Protocol[_B]):
    """Holds what a consumer has not taken yet."""

    def preload_nowait(self, objects: Collection[KubeObject[_B]]) -> None:
        """Take what exists already, as additions of the initial list, before anything else."""
        ...

    def put_nowait(self, event: Event[_B]) -> bool:
        """Take one event; False if there is no room for it."""
        ...

    def take_nowait(self) -> Event[_B] | None:
        """Return the oldest event and forget it; None if there is none."""
        ...

    def clear_nowait(self) -> None:
        """Forget everything."""
        ...


def buffer_of(delivery: Delivery, max_events: int) -> Buffer[V]:
    """Return the buffer for a way of delivery.

    Raises:
        InvalidArgumentError: there is no such way, or max_events is less than 1.
        InvalidTypeError: max_events is no whole number.
    """
    if delivery not in get_args(Delivery):
        reason = f"{delivery!r} is none of {', '.join(get_args(Delivery))}"
        raise InvalidArgumentError("delivery", reason)
    if not isinstance(max_events, int) or isinstance(max_events, bool):
        raise InvalidTypeError("max_events", f"is a whole number, not {max_events!r}")
    if max_events < 1:
        raise InvalidArgumentError("max_events", f"{max_events} is too small; 1 is the least")
    return CoalescedEvents() if delivery == "coalesced" else EveryEvent(max_events)


@final
class EveryEvent(Generic[V]):
    """Each event, in the order in which they happened, up to a bound.

    Args:
        max_events: how many may wait, what existed at the beginning not counted. Their bodies
            may have 16 KiB each, on the average, and 16 MiB in any case.
    """

    def __init__(self, max_events: int) -> None:
        self._max_events = max_events
        self._max_bytes = max(LEAST_BYTES, max_events * BYTES_PER_PLACE)
        self._bytes = 0
        self._not_counted = 0
        self._initial: Iterator[KubeObject[V]] = iter(())
        self._events: deque[Event[V]] = deque()

    def preload_nowait(self, objects: Collection[KubeObject[V]]) -> None:
        """Take what exists already; nothing is made of an object before its turn."""
        self._initial = iter(objects)

    def put_nowait(self, event: Event[V]) -> bool:
        """Take one event if there is room."""
        is_initial = event.__class__ is Added and event.is_in_initial_list
        if is_initial:  # of a namespace that has synced after others
            self._not_counted += 1
        else:
            waiting = len(self._events) - self._not_counted
            if waiting >= self._max_events or (waiting and self._bytes > self._max_bytes):
                return False
            self._bytes += stored_bytes(newest(event))
        self._events.append(event)
        return True

    def take_nowait(self) -> Event[V] | None:
        """Return the oldest event."""
        for obj in self._initial:
            return Added(obj, is_in_initial_list=True)
        event = self._events.popleft() if self._events else None
        if isinstance(event, Added) and event.is_in_initial_list:
            self._not_counted -= 1
        elif event is not None:
            self._bytes -= stored_bytes(newest(event))
        return event

    def clear_nowait(self) -> None:
        """Forget everything."""
        self._initial = iter(())
        self._not_counted = self._bytes = 0
        self._events.clear()


@final
class CoalescedEvents(Generic[V]):
    """Of each key what leads from what the consumer knows to what is.

    Keys leave in the order in which something first happened to them. So no more waits than two
    events for each key that is cached or that the consumer still believes to be: an object that
    comes and goes unseen leaves nothing behind.
    """

    def __init__(self) -> None:
        self._initial: InitialList[V] | None = None  # before the slots
        self._slots: OrderedDict[str, Slot[V]] = OrderedDict()

    def __len__(self) -> int:
        pairs = sum(isinstance(slot, tuple) for slot in self._slots.values())
        return len(self._initial or ()) + len(self._slots) + pairs

    def preload_nowait(self, objects: Collection[KubeObject[V]]) -> None:
        """Take what exists already; nothing is made of an object before its turn."""
        contents = objects if isinstance(objects, CacheContents) else CacheContents(objects)
        self._initial = InitialList(contents) if contents else None

    def put_nowait(self, event: Event[V]) -> bool:
        """Merge one event into what waits for its key; there is always room."""
        key = event.key
        if self._initial is not None and key in self._initial:
            self._merge_initial(self._initial, event)
            return True
        slot = self._slots.get(key)
        merged = event if slot is None else merge(slot, event)
        if merged is None:
            del self._slots[key]
        else:
            self._slots[key] = merged
        return True

    def _merge_initial(self, initial: InitialList[V], event: Event[V]) -> None:
        if isinstance(event, Deleted):
            initial.remove(event.key)
            self._initial = initial or None
        else:
            initial.change(newest(event))

    def take_nowait(self) -> Event[V] | None:
        """Return what has waited longest."""
        if self._initial is not None:
            added = Added(self._initial.take(), is_in_initial_list=True)
            self._initial = self._initial or None
            return added
        if not self._slots:
            return None
        key, slot = next(iter(self._slots.items()))
        if isinstance(slot, tuple):
            self._slots[key] = slot[1]  # keeps the place: it follows at once
            return slot[0]
        del self._slots[key]
        return slot

    def clear_nowait(self) -> None:
        """Forget everything."""
        self._initial = None
        self._slots.clear()
