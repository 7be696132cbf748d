"""What waits for a handler or for the consumer of a stream.

A `Mailbox` keeps events in order while there is room and merges them per key beyond that, so a slow
handler costs bounded memory and still ends with the right state: per key it is called with `add
(update)* delete`. An `EventQueue` never merges; it overflows. Neither knows an event loop: the
caller passes `now`.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, final

from pyinformer.cache.informer.delivery._undelivered_objects import (
    CacheContents,
    ResyncList,
    UndeliveredObjects,
)
from pyinformer.errors import InternalError, InvalidArgumentError
from pyinformer.objects import (
    LARGE_BODY_BYTES,
    Added,
    Deleted,
    Event,
    KubeObject,
    Updated,
    V,
    stored_bytes,
)

_MERGED_KEPT = 256  # keys whose merges are remembered for explanations
_BYTES_PER_PLACE: Final = LARGE_BODY_BYTES
_LEAST_BYTES: Final = 16 << 20  # of bodies may always wait, however small the buffer is

Slot: TypeAlias = Event[V] | tuple[Deleted[V], Added[V]]
"""What waits for one key: an event, or two if another object has taken the name."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxStatistics:
    """How many events a mailbox holds, and how many it has merged."""

    depth: int
    """Waiting events."""
    peak: int
    """The most that were seen waiting."""
    coalesced: int
    """Events that were merged with another one that waited."""
    dropped_pairs: int
    """Additions that were dropped with their deletion before the handler was called."""
    oldest_seconds: float
    """An upper bound for how long the oldest event has waited; 0 if none waits."""


