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

from pyinformer._logging import get_logger
from pyinformer.apimachinery import (
    Deleted,
    Event,
    KubeObject,
    Updated,
    V,
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

    def over(self, stored: KubeObject[V] | None) -> KubeObject[V] | None:
        """Return what a reader sees, given what the store holds: the newer of the two."""
        if stored is None or older(stored.metadata.resource_version, self.version):
            return self.object
        return stored


@final
class Buried(Struct, frozen=True):
    """An object that a write ended. Its uid never comes back; its name may."""

    uid: str
    floor: str
    """It existed at this version, or is empty if this process had never seen it."""
    confirmations: int = _CONFIRMATIONS

    def over(self, stored: KubeObject[V] | None) -> KubeObject[V] | None:
        """Return what a reader sees, given what the store holds: only a successor."""
        if stored is None or stored.metadata.uid == self.uid:
            return None
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
        meta = obj.metadata
        self._write(obj._key, Written(meta.uid, meta.resource_version, obj))

    def put_outside(self, key: str, uid: str, resource_version: str) -> None:
        """Hide an object that a write took out of the cache's selector; any other is ignored."""
        self._write(key, Written(uid, resource_version, None))

    def _write(self, key: str, entry: Written[V]) -> None:
        if not self._is_comparable(entry.version):
            return
        known, stored = self.entries.get(key), self._get(key)
        if self._is_known(entry, known, stored):
            self._ignored += 1
        elif entry.object is not None or known is not None or stored is not None:
            self._enter(key, entry)

    def _is_known(
        self, entry: Written[V], known: Entry[V] | None, stored: KubeObject[V] | None
    ) -> bool:
        if not older(self._position(), entry.version):
            return True
        # Within the step of an event: the store leads the position.
        if stored is not None and not older(stored.metadata.resource_version, entry.version):
            return True
        if isinstance(known, Buried):
            return known.uid == entry.uid or not older(known.floor, entry.version)
        return known is not None and not older(known.version, entry.version)

    def bury(self, key: str, uid: str, resource_version: str | None = None) -> None:
        """Hide an object, because a response said that it is gone.

        Args:
            key: its key.
            uid: which object of that name.
            resource_version: the newest that is known of it, its deletion's or an earlier one.
                Without it, nothing tells the end of an object from an earlier leave of the selector
                that was heard of before the response: an object that came back is not hidden.
        """
        if self._is_off:
            return
        known, stored = self.entries.get(key), self._get(key)
        floor = resource_version or ""
        floor = floor if resource_version_is_well_formed(floor) else ""
        is_seen = False
        if stored is not None and stored.metadata.uid == uid:
            floor, is_seen = newest(floor, stored.metadata.resource_version), True
        if isinstance(known, Written) and known.uid == uid:
            floor, is_seen = newest(floor, known.version), True
        elif isinstance(known, Written) and older(floor, known.version):
            return  # its successor hides it already
        is_ours = is_seen or not self._selective
        if not is_seen and self._was_deleted(key, uid):
            # Or it only left the selector, and came back: a version after the position says so.
            is_ours = self._selective and bool(floor)
        entry = Buried(uid, floor)
        if is_ours and not self._is_over(key, entry, self._position()):
            self._enter(key, entry)

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
            is_over = not older(meta.resource_version, entry.version)
        elif meta.uid == entry.uid:
            # What only left the selector came back, if a later state of it is known.
            is_over = is_end and not (may_still_exist and older(meta.resource_version, entry.floor))
        else:  # its successor, or one before it that is long gone
            is_over = bool(entry.floor) and older(entry.floor, meta.resource_version)
        if is_over:
            del self.entries[key]
            self._superseded(entry, self._get(key))

    def confirm(self, position: str) -> None:
        """Take note that the store holds every change up to a list's or a bookmark's version."""
        if not self.entries:
            return
        self._sweep(position)
        if not older(self._confirmed, position):
            return
        self._confirmed = position
        for key, entry in list(self.entries.items()):
            if not isinstance(entry, Buried):
                continue
            # Nothing says when this deletion took effect; a watch that goes on without it
            # for minutes contradicts the response, and the server is right.
            if entry.confirmations == 1:
                self._give_up(key)
            else:
                self.entries[key] = Buried(entry.uid, entry.floor, entry.confirmations - 1)

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
        if isinstance(entry, Written):
            return not older(position, entry.version)
        if not entry.floor or older(position, entry.floor):
            return False
        stored = self._get(key)
        return stored is None or stored.metadata.uid != entry.uid

    def ended_by(
        self, objects: Mapping[str, KubeObject[V]], resource_version: str
    ) -> Mapping[str, Entry[V]]:
        """Return the entries that a list ends although it has nothing as new in their place."""
        return {
            key: entry
            for key, entry in self.entries.items()
            if isinstance(entry, Written)
            and not older(resource_version, entry.version)
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

    def _is_comparable(self, version: str) -> bool:
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
