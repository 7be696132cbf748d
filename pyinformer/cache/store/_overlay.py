"""The process's own writes that its watch has not delivered yet, laid over the cache.

An entry is removed when the store holds its version and never before, so a reader that looks here
first and into the store second does not see an object vanish. A write that is older than the
store's position is ignored, so a deleted object does not come back. Entries are changed on the loop
only, like the store; readers in any thread copy `entries`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, final

from msgspec import Struct
from msgspec.structs import replace

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.objects import (
    Deleted,
    Event,
    KubeObject,
    ObjectMeta,
    Updated,
    V,
    VersionOrder,
    older,
    resource_version_is_well_formed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = get_logger(__name__)

_MAX_ENTRIES = 10_000  # a watch that stalls for minutes under hundreds of writes a second
_SWEEP_AT_LEAST = 64
_CONFIRMATIONS = 3  # bookmarks or lists that an entry outlives when nothing else decides on it
_MOST_SEEN = 4_096  # versions: a response is handled within moments of its event
_EARLY_SECONDS = 0.01  # an event loop's timers fire a little early
_DOUBT_SECONDS = 10.0  # a watch that is behind brings the write soon after what came before it


@final
class UnconfirmedWrite(Struct, Generic[V], frozen=True):
    """The state of an object as a write of this process left it."""

    uid: str
    version: str
    object: KubeObject[V] | None
    """None: it exists, and the cache's selector no longer selects it."""
    order: VersionOrder = VersionOrder.GLOBAL
    confirmations: int = _CONFIRMATIONS
    """As a tombstone's: bookmarks or lists, none of which reaches the version."""

    def over(self, stored: KubeObject[V] | None) -> KubeObject[V] | None:
        """Return what a reader sees, given what the store holds: the newer of the two.

        Where versions of two objects do not compare, another object under the key is the earlier
        one: no event has reported the end of the written one.
        """
        return stored if stored is not None and self.is_reached_by(stored.metadata) else self.object

    def is_lost_to(self, stored: KubeObject[V] | None) -> bool:
        """Return whether a store that is past the written version lacks it.

        It still holds an earlier state of that object, or one that had the name before, so the
        event of the write was lost, or a list is older than its version. Readers have seen what
        was written, and are not led back.
        """
        return (
            stored is not None
            and self.order is VersionOrder.GLOBAL
            and older(stored.metadata.resource_version, self.version)
        )

    def is_reached_by(self, meta: ObjectMeta) -> bool:
        """Return whether a state is the written one, or a newer one."""
        return self.order.reaches(meta.uid, meta.resource_version, self.uid, self.version)


@final
class Tombstone(Struct, frozen=True):
    """An object that a write of this process removed. Its uid never comes back; its name may."""

    uid: str
    floor: str
    """It existed at this version, or is empty if this process had never seen it."""
    confirmations: int = _CONFIRMATIONS
    order: VersionOrder = VersionOrder.GLOBAL
    before: str = ""
    """The uid that the store held meanwhile under the name, if that was another object's."""

    def over(self, stored: KubeObject[V] | None) -> KubeObject[V] | None:
        """Return what a reader sees, given what the store holds: only a successor."""
        if stored is None or stored.metadata.uid == self.uid:
            return None
        if self.order is not VersionOrder.GLOBAL:
            return stored if stored.metadata.uid != self.before else None
        # An object that had the name before this one is gone, too.
        return stored if older(self.floor, stored.metadata.resource_version) else None


OverlayEntry: TypeAlias = UnconfirmedWrite[V] | Tombstone


@final
class OverlayEntries(dict[str, OverlayEntry[V]], Generic[V]):
    """The unconfirmed own writes of a cache by key, oldest first; changed only on the loop.

    Args:
        mirror: the entries of several caches, in which every change is made as well.
    """

    __slots__ = ("_mirror", "puts")

    def __init__(self, mirror: OverlayEntries[V] | None = None) -> None:
        super().__init__()
        self._mirror = mirror
        self.puts: int = 0
        """How often an entry was added; a reader that finds none checks this afterwards."""

    def __setitem__(self, key: str, entry: OverlayEntry[V]) -> None:
        self.puts += 1
        super().__setitem__(key, entry)
        if self._mirror is not None:
            self._mirror[key] = entry

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        if self._mirror is not None:
            self._mirror.pop(key, None)