@final
class Mailbox(Generic[V]):
    """A bounded buffer of events: in order while there is room, merged per key beyond that.

    It holds at most `size` events in order, and per key one event or a deletion and an addition.
    Large objects are merged earlier: the events in order hold at most 16 KiB of bodies per place,
    and one event more. Bytes are counted only from the first large object of the informer on.

    Args:
        size: how many events are kept in order before they are merged per key.
        merges_at_once: keep nothing in order but merge from the first event on.
        on_first: called when something arrives in the empty mailbox.

    Raises:
        InvalidArgumentError: the size is less than 1.
    """

    overflowed: Final = False
    """A mailbox merges instead."""

    def __init__(
        self,
        *,
        size: int = 1024,
        merges_at_once: bool = False,
        on_first: Callable[[], None] = lambda: None,
    ) -> None:
        if size < 1:
            raise InvalidArgumentError("mailbox_size", f"must be an integer >= 1, got {size}")
        self._size = 0 if merges_at_once else size
        self._max_bytes = max(_LEAST_BYTES, size * _BYTES_PER_PLACE)
        self._on_first = on_first
        self.room: int = self._size
        """How much may wait in `queue`; 0 while anything waits elsewhere, or bytes are counted."""
        self._counts_bytes = False
        self._held = 0  # bytes in the queue, and those taken since they were counted
        self._is_heavy = False  # too many bytes: events are merged until no slot is left
        self._initial: UndeliveredObjects[V] | None = None  # before the queue
        self.queue: deque[Event[V]] = deque()
        """What waits in order. Always this deque.

        While there is `room`, the first event may be taken from it without `take_nowait`; then
        `places_vacated` must be increased.
        """
        self._slots: OrderedDict[str, Slot[V]] = OrderedDict()  # after the queue
        self._resyncs: ResyncList[V] | None = None  # each will be an Updated; after everything
        self._pairs = 0
        self._closed = False
        self.places_vacated: int = 0
        """How many places have been vacated at the front so far."""
        self._initial_end: int | None = None
        self._initial_was_taken = False
        self._peak = self._coalesced = self._dropped_pairs = 0
        self._oldest_at = self._mark_at = 0.0
        self._mark_place = 0
        self._merged: OrderedDict[str, int] = OrderedDict()  # recent merges by key

    def put_nowait(self, event: Event[V]) -> None:
        """Add one event; the hot path of every informer."""
        queue = self.queue
        if len(queue) < self.room:
            queue.append(event)
            if len(queue) == 1:
                self._on_first()
        else:
            self._put_slowly(event)

    def _put_slowly(self, event: Event[V]) -> None:
        if self._closed:
            return
        if self._is_empty():
            self._held = 0
            if self._size:
                self._enqueue(event)
            else:
                self._slots[event.key] = event
            self._settle()
            self._on_first()
            return
        key = event.key
        if self._resyncs is not None and self._resyncs.by_key().pop(key, None) is not None:
            self._coalesce(key)
        if self._initial is not None and key in self._initial:
            self._merge_initial(self._initial, key, event)
        elif self._is_full():
            self._merge(key, event)
        else:
            self._enqueue(event)
        self._settle()

    def count_bytes_nowait(self) -> None:
        """Count bytes from now on: the informer has received a large object."""
        self._counts_bytes = True
        self._held = _held_by(self.queue)
        self._settle()

    def _enqueue(self, event: Event[V]) -> None:
        self.queue.append(event)
        if self._counts_bytes:
            self._held += stored_bytes(newest(event))

    def _is_full(self) -> bool:
        """Return whether the next event must be merged."""
        if self._slots or len(self.queue) >= self._size:
            return True
        if self._held > self._max_bytes:
            self._held = _held_by(self.queue)
            # Half the limit: then much can be added before all bytes are counted again.
            self._is_heavy = self._held > self._max_bytes // 2
        return self._is_heavy

    def preload_nowait(self, objects: Collection[KubeObject[V]]) -> None:
        """Add the objects that exist already, as additions of the initial list.

        `CacheContents` costs nothing per object until it is taken.

        Args:
            objects: the cache's content; no key occurs twice.

        Raises:
            InternalError: events wait already, and the list would overtake them.
        """
        if self._closed:
            return
        if not self._is_empty():
            raise InternalError("a mailbox must be empty when it is given the initial list")
        if len(objects) > self._size:
            contents = objects if isinstance(objects, CacheContents) else CacheContents(objects)
            self._initial = UndeliveredObjects(contents)
        else:
            self.queue.extend(Added(obj, is_in_initial_list=True) for obj in objects)
        self._settle()
        if objects:
            self._on_first()

    def resync_nowait(self, objects: Iterable[KubeObject[V]]) -> None:
        """Add a resync event for each object, unless an event of its key waits to be merged.

        Args:
            objects: the cache's content as it is now.
        """
        if self._closed:
            return
        was_empty = self._is_empty()
        if self._resyncs is not None:
            self._coalesced += len(self._resyncs)
        self._resyncs = ResyncList(objects)
        if self._slots or self._initial is not None:
            self._yield_to_what_waits(self._resyncs.by_key())
        self._settle()
        if was_empty and self._resyncs is not None:
            self._on_first()

    def _yield_to_what_waits(self, resyncs: dict[str, KubeObject[V]]) -> None:
        waiting = set(self._slots)
        if self._initial is not None:
            waiting.update(self._initial.keys())
        for key in waiting & resyncs.keys():
            del resyncs[key]
            self._coalesced += 1

    def take_nowait(self) -> Event[V] | None:
        """Remove and return the oldest event; None if the mailbox is empty."""
        if self._initial is not None:
            self.places_vacated += 1
            added = Added(self._initial.take(), is_in_initial_list=True)
            self._settle()
            return added
        if self.queue:
            self.places_vacated += 1
            event = self.queue.popleft()
            if self._slots:
                self._move_up()
            return event
        if self._slots:  # of a mailbox that merges at once
            self.places_vacated += 1
            event = self._pop_slot()
            self._settle()
            return event
        if self._resyncs is not None:
            obj = self._resyncs.pop()
            self._settle()
            return Updated(obj, obj, is_resync=True)
        return None

    def _move_up(self) -> None:
        """Fill the queue from the slots; events in the queue are no longer merged."""
        self._initial_was_taken = self.initial_list_taken
        places = 1 if self._is_heavy else self._size
        while self._slots and len(self.queue) < places:
            self._enqueue(self._pop_slot())
        self._settle()

    def _pop_slot(self) -> Event[V]:
        key, slot = next(iter(self._slots.items()))
        if not isinstance(slot, tuple):
            del self._slots[key]
            return slot
        # The addition keeps the place, so that it follows at once; both count as one place.
        self._pairs -= 1
        self.places_vacated -= 1
        self._slots[key] = slot[1]
        return slot[0]

    def on_initial_list_complete(self) -> None:
        """Record that every addition of the initial list has been added."""
        if self._initial_end is None:
            # Places are added only at the end, and are vacated at the front or vanish. So when as
            # many as exist now are vacated, every initial addition was taken or merged away.
            self._initial_end = self.places_vacated + self._places()

    @property
    def initial_list_taken(self) -> bool:
        """Whether the initial list is complete and the handler has taken all of it."""
        end = self._initial_end
        if end is None:
            return False
        return self._initial_was_taken or self.places_vacated >= end or not self._places()

    def close_nowait(self) -> None:
        """Drop everything, and every later event."""
        self._closed = True
        self.room = self._pairs = 0
        self._initial = self._resyncs = None
        self.queue.clear()
        self._slots.clear()

    def observe_nowait(self, now: float) -> None:
        """Sample depth and age; called periodically by the reader."""
        depth = self.depth
        self._peak = max(self._peak, depth)
        if self.places_vacated >= self._mark_place:
            self._oldest_at, self._mark_at = self._mark_at, now
            self._mark_place = self.places_vacated + self._places()

    def stamp_nowait(self, now: float) -> None:
        """Record that the oldest event has just arrived."""
        self._oldest_at = self._mark_at = now
        self._mark_place = self.places_vacated + self._places()

    def statistics(self, now: float) -> MailboxStatistics:
        """Return depth, age and the number of merges.

        Args:
            now: of the same clock as for `observe_nowait` and `stamp_nowait`.
        """
        depth = self.depth
        return MailboxStatistics(
            depth=depth,
            peak=max(self._peak, depth),
            coalesced=self._coalesced,
            dropped_pairs=self._dropped_pairs,
            oldest_seconds=max(0.0, now - self._oldest_at) if depth else 0.0,
        )

    def holds(self, key: str) -> bool:
        """Return whether an event of a key waits; slow, callable from any thread."""
        initial, resyncs = self._initial, self._resyncs
        if key in self._slots or (initial is not None and key in initial):
            return True
        if resyncs is not None and resyncs.holds(key):
            return True
        return any(event.key == key for event in self.queue.copy())

    def coalesced_of(self, key: str) -> int:
        """Return how many events of a key were merged; 0 for a key that is no longer remembered."""
        return self._merged.get(key, 0)

    def _coalesce(self, key: str) -> None:
        self._coalesced += 1
        self._merged[key] = self._merged.pop(key, 0) + 1
        if len(self._merged) > _MERGED_KEPT:
            self._merged.popitem(last=False)

    def _is_empty(self) -> bool:
        return not (self.queue or self._slots or self._initial or self._resyncs)

    def _places(self) -> int:
        if self.room:
            return len(self.queue)
        return len(self._initial or ()) + len(self.queue) + len(self._slots)

    @property
    def depth(self) -> int:
        """How many events wait; readable from any thread."""
        if self.room:
            return len(self.queue)
        return self._places() + self._pairs + len(self._resyncs or ())

    def _settle(self) -> None:
        """Drop empty lists, and compute the room; without lists, events go to the queue again."""
        if self._initial is not None and not self._initial:
            self._initial = None
        if self._resyncs is not None and not self._resyncs:
            self._resyncs = None
        busy = self._slots or self._initial is not None or self._resyncs is not None
        if not self._slots:
            self._is_heavy = False
        self.room = 0 if busy or self._counts_bytes else self._size

    def _merge_initial(self, initial: UndeliveredObjects[V], key: str, event: Event[V]) -> None:
        if isinstance(event, Deleted):
            initial.remove(key)
            self._dropped_pairs += 1
        else:
            initial.change(newest(event))
            self._coalesce(key)

    def _merge(self, key: str, event: Event[V]) -> None:
        slot = self._slots.get(key)
        if slot is None:
            self._slots[key] = event
            return
        was_pair = isinstance(slot, tuple)
        merged = merge(slot, event)
        if merged is None:
            del self._slots[key]
        else:
            self._slots[key] = merged
        is_pair = isinstance(merged, tuple)
        self._pairs += is_pair - was_pair
        if merged is None or (was_pair and not is_pair):
            self._dropped_pairs += 1
        elif is_pair == was_pair:
            self._coalesce(key)


