"""The bounded buffer between the informer and one handler.

Events enter in the order in which they happened and leave in that order while there is room;
beyond that they are merged per key, at most [delete, add] for each, until room comes free. So per
key the handler still hears `add (update)* delete` and ends with the right mirror. Never holds more
than `size` events plus two per key. Knows no event loop: whoever has one passes `now` and is told
by a call when there is something to take. Events of large objects are merged earlier: what waits in
order holds no more than 16 KiB for each place, and one event beside it. While the informer has
received no larger object it cannot be more, so bytes are counted from the first of those on.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, final

from pyinformer.apimachinery import (
    LARGE_BODY_BYTES,
    Added,
    Deleted,
    Event,
    InternalError,
    InvalidArgumentError,
    KubeObject,
    Updated,
    V,
    stored_bytes,
)
from pyinformer.informer._backlog import ResyncList
from pyinformer.informer._initial_list import CacheContents, InitialList

_MERGED_KEPT = 256  # keys whose merges are remembered
BYTES_PER_PLACE: Final = LARGE_BODY_BYTES
"""Of the bodies that wait for a reader."""
LEAST_BYTES: Final = 16 << 20
"""So much may wait, however few the places are."""

Slot: TypeAlias = Event[V] | tuple[Deleted[V], Added[V]]
"""What waits for one key: an event, or two where another object has taken the name."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxStatistics:
    """What a mailbox holds and what it had to merge."""

    depth: int
    """Events that wait now."""
    peak: int
    """The most that were seen waiting."""
    coalesced: int
    """Events that were merged into one that waited already, or gave way to one."""
    dropped_pairs: int
    """Additions that were taken back before the handler heard of them."""
    oldest_seconds: float
    """How long the oldest event has waited, at most; 0 if none waits."""