@final
@dataclass(frozen=True, slots=True)
class OverlayStatistics:
    """Counters of an overlay."""

    entries: int
    peak: int
    ignored: int
    """Responses that the cache held already."""
    dropped: int
    """Entries dropped for lack of room: reads may have been older than own writes."""
    is_off: bool
    """Whether a resource version could not be compared: reads show the cache alone."""


@final
class Overlay(Generic[V]):
    """The writes of one cache's objects that its watch has not brought yet.

    Args:
        get: returns the object that the store holds under a key.
        position: returns the resource version up to which the store holds every change.
        order: returns which resource versions compare. Unless all do, the position proves nothing:
            an entry ends with an event of its own object, ten seconds after one that does not show
            the write, or after two complete lists.
        now: the event loop's clock.
        later: calls a function on the loop after so many seconds; only needed unless all versions
            compare.
        is_polled: returns whether everything is listed from time to time instead of watched: then
            only a list shows what became of a write.
        was_deleted: returns whether the deletion of an object, by key and uid, is in the store.
        on_missed_state: called with a state that readers saw and the one that they see now, if no
            event reports that change: an object that this process created and another client
            deleted while the watch was down is in no list. None as the second state means that it
            is unknown.
        selective: the cache has a selector, so that it does not contain most objects.
        max_entries: how many writes are kept; the oldest are dropped.
        shown: entries of several overlays, which this one keeps up to date; None if it is alone.
    """

    def __init__(
        self,
        get: Callable[[str], KubeObject[V] | None],
        position: Callable[[], str],
        *,
        order: Callable[[], VersionOrder] = lambda: VersionOrder.GLOBAL,
        now: Callable[[], float] = float,
        later: Callable[[float, Callable[[], None]], object] = lambda _seconds, _function: None,
        is_polled: Callable[[], bool] = lambda: False,
        was_deleted: Callable[[str, str], bool] = lambda _key, _uid: False,
        on_missed_state: Callable[
            [KubeObject[V], KubeObject[V] | None], None
        ] = lambda _was, _now: None,
        selective: bool = False,
        max_entries: int = _MAX_ENTRIES,
        shown: OverlayEntries[V] | None = None,
    ) -> None:
        self.entries: OverlayEntries[V] = OverlayEntries(shown)
        """By key, oldest first; always this dict, which only the overlay changes."""
        self._get = get
        self._position = position
        self._order_now = order
        self._order = VersionOrder.GLOBAL
        self._now = now
        self._later = later
        self._listed_at = -math.inf  # when a complete list was applied
        self.seen: dict[tuple[str, str], float] = {}
        """When the store took the newest versions, by uid, unless versions of two objects compare;
        never empty then, so that every change is observed."""
        self._doubted: dict[str, float] = {}  # since when, by key: an event did not show the write
        self._is_polled = is_polled
        self._was_deleted = was_deleted
        self._on_missed_state = on_missed_state
        self._selective = selective
        self._max_entries = max_entries
        self._sweep_at = _SWEEP_AT_LEAST
        self._swept = ""
        self._peak = self._ignored = self._dropped = 0
        self._is_off = False
        self._confirmed = ""

    def put(self, obj: KubeObject[V]) -> None:
        """Show an object as a write's response has it, unless the store is as new."""
        meta, order = obj.metadata, self._use_order()
        self._write(obj._key, UnconfirmedWrite(meta.uid, meta.resource_version, obj, order))

    def put_unselected(self, key: str, uid: str, resource_version: str) -> None:
        """Hide an object that a write moved out of the cache's selector; ignore any other."""
        self._write(key, UnconfirmedWrite(uid, resource_version, None, self._use_order()))

    def _write(self, key: str, entry: UnconfirmedWrite[V]) -> None:
        if not self._is_comparable(entry.version):
            return
        known, stored = self.entries.get(key), self._get(key)
        seen_at = self.seen.get((entry.uid, entry.version), -math.inf)
        if self._is_recent(seen_at):  # a version that is a hash may come again
            self._ignored += 1  # and an event has reported it
        elif self._is_known(key, entry, known, stored):
            self._ignored += 1
            # A list that came first is past it. An object that was created and deleted between two
            # lists is in neither, and its writer takes it for existing.
            if not self._has_ended(key, entry.uid, stored):
                self._superseded(entry, stored if known is None else known.over(stored))
        elif entry.object is not None or known is not None or stored is not None:
            self._enter(key, entry)

    def _is_known(
        self,
        key: str,
        entry: UnconfirmedWrite[V],
        known: OverlayEntry[V] | None,
        stored: KubeObject[V] | None,
    ) -> bool:
        order = entry.order
        if order.holds(self._position(), entry.version) and not entry.is_lost_to(stored):
            return True
        # Within the step of an event: the store leads the position.
        if stored is not None and entry.is_reached_by(stored.metadata):
            return True
        if order is not VersionOrder.GLOBAL and self._has_ended(key, entry.uid, stored):
            return True
        if isinstance(known, Tombstone):
            is_past = order is VersionOrder.GLOBAL and not older(known.floor, entry.version)
            return known.uid == entry.uid or is_past
        return known is not None and order.reaches(
            known.uid, known.version, entry.uid, entry.version
        )

    def _has_ended(self, key: str, uid: str, stored: KubeObject[V] | None) -> bool:
        """Return whether the store knows of an object's end; its uid never comes back."""
        is_stored = stored is not None and stored.metadata.uid == uid
        return not is_stored and not self._selective and self._was_deleted(key, uid)

    def put_tombstone(self, key: str, uid: str, resource_version: str | None = None) -> None:
        """Hide an object, because a response reported its removal.

        Args:
            key: its key.
            uid: which object of that name.
            resource_version: the newest known one: of the deletion, or an earlier one. Without it,
                the end of an object cannot be distinguished from an earlier event by which it left
                the selector: an object that came back is not hidden.
        """
        order = self._use_order()
        if self._is_off:
            return
        known, stored = self.entries.get(key), self._get(key)
        floor = resource_version or ""
        floor = floor if resource_version_is_well_formed(floor) else ""
        is_seen, before = False, ""
        if stored is not None and stored.metadata.uid == uid:
            floor, is_seen = newest(floor, stored.metadata.resource_version), True
        elif stored is not None:
            before = stored.metadata.uid
        if isinstance(known, UnconfirmedWrite) and known.uid == uid:
            floor, is_seen = newest(floor, known.version), True
        elif isinstance(known, UnconfirmedWrite) and self._is_successor(known, floor, before):
            return  # which hides it already
        is_ours = is_seen or not self._selective
        if not is_seen and self._was_deleted(key, uid):
            # Or it only left the selector, and came back: a version after the position proves it,
            # where versions of two objects compare.
            is_ours = self._selective and bool(floor) and order is VersionOrder.GLOBAL
        floor = floor if order is not VersionOrder.OPAQUE else ""
        entry = Tombstone(uid, floor, order=order, before=before)
        if is_ours and not self._is_over(key, entry, self._position()):
            self._enter(key, entry)

    @staticmethod
    def _is_successor(known: UnconfirmedWrite[V], floor: str, before: str) -> bool:
        """Return whether an object that was written came after one that is gone."""
        if known.order is VersionOrder.GLOBAL:
            return older(floor, known.version)
        return known.uid != before

    def _enter(self, key: str, entry: OverlayEntry[V]) -> None:
        entries = self.entries
        known = entries.get(key)
        entries[key] = entry  # in the place of an older one: no reader may miss both
        self._doubted.pop(key, None)
        if entry.order is not VersionOrder.GLOBAL and self._is_recent(self._listed_at):
            self._doubt(key)  # the list may have shown already what came after the write
        if known is not None:
            self._superseded(known, entry.object if isinstance(entry, UnconfirmedWrite) else None)
        position = self._position()
        # A watch that stalls takes nothing away, however often one looks.
        if position != self._swept and len(entries) >= min(self._sweep_at, self._max_entries):
            self._sweep(position)
            self._sweep_at = max(_SWEEP_AT_LEAST, 2 * len(entries))
        self._peak = max(self._peak, len(entries))
        while len(entries) > self._max_entries:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._give_up(next(iter(self.entries)))
        self._dropped += 1
        if self._dropped == 1:
            _log.warning(
                "more own writes are unconfirmed than are kept: reads may be older than own writes;"
                " further dropped writes are counted, not logged",
                extra={"max_entries": self._max_entries},
            )

    def observe(self, event: Event[V]) -> None:
        """Remove the entry that a change confirms; called once the store holds the change."""
        if self.seen:
            self._record(event)
        if self._doubted:
            self._end_doubted()
        key = event.key
        entry = self.entries.get(key)
        if entry is None:
            return
        is_end = may_still_exist = is_doubtful = False
        if isinstance(event, Deleted):
            meta = event.last_known.metadata
            is_end, may_still_exist = True, event.may_still_exist
        else:
            meta = (event.new if isinstance(event, Updated) else event.object).metadata
        if isinstance(entry, UnconfirmedWrite):
            is_ordered = entry.order is VersionOrder.GLOBAL
            is_its_end = is_end and meta.uid == entry.uid and not is_ordered
            is_over = entry.is_reached_by(meta) or is_its_end
            is_doubtful = not (is_ordered or is_end)
        elif meta.uid == entry.uid:
            # What only left the selector came back, if a later state of it is known.
            is_over = is_end and not (may_still_exist and older(meta.resource_version, entry.floor))
        elif entry.order is not VersionOrder.GLOBAL:
            is_over = not is_end and meta.uid != entry.before
        else:  # its successor, or one before it that is long gone
            is_over = bool(entry.floor) and older(entry.floor, meta.resource_version)
        if is_over:
            self._end(key, entry)
        elif is_doubtful:  # of what came before it, or of a successor
            self._doubt(key)

    def _record(self, event: Event[V]) -> None:
        """Remember versions, so that a response that comes after its event is recognized."""
        states = (
            (event.old, event.new)
            if isinstance(event, Updated)
            else (event.last_known if isinstance(event, Deleted) else event.object,)
        )
        for state in states:
            meta = state.metadata
            self.seen[meta.uid, meta.resource_version] = self._now()
        while len(self.seen) > _MOST_SEEN:
            del self.seen[next(iter(self.seen))]

    def learn_order(self) -> None:
        """Find out which versions compare; called after each complete list."""
        self._listed_at = self._now()
        if self._use_order() is not VersionOrder.GLOBAL and not self.seen:
            self.seen["", ""] = -math.inf

    def _is_recent(self, at: float) -> bool:
        return self._now() - at < _DOUBT_SECONDS

    def _doubt(self, key: str) -> None:
        """End a write soon, unless its event comes; also if nothing else happens any more."""
        if key not in self._doubted and not self._is_polled():
            self._doubted[key] = self._now()
            self._later(_DOUBT_SECONDS, self._end_doubted)

    def _end_doubted(self) -> None:
        """End the writes whose own event should have come by now.

        A server may show only the newest state of an object, or answer a write with a version that
        its watch never names. An event from before the write may come late, but not without it.
        """
        until = self._now() - _DOUBT_SECONDS
        for key, since in list(self._doubted.items()):
            entry = self.entries.get(key)
            if entry is not None and since > until + _EARLY_SECONDS:
                continue
            del self._doubted[key]
            if isinstance(entry, UnconfirmedWrite):
                self._end(key, entry)

    def confirm(self, position: str, *, is_list: bool = False) -> None:
        """Record that the store holds every change up to a list's or a bookmark's version."""
        if not self.entries:
            return
        is_global = self._use_order() is VersionOrder.GLOBAL
        self._sweep(position)
        if is_global and not older(self._confirmed, position):
            return
        if not is_global and not is_list and position == self._confirmed:
            return
        self._confirmed = position
        for key, entry in list(self.entries.items()):
            # A watch that runs for minutes without its event contradicts the response, and is
            # right: it is unknown when a deletion took effect, and a gateway can answer writes with
            # versions of another counter.
            left = entry.confirmations - 1
            if not is_global and is_list:
                left = min(left, 1)  # only the first list can have begun before the write
                stored = self._get(key)
                if stored is not None and stored.metadata.uid == entry.uid:
                    self._doubt(key)  # then its event follows soon
            if left == 0:
                self._give_up(key)
            else:
                self.entries[key] = replace(entry, confirmations=left)

    def _sweep(self, position: str) -> None:
        self._swept = position
        for key, entry in list(self.entries.items()):
            if self._is_over(key, entry, position):
                self._end(key, entry)

    def _end(self, key: str, entry: OverlayEntry[V]) -> None:
        """Show the store's state of a key again."""
        del self.entries[key]
        self._superseded(entry, self._get(key))

    def _superseded(self, entry: OverlayEntry[V], now: KubeObject[V] | None) -> None:
        """Report what readers saw, unless an event of this very version reports it."""
        if isinstance(entry, Tombstone) or entry.object is None:
            return
        if now is None or now.metadata.resource_version != entry.version:
            self._on_missed_state(entry.object, now)

    def _give_up(self, key: str) -> None:
        """Show what the store holds of a key, whatever was written."""
        entry = self.entries[key]
        del self.entries[key]
        shown = entry.object if isinstance(entry, UnconfirmedWrite) else None
        was = shown or self._get(key)
        if was is not None:
            self._on_missed_state(was, None)

    def _is_over(self, key: str, entry: OverlayEntry[V], position: str) -> bool:
        stored = self._get(key)
        if isinstance(entry, UnconfirmedWrite):
            is_reached = stored is not None and entry.is_reached_by(stored.metadata)
            is_past = entry.order.holds(position, entry.version) and not entry.is_lost_to(stored)
            return is_reached or is_past
        is_ordered = entry.order is VersionOrder.GLOBAL
        if not is_ordered or not entry.floor or older(position, entry.floor):
            return False
        return stored is None or entry.over(stored) is not None

    def ended_by(
        self, objects: Mapping[str, KubeObject[V]], resource_version: str
    ) -> Mapping[str, OverlayEntry[V]]:
        """Return the entries that a list ends although it has nothing as new in their place."""
        return {
            key: entry
            for key, entry in self.entries.items()
            if isinstance(entry, UnconfirmedWrite)
            and entry.order.holds(resource_version, entry.version)
            and entry.over(objects.get(key)) is entry.object
            and not entry.is_lost_to(objects.get(key))
        }

    def sweep(self) -> None:
        """Remove every entry that the store holds by now."""
        self._sweep(self._position())

    def clear(self) -> None:
        """Drop all entries: the server's history is not the one that was written to."""
        for key in list(self.entries):
            self._give_up(key)
        self._confirmed = ""

    def _use_order(self) -> VersionOrder:
        """Return which versions compare; existing entries are compared that way from now on."""
        order = self._order_now()
        if order is not self._order:
            self._order = order
            self._is_off = self._is_off and order is not VersionOrder.OPAQUE
            for key, entry in list(self.entries.items()):
                self.entries[key] = replace(entry, order=order)
        return order

    def _is_comparable(self, version: str) -> bool:
        if self._order is VersionOrder.OPAQUE:
            return bool(version)
        if not self._is_off and not resource_version_is_well_formed(version):
            self._is_off = True
            self.clear()
            _log.warning(
                "resource versions cannot be compared: reads show the cache without own writes",
                extra={"resource_version": version[:40]},
            )
        return not self._is_off

    def statistics(self) -> OverlayStatistics:
        """Return the counters."""
        return OverlayStatistics(
            len(self.entries), self._peak, self._ignored, self._dropped, self._is_off
        )


def newest(first: str, second: str) -> str:
    """Return the newer of two well-formed resource versions; an empty one is older than any."""
    return second if older(first, second) else first