def _held_by(events: Iterable[Event[V]]) -> int:
    """Return the size of the bodies of events."""
    return sum(stored_bytes(newest(event)) for event in events)


def merge(slot: Slot[V], event: Event[V]) -> Slot[V] | None:
    """Merge an event into what waits for its key.

    Returns:
        What waits now; None if the object came and went without the handler knowing it.
    """
    if isinstance(slot, tuple):
        first, added = slot
        if isinstance(event, Deleted):
            return first  # with the uid that the handler knows
        return first, Added(newest(event), added.is_in_initial_list)
    match slot:
        case Added():
            gone = isinstance(event, Deleted)
            return None if gone else Added(newest(event), slot.is_in_initial_list)
        case Updated():
            if isinstance(event, Deleted):
                return event
            nothing_new = isinstance(event, Updated) and event.is_resync and slot.is_resync
            went_back = isinstance(event, Updated) and (event.may_go_back or slot.may_go_back)
            return Updated(slot.old, newest(event), nothing_new, went_back)
        case Deleted():
            return (slot, event) if isinstance(event, Added) else slot


def newest(event: Event[V]) -> KubeObject[V]:
    """Return the object as an event leaves it; of a deletion the last known state."""
    match event:
        case Added():
            return event.object
        case Updated():
            return event.new
        case Deleted():
            return event.last_known