@final
class Mailbox(Generic[V]):
    """Holds what one handler has not heard yet.

    Args:
        size: how many events are kept in their order before they are merged per key.
        on_first: is called when something arrives in an empty mailbox.

    Raises:
        InvalidArgumentError: the size is less than 1.
    """

    def __init__(self, *, size: int = 1024, on_first: Callable[[], None] = lambda: None) -> None:
        if size < 1:
            raise InvalidArgumentError("mailbox_size", f"{size} is too small; 1 is the least")
        self._size = size
        self._max_bytes = max(LEAST_BYTES, size * BYTES_PER_PLACE)
        self._on_first = on_first
        self._room = size  # 0: nothing may go straight to the queue
        self._counts_bytes = False
        self._held = 0  # bytes in the queue, and those that were taken since they were counted
        self._is_heavy = False  # they were too many: nothing enters it before it is empty
        self._initial: InitialList[V] | None = None  # each an Added to be; before the queue
        self._queue: deque[Event[V]] = deque()
        self._slots: OrderedDict[str, Slot[V]] = OrderedDict()  # after the queue
        self._resyncs: ResyncList[V] | None = None  # each an Updated to be; after everything
        self._pairs = 0
        self._closed = False
        self._places_left = 0  # places that have been vacated from the front
        self._initial_end: int | None = None
        self._initial_was_taken = False
        self._peak = self._coalesced = self._dropped_pairs = 0
        self._oldest_at = self._mark_at = 0.0
        self._mark_place = 0
        self._merged: OrderedDict[str, int] = OrderedDict()  # lately, for whoever asks why

    def put_nowait(self, event: Event[V]) -> None:
        """Take one event; the hot path of every informer."""
        if 0 < len(self._queue) < self._room:
            self._queue.append(event)
        else:
            self._put_slowly(event)

    def _put_slowly(self, event: Event[V]) -> None:
        if self._closed:
            return
        if self._is_empty():
            self._held = 0
            self._enqueue(event)
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
        """Count the bytes of what waits from now on: the informer has received a large object."""
        self._counts_bytes = True
        self._held = _held_by(self._queue)
        self._settle()

    def _enqueue(self, event: Event[V]) -> None:
        self._queue.append(event)
        if self._counts_bytes:
            self._held += stored_bytes(newest(event))

    def _is_full(self) -> bool:
        """Return whether an event is to be merged: there are slots, or the queue holds enough."""
        if self._slots or len(self._queue) >= self._size:
            return True
        if self._held > self._max_bytes:
            self._held = _held_by(self._queue)
            # Half, so that much is added before all are counted again.
            self._is_heavy = self._held > self._max_bytes // 2
        return self._is_heavy

    def preload_nowait(self, objects: Collection[KubeObject[V]]) -> None:
        """Take what exists already, as additions of the initial list.

        Of `CacheContents` nothing is made per object until it is taken, however many there are.

        Args:
            objects: the cache's content, no key twice.

        Raises:
            InternalError: something waits already, which would be overtaken.
        """
        if self._closed:
            return
        if not self._is_empty():
            raise InternalError("A mailbox that holds events was given an initial list")
        if len(objects) > self._size:
            contents = objects if isinstance(objects, CacheContents) else CacheContents(objects)
            self._initial = InitialList(contents)
        else:
            self._queue.extend(Added(obj, is_in_initial_list=True) for obj in objects)
        self._settle()
        if objects:
            self._on_first()

    def resync_nowait(self, objects: Iterable[KubeObject[V]]) -> None:
        """Take reminders of what exists; where anything of a key is merged already, it suffices.

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
        """Return the oldest event and forget it; None if there is none."""
        if self._initial is not None:
            self._places_left += 1
            added = Added(self._initial.take(), is_in_initial_list=True)
            self._settle()
            return added
        if self._queue:
            self._places_left += 1
            event = self._queue.popleft()
            if self._slots:
                self._move_up()
            return event
        if self._resyncs is not None:
            obj = self._resyncs.pop()
            self._settle()
            return Updated(obj, obj, is_resync=True)
        return None

    def _move_up(self) -> None:
        """Fill the queue from the slots: what finds room there is merged no more."""
        self._initial_was_taken = self.initial_list_taken
        places = 1 if self._is_heavy else self._size
        while self._slots and len(self._queue) < places:
            key, slot = next(iter(self._slots.items()))
            if isinstance(slot, tuple):
                # The addition keeps the place, so that it follows at once; both count as one.
                self._pairs -= 1
                self._places_left -= 1
                self._slots[key] = slot[1]
                self._enqueue(slot[0])
            else:
                del self._slots[key]
                self._enqueue(slot)
        self._settle()

    def on_initial_list_complete(self) -> None:
        """Take note that every addition of the initial list has been put in."""
        if self._initial_end is None:
            # Places are only ever added behind; those in front are taken or vanish. So once as
            # many were taken as there are now, every initial addition was taken or merged away.
            self._initial_end = self._places_left + self._places()

    @property
    def initial_list_taken(self) -> bool:
        """Whether the initial list is complete and none of it waits here any more."""
        end = self._initial_end
        if end is None:
            return False
        return self._initial_was_taken or self._places_left >= end or not self._places()

    def close_nowait(self) -> None:
        """Forget everything, and all that comes from now on."""
        self._closed = True
        self._room = self._pairs = 0
        self._initial = self._resyncs = None
        self._queue.clear()
        self._slots.clear()

    def observe_nowait(self, now: float) -> None:
        """Take note of depth and age; whoever takes events calls this at times."""
        self._peak = max(self._peak, self._depth())
        if self._places_left >= self._mark_place:
            self._oldest_at, self._mark_at = self._mark_at, now
            self._mark_place = self._places_left + self._places()

    def stamp_nowait(self, now: float) -> None:
        """Take note that the oldest event has arrived now."""
        self._oldest_at = self._mark_at = now
        self._mark_place = self._places_left + self._places()

    def statistics(self, now: float) -> MailboxStatistics:
        """Return what is in here and what was merged.

        Args:
            now: of the clock that was used for `observe_nowait` and `stamp_nowait`.
        """
        depth = self._depth()
        return MailboxStatistics(
            depth=depth,
            peak=max(self._peak, depth),
            coalesced=self._coalesced,
            dropped_pairs=self._dropped_pairs,
            oldest_seconds=max(0.0, now - self._oldest_at) if depth else 0.0,
        )

    def holds(self, key: str) -> bool:
        """Tell whether anything of a key waits; slow, for explanations, from any thread."""
        initial, resyncs = self._initial, self._resyncs
        if key in self._slots or (initial is not None and key in initial):
            return True
        if resyncs is not None and resyncs.holds(key):
            return True
        return any(event.key == key for event in self._queue.copy())

    def coalesced_of(self, key: str) -> int:
        """Return how many events of a key were merged lately, as far as is remembered."""
        return self._merged.get(key, 0)

    def _coalesce(self, key: str) -> None:
        self._coalesced += 1
        self._merged[key] = self._merged.pop(key, 0) + 1
        if len(self._merged) > _MERGED_KEPT:
            self._merged.popitem(last=False)

    def _is_empty(self) -> bool:
        return not (self._queue or self._slots or self._initial or self._resyncs)

    def _places(self) -> int:
        return len(self._initial or ()) + len(self._queue) + len(self._slots)

    def _depth(self) -> int:
        return self._places() + self._pairs + len(self._resyncs or ())

    def _settle(self) -> None:
        """Let go of what is used up; with all of it gone, events go straight to the queue."""
        if self._initial is not None and not self._initial:
            self._initial = None
        if self._resyncs is not None and not self._resyncs:
            self._resyncs = None
        busy = self._slots or self._initial is not None or self._resyncs is not None
        if not self._slots:
            self._is_heavy = False
        self._room = 0 if busy or self._counts_bytes else self._size

    def _merge_initial(self, initial: InitialList[V], key: str, event: Event[V]) -> None:
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
    """Return how long the bodies are that events bring."""
    return sum(stored_bytes(newest(event)) for event in events)


def merge(slot: Slot[V], event: Event[V]) -> Slot[V] | None:
    """Merge an event into what waits for its key.

    Returns:
        What waits now; None if the handler need not hear of the object at all.
    """
    if isinstance(slot, tuple):
        first, added = slot
        if isinstance(event, Deleted):
            return first  # its uid is the one that the handler knows
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
