"""What a guard remembers of keys beyond what is cached: deletions, and what point reads showed.

Both memories are bounded, forget the oldest entry first and are cleared when an epoch begins. What
is forgotten can no longer be proven, and is read from the server again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, final

from msgspec import Struct

from pyinformer.objects import older

if TYPE_CHECKING:
    from pyinformer.objects import ObjectMeta

_MAX_TOMBSTONES = 10_000  # enough for the replays of a busy namespace
_MAX_BYTES = 4 << 20  # of keys, uids and versions: some 100 each, but a Role's name has no limit
_MAX_POINT_READS = 1_000  # they are rare; a forgotten one is repeated
_MAX_KEY_LENGTH = 2_048  # a Role's name has no limit; a longer key is read again


@final
class Tombstones:
    """Deleted objects, and the version of each deletion."""

    __slots__ = ("_dead", "_undated", "held_bytes")

    def __init__(self) -> None:
        # By key and uid: a name can be deleted more than once, each time another object.
        self._dead: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._undated: set[tuple[str, str]] = set()
        self.held_bytes: int = 0
        """The length of the remembered texts."""

    def __len__(self) -> int:
        return len(self._dead)

    def has(self, key: str, uid: str) -> bool:
        """Return whether this object is remembered as deleted."""
        return (key, uid) in self._dead

    def add(self, key: str, uid: str, version: str, *, is_dated: bool = True) -> None:
        """Record a deletion; of several versions the latest counts.

        Args:
            key: `namespace/name`, or `name`.
            uid: the object's.
            version: that of its deletion, or of its last state before.
            is_dated: whether it is that of the deletion. Servers have sent deletions with the last
                state's version, and such an object may have lived for a while after that version.
        """
        name = (key, uid)
        if is_dated:
            self._undated.discard(name)
        elif name not in self._dead:
            self._undated.add(name)
        known = self._forget(name)
        known = version if known is None else known
        self._dead[name] = died = known if older(version, known) else version
        self.held_bytes += _size(name, died)
        while self._dead and (len(self._dead) > _MAX_TOMBSTONES or self.held_bytes > _MAX_BYTES):
            oldest = next(iter(self._dead))
            self._forget(oldest)
            self._undated.discard(oldest)

    def _forget(self, name: tuple[str, str]) -> str | None:
        died = self._dead.pop(name, None)
        if died is not None:
            self.held_bytes -= _size(name, died)
        return died

    def lift(self, key: str, uid: str) -> None:
        """Forget a deletion: the object matches its selector again."""
        if self._dead:
            self._forget((key, uid))
            self._undated.discard((key, uid))

    def covers(self, key: str, uid: str, version: str) -> bool:
        """Return whether a state of this object is from before its deletion."""
        died = self._dead.get((key, uid))
        return died is not None and not older(died, version)

    def newest(self, up_to: str) -> tuple[str, str, str] | None:
        """Return key, uid and version of the latest dated deletion up to a version, or None."""
        dated = ((name, died) for name, died in self._dead.items() if name not in self._undated)
        known = [(len(died), died, name) for name, died in dated]
        passed = [one for one in known if not older(up_to, one[1])]
        if not passed:
            return None
        _, died, (key, uid) = max(passed)
        return key, uid, died

    def latest_version(self, key: str) -> str:
        """Return the version of the latest deletion under a key, or an empty text; slow."""
        dead = list(self._dead.items())  # in one step: the caller may be in another thread
        deaths = [died for (name, _), died in dead if name == key]
        return max(deaths, key=lambda died: (len(died), died), default="")

    def clear(self) -> None:
        """Forget every deletion."""
        self._dead.clear()
        self._undated.clear()
        self.held_bytes = 0


def _size(name: tuple[str, str], died: str) -> int:
    return len(name[0]) + len(name[1]) + len(died)


@final
class PointRead(Struct, frozen=True):
    """What a list of one key showed."""

    version: str
    """The object's version; empty if it did not exist."""
    read_at: str
    """The list's version: the key's state is known up to here, even beyond the position."""
    is_source: bool
    """Whether the cached state came from this read, and from no list or watch."""


@final
class PointReads:
    """The point reads beyond the position, by key.

    A point read counts until the position reaches it: from there on the stream itself proves what
    is cached.
    """

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: OrderedDict[str, PointRead] = OrderedDict()

    def record(self, key: str, read: PointRead) -> None:
        """Remember a point read."""
        self._by_key.pop(key, None)
        if len(key) > _MAX_KEY_LENGTH:
            return
        self._by_key[key] = read
        if len(self._by_key) > _MAX_POINT_READS:
            self._by_key.popitem(last=False)

    def covers(self, key: str, version: str) -> bool:
        """Return whether a key was read at this version or later."""
        read = self._by_key.get(key) if self._by_key else None
        return read is not None and not older(read.read_at, version)

    def is_source(self, key: str, version: str) -> bool:
        """Return whether this cached version came from a point read and nothing else yet."""
        read = self._by_key.get(key) if self._by_key else None
        return read is not None and read.is_source and read.version == version

    def beyond(self, version: str) -> dict[str, PointRead]:
        """Return the point reads after a version, by key."""
        return {key: one for key, one in self._by_key.items() if older(version, one.read_at)}

    def reached(self, position: str) -> None:
        """Forget the point reads that the position has reached."""
        if self._by_key:
            self._by_key = OrderedDict(self.beyond(position))

    def clear(self) -> None:
        """Forget every point read."""
        self._by_key.clear()


@final
class KeyMemory:
    """The tombstones and point reads of one guard."""

    __slots__ = ("point_reads", "tombstones")

    def __init__(self) -> None:
        self.tombstones: Tombstones = Tombstones()
        self.point_reads: PointReads = PointReads()

    def is_past(self, key: str, meta: ObjectMeta) -> bool:
        """Return whether a state is from before its object's deletion, or before a point read."""
        version = meta.resource_version
        is_dead = self.tombstones.covers(key, meta.uid, version)
        return is_dead or self.point_reads.covers(key, version)

    def clear(self) -> None:
        """Forget everything: another history begins."""
        self.tombstones.clear()
        self.point_reads.clear()
