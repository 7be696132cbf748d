"""What this process has written and its cache has not heard of yet.

Responses of own writes enter; what a reader is to see of a key leaves: the written object, nothing
(it is gone, or no longer belongs here), or what the store holds once that is as new. An entry goes
when the store holds its version, never before, so whoever looks here first and into the store
second sees no object vanish. Nothing older than the store's position enters: no deleted object
comes back. What readers saw and no event ever tells of is reported when they see it no more.
Written on the loop, like the store; readers of any thread copy `entries`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, final

from msgspec import Struct
from msgspec.structs import replace

from pyinformer._logging import get_logger
from pyinformer.apimachinery import (
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
_CONFIRMATIONS = 3  # bookmarks or lists that a tombstone outlives when nothing else decides on it


@final
class Written(Struct, Generic[V], frozen=True):
    """The state of an object as a write left it."""

    uid: str
    version: str
    object: KubeObject[V] | None
    """None: it exists, and the cache's selector no longer selects it."""
    order: VersionOrder = VersionOrder.GLOBAL
    confirmations: int = _CONFIRMATIONS
    """As a tombstone's; they count only where a position proves nothing."""

    def over(self, stored: KubeObject[V] | None) -> KubeObject[V] | None:
        """Return what a reader sees, given what the store holds: the newer of the two.

        Where versions of two objects do not compare, another object under the key is the one
        before: the end of the written one has not been heard of.
        """
        return stored if stored is not None and self.is_reached_by(stored.metadata) else self.object

    def is_reached_by(self, meta: ObjectMeta) -> bool:
        """Return whether a state is the written one, or a newer one."""
        return self.order.reaches(meta.uid, meta.resource_version, self.uid, self.version)


@final
class Buried(Struct, frozen=True):
    """An object that a write ended. Its uid never comes back; its name may."""

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
        # Whoever had the name before this object is gone, too.
        return stored if older(self.floor, stored.metadata.resource_version) else None


Entry: TypeAlias = Written[V] | Buried


class Entries(dict[str, Entry[V]], Generic[V]):
    """What is laid over a cache, by key, the oldest key first. Written on the loop alone."""

    __slots__ = ("puts",)

    def __init__(self) -> None:
        super().__init__()
        self.puts: int = 0
        """How often an entry was put in: a reader that finds none tells by it that none came."""

    def __setitem__(self, key: str, entry: Entry[V]) -> None:
        self.puts += 1
        super().__setitem__(key, entry)


@final
@dataclass(frozen=True, slots=True)
class OverlayStatistics:
    """How an overlay does."""

    entries: int
    peak: int
    ignored: int
    """Responses that the cache had heard of already."""
    dropped: int
    """Entries that had to make room: reads may have been older than own writes."""
    is_off: bool
    """A resource version could not be compared: reads show the cache alone."""