@final
class EventQueue(Generic[V]):
    """A bounded queue of events in order; it overflows instead of merging.

    Args:
        max_events: how many may wait, the initial list not counted. Their bodies may have 16 KiB
            each on average, and 16 MiB in any case.
    """

    def __init__(self, max_events: int) -> None:
        self.overflowed: bool = False
        """Whether an event found no room; later ones are dropped, earlier ones can be taken."""
        self._max_events = max_events
        self._max_bytes = max(_LEAST_BYTES, max_events * _BYTES_PER_PLACE)
        self._bytes = 0
        self._not_counted = 0
        self._initial: Iterator[KubeObject[V]] = iter(())
        self._events: deque[Event[V]] = deque()

    def preload_nowait(self, objects: Collection[KubeObject[V]]) -> None:
        """Add the objects that exist already; each becomes an event when it is taken."""
        self._initial = iter(objects)

    def put_nowait(self, event: Event[V]) -> None:
        """Add one event if there is room; overflow otherwise."""
        if self.overflowed:
            return
        if event.__class__ is Added and event.is_in_initial_list:
            self._not_counted += 1  # of a namespace that has synced after others
        else:
            waiting = len(self._events) - self._not_counted
            if waiting >= self._max_events or (waiting and self._bytes > self._max_bytes):
                self.overflowed = True
                return
            self._bytes += stored_bytes(newest(event))
        self._events.append(event)

    def take_nowait(self) -> Event[V] | None:
        """Remove and return the oldest event; None if the queue is empty."""
        for obj in self._initial:
            return Added(obj, is_in_initial_list=True)
        event = self._events.popleft() if self._events else None
        if isinstance(event, Added) and event.is_in_initial_list:
            self._not_counted -= 1
        elif event is not None:
            self._bytes -= stored_bytes(newest(event))
        return event

    def close_nowait(self) -> None:
        """Drop everything."""
        self._initial = iter(())
        self._events.clear()