@final
class Overlay(Generic[V]):
    """The writes of one cache's objects that its watch has not brought yet.

    Args:
        get: returns what the store holds of a key.
        position: returns the resource version up to which the store holds every change.
        order: returns which resource versions compare. Unless all do, the position proves nothing:
            an entry ends with an event of its own object, or once two complete lists were taken.
        was_deleted: tells whether the deletion of an object, by key and uid, is in the store.
        on_unheard: is told of a state that readers saw and of what they see now, if no event says
            that the one became the other: an object of ours that somebody deleted while the watch
            was down is in no list, before or after. None for what they see now means anything.
        selective: the cache has a selector, so that most objects are none of its own.
        max_entries: how many writes are remembered; the oldest make room.
        shown: has every entry of this overlay, too, beside those of others; None if nobody shares.
    """

    def __init__(
        self,
        get: Callable[[str], KubeObject[V] | None],
        position: Callable[[], str],
        *,
        order: Callable[[], VersionOrder] = lambda: VersionOrder.GLOBAL,
        was_deleted: Callable[[str, str], bool] = lambda _key, _uid: False,
        on_unheard: Callable[[KubeObject[V], KubeObject[V] | None], None] = lambda _was, _now: None,
        selective: bool = False,
        max_entries: int = _MAX_ENTRIES,
        shown: Entries[V] | None = None,
    ) -> None:
        self.entries: Entries[V] = Entries() if shown is None else _Mirrored(shown)
        """By key, the oldest key first; always this dict, changed by nobody else."""
        self._get = get
        self._position = position
        self._order_now = order
        self._order = VersionOrder.GLOBAL
        self._was_deleted = was_deleted
        self._on_unheard = on_unheard
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
        self._write(obj._key, Written(meta.uid, meta.resource_version, obj, order))

    def put_outside(self, key: str, uid: str, resource_version: str) -> None:
        """Hide an object that a write took out of the cache's selector; any other is ignored."""
        self._write(key, Written(uid, resource_version, None, self._use_order()))

    def _write(self, key: str, entry: Written[V]) -> None:
        if not self._is_comparable(entry.version):
            return
        known, stored = self.entries.get(key), self._get(key)
        if self._is_known(key, entry, known, stored):
            self._ignored += 1
        elif entry.object is not None or known is not None or stored is not None:
            self._enter(key, entry)

    def _is_known(
        self,
        key: str,
        entry: Written[V],
        known: Entry[V] | None,
        stored: KubeObject[V] | None,
    ) -> bool:
        order = entry.order
        if order.holds(self._position(), entry.version):
            return True
        # Within the step of an event: the store leads the position.
        if stored is not None and entry.is_reached_by(stored.metadata):
            return True
        if order is not VersionOrder.GLOBAL and self._has_ended(key, entry.uid, stored):
            return True
        if isinstance(known, Buried):
            is_past = order is VersionOrder.GLOBAL and not older(known.floor, entry.version)
            return known.uid == entry.uid or is_past
        return known is not None and order.reaches(
            known.uid, known.version, entry.uid, entry.version
        )

    def _has_ended(self, key: str, uid: str, stored: KubeObject[V] | None) -> bool:
        """Return whether the store has heard of an object's end; its uid never comes back."""
        is_stored = stored is not None and stored.metadata.uid == uid
        return not is_stored and not self._selective and self._was_deleted(key, uid)

    def bury(self, key: str, uid: str, resource_version: str | None = None) -> None:
        """Hide an object, because a response said that it is gone.

        Args:
            key: its key.
            uid: which object of that name.
            resource_version: the newest that is known of it, its deletion's or an earlier one.
                Without it, nothing tells the end of an object from an earlier leave of the selector
                that was heard of before the response: an object that came back is not hidden.
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
        if isinstance(known, Written) and known.uid == uid:
            floor, is_seen = newest(floor, known.version), True
        elif isinstance(known, Written) and self._is_successor(known, floor, before):
            return  # which hides it already
        is_ours = is_seen or not self._selective
        if not is_seen and self._was_deleted(key, uid):
            # Or it only left the selector, and came back: a version after the position says so.
            is_ours = self._selective and bool(floor)
        floor = floor if order is not VersionOrder.OPAQUE else ""
        entry = Buried(uid, floor, order=order, before=before)
        if is_ours and not self._is_over(key, entry, self._position()):
            self._enter(key, entry)

    @staticmethod
    def _is_successor(known: Written[V], floor: str, before: str) -> bool:
        """Return whether an object that was written came after one that is gone."""
        if known.order is VersionOrder.GLOBAL:
            return older(floor, known.version)
        return known.uid != before

    def _enter(self, key: str, entry: Entry[V]) -> None:
        entries = self.entries
        known = entries.get(key)
        entries[key] = entry  # in the place of an older one: no reader may miss both
        if known is not None:
            self._superseded(known, entry.object if isinstance(entry, Written) else None)
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
                "more own writes are unconfirmed than are remembered: reads may be older than"
                " own writes; further ones are counted",
                extra={"max_entries": self._max_entries},
            )

    def observe(self, event: Event[V]) -> None:
        """Take note of a change, once the store holds it."""
        key = event.key
        entry = self.entries.get(key)
        if entry is None:
            return
        is_end = may_still_exist = False
        if isinstance(event, Deleted):
            meta = event.last_known.metadata
            is_end, may_still_exist = True, event.may_still_exist
        else:
            meta = (event.new if isinstance(event, Updated) else event.object).metadata
        if isinstance(entry, Written):
            is_of_it = meta.uid == entry.uid and entry.order is not VersionOrder.GLOBAL
            is_over = entry.is_reached_by(meta) or (is_end and is_of_it)
        elif meta.uid == entry.uid:
            # What only left the selector came back, if a later state of it is known.
            is_over = is_end and not (may_still_exist and older(meta.resource_version, entry.floor))
        elif entry.order is not VersionOrder.GLOBAL:
            is_over = not is_end and meta.uid != entry.before
        else:  # its successor, or one before it that is long gone
            is_over = bool(entry.floor) and older(entry.floor, meta.resource_version)
        if is_over:
            del self.entries[key]
            self._superseded(entry, self._get(key))

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
            if is_global and not isinstance(entry, Buried):
                continue
            # Nothing says when this deletion took effect; a watch that goes on without it
            # for minutes contradicts the response, and the server is right.
            left = entry.confirmations - 1
            if not is_global and is_list:
                left = min(left, 1)  # only the first list can have begun before the write
            if left == 0:
                self._give_up(key)
            else:
                self.entries[key] = replace(entry, confirmations=left)

    def _sweep(self, position: str) -> None:
        self._swept = position
        for key, entry in list(self.entries.items()):
            if self._is_over(key, entry, position):
                del self.entries[key]
                self._superseded(entry, self._get(key))

    def _superseded(self, entry: Entry[V], now: KubeObject[V] | None) -> None:
        """Report what readers saw, unless an event of this very version tells of it."""
        if isinstance(entry, Buried) or entry.object is None:
            return
        if now is None or now.metadata.resource_version != entry.version:
            self._on_unheard(entry.object, now)

    def _give_up(self, key: str) -> None:
        """Show what the store holds of a key, whatever was written."""
        entry = self.entries[key]
        del self.entries[key]
        shown = entry.object if isinstance(entry, Written) else None
        was = shown or self._get(key)
        if was is not None:
            self._on_unheard(was, None)

    def _is_over(self, key: str, entry: Entry[V], position: str) -> bool:
        stored = self._get(key)
        if isinstance(entry, Written):
            is_reached = stored is not None and entry.is_reached_by(stored.metadata)
            return is_reached or entry.order.holds(position, entry.version)
        is_ordered = entry.order is VersionOrder.GLOBAL
        if not is_ordered or not entry.floor or older(position, entry.floor):
            return False
        return stored is None or stored.metadata.uid != entry.uid

    def ended_by(
        self, objects: Mapping[str, KubeObject[V]], resource_version: str
    ) -> Mapping[str, Entry[V]]:
        """Return the entries that a list ends although it has nothing as new in their place."""
        return {
            key: entry
            for key, entry in self.entries.items()
            if isinstance(entry, Written)
            and entry.order.holds(resource_version, entry.version)
            and entry.over(objects.get(key)) is entry.object
        }

    def sweep(self) -> None:
        """Let go of everything that the store holds by now."""
        self._sweep(self._position())

    def clear(self) -> None:
        """Forget everything: the server's history is not the one that was written to."""
        for key in list(self.entries):
            self._give_up(key)
        self._confirmed = ""

    def _use_order(self) -> VersionOrder:
        """Return which versions compare; entries of before are compared that way from now on."""
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
                "resource versions cannot be compared: reads show the cache alone, not own writes",
                extra={"resource_version": version[:40]},
            )
        return not self._is_off

    def statistics(self) -> OverlayStatistics:
        """Return how many writes are unconfirmed."""
        return OverlayStatistics(
            len(self.entries), self._peak, self._ignored, self._dropped, self._is_off
        )


@final
class _Mirrored(Entries[V]):
    """The entries of one overlay, each change of which is made in what several share, too."""

    __slots__ = ("_shown",)

    def __init__(self, shown: Entries[V]) -> None:
        super().__init__()
        self._shown = shown

    def __setitem__(self, key: str, entry: Entry[V]) -> None:
        super().__setitem__(key, entry)
        self._shown[key] = entry

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._shown.pop(key, None)


def newest(first: str, second: str) -> str:
    """Return the newer of two well-formed resource versions; an empty one is older than any."""
    return second if older(first, second) else first
