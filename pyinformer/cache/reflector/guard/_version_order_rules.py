"""What resource versions prove, in each of the three orders they can have.

The rules of an order compare an event, an item of a list or the list of one key with what is cached
and remembered of the key, and return why it is skipped, or None if it is applied. In a global order
the position distinguishes a replay from a new event; `per_object` compares only versions of one
object; `opaque` drops what is cached already and applies the rest. The rules keep no state.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Literal, TypeAlias, final

from pyinformer.objects import older

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.cache.reflector.guard._tombstones import KeyMemory
    from pyinformer.objects import ObjectMeta

Order: TypeAlias = Literal["global", "per_object", "opaque"]
"""What resource versions prove. `global`: any two of a resource compare, as built-in resources and
custom resources promise. `per_object`: only two of the same object do. `opaque`: only equality
means anything. The last two are for aggregated APIs that keep their state in their own way."""


class Decision(enum.Enum):
    """What the store and its handlers do with an event."""

    ADD = enum.auto()
    UPDATE = enum.auto()
    REPLACE = enum.auto()
    """Another object has the same name: delete the cached one, then add the new one."""
    REMOVE = enum.auto()
    REMOVE_UNSEEN = enum.auto()
    """The cached object is proven to be deleted, though its own deletion was missed."""
    SKIP = enum.auto()
    """Change nothing; the position may have moved."""


class SkipReason(enum.Enum):
    """Why an event is not simply applied."""

    DUPLICATE = enum.auto()
    """It is what is cached."""
    STALE = enum.auto()
    """It is older than what is cached, or of an object that is known to be deleted."""
    UNPROVEN = enum.auto()
    """Nothing proves it right or wrong."""
    UNSEEN = enum.auto()
    """A deletion of another object that proves the cached one deleted as well."""


@final
class GlobalOrder:
    """Any two versions compare, as built-in resources and custom resources promise."""

    def change(
        self, key: str, new: ObjectMeta, cached: ObjectMeta | None, position: str, memory: KeyMemory
    ) -> SkipReason | None:
        """Judge an ADDED or MODIFIED event by the position, the cached version and tombstones."""
        version = new.resource_version
        is_past = cached is not None and not newer(version, cached.resource_version)
        is_past = is_past or memory.is_past(key, new)
        if older(version, position) and identity(new) != identity(cached):
            return SkipReason.STALE if is_past else SkipReason.UNPROVEN
        return SkipReason.DUPLICATE if is_past else None

    def deletion(
        self, key: str, gone: ObjectMeta, cached: ObjectMeta, position: str, memory: KeyMemory
    ) -> SkipReason | None:
        """Judge a DELETED event of a cached key; a point read may have shown a later state."""
        version = gone.resource_version
        is_of_cached = cached.uid == gone.uid
        if is_of_cached and not older(version, cached.resource_version):
            return None
        is_news = older(position, version)
        if memory.point_reads.covers(key, version):
            return SkipReason.DUPLICATE if is_news else SkipReason.STALE
        if is_of_cached:
            return SkipReason.UNPROVEN
        if newer(version, cached.resource_version):
            return SkipReason.UNSEEN
        return SkipReason.DUPLICATE if is_news else SkipReason.STALE

    def contradicts(
        self, key: str, found: ObjectMeta | None, cached: ObjectMeta | None, memory: KeyMemory
    ) -> bool:
        """Return whether a list of one key shows an earlier state than the one that is known."""
        if found is not None and memory.tombstones.covers(key, found.uid, found.resource_version):
            return True
        if found is None or cached is None:
            return False
        if found.uid == cached.uid:
            return older(found.resource_version, cached.resource_version)
        return not newer(found.resource_version, cached.resource_version)

    def proves_rewind(
        self, key: str, listed: ObjectMeta, cached: ObjectMeta | None, memory: KeyMemory
    ) -> bool:
        """Return whether an item can only come from a history that went back in time.

        A point read proves nothing here: another server may have answered it.
        """
        version = listed.resource_version
        if cached is not None and cached.uid == listed.uid:
            known = cached.resource_version
            return older(version, known) and not memory.point_reads.is_source(key, known)
        is_dead = memory.tombstones.covers(key, listed.uid, version)
        return is_dead and not memory.point_reads.covers(key, version)


@final
class PerObjectOrder:
    """Only two versions of one object compare."""

    def change(
        self,
        key: str,
        new: ObjectMeta,
        cached: ObjectMeta | None,
        _position: str,
        memory: KeyMemory,
    ) -> SkipReason | None:
        """Judge an ADDED or MODIFIED event by the cached version of the same object."""
        version = new.resource_version
        if cached is None or cached.uid != new.uid:
            return SkipReason.STALE if memory.tombstones.covers(key, new.uid, version) else None
        if version == cached.resource_version:
            return SkipReason.DUPLICATE
        return SkipReason.STALE if older(version, cached.resource_version) else None

    def deletion(
        self, key: str, gone: ObjectMeta, cached: ObjectMeta, _position: str, memory: KeyMemory
    ) -> SkipReason | None:
        """Judge a DELETED event by the cached version of the same object."""
        if cached.uid == gone.uid:
            is_before = older(gone.resource_version, cached.resource_version)
            return SkipReason.UNPROVEN if is_before else None
        # The end of another object of this name. It is a replay if that object is known to be
        # deleted; if not, its whole life was missed, and the cached object may be deleted as well.
        is_known = memory.tombstones.has(key, gone.uid)
        return SkipReason.STALE if is_known else SkipReason.UNPROVEN

    def contradicts(
        self, key: str, found: ObjectMeta | None, cached: ObjectMeta | None, memory: KeyMemory
    ) -> bool:
        """Return whether a list of one key shows an earlier state of a known object."""
        return found is not None and self.proves_rewind(key, found, cached, memory)

    def proves_rewind(
        self, key: str, listed: ObjectMeta, cached: ObjectMeta | None, memory: KeyMemory
    ) -> bool:
        """Return whether an item is older than what is known of the same object."""
        version = listed.resource_version
        if cached is not None and cached.uid == listed.uid:
            return older(version, cached.resource_version)
        return memory.tombstones.covers(key, listed.uid, version)


@final
class OpaqueOrder:
    """Versions can only be equal or different."""

    def change(
        self, _key: str, new: ObjectMeta, cached: ObjectMeta | None, *_: object
    ) -> SkipReason | None:
        """Skip an ADDED or MODIFIED event whose state is cached already."""
        # Without a version nothing shows that this is the cached state, so it is applied.
        is_same = new.resource_version and identity(new) == identity(cached)
        return SkipReason.DUPLICATE if is_same else None

    def deletion(
        self, _key: str, gone: ObjectMeta, cached: ObjectMeta, *_: object
    ) -> SkipReason | None:
        """Apply a DELETED event to the object that it names, or to any if it has no uid."""
        return None if gone.uid in {cached.uid, ""} else SkipReason.STALE

    def contradicts(self, *_: object) -> bool:
        """Return False: without an order nothing contradicts anything."""
        return False

    def proves_rewind(self, *_: object) -> bool:
        """Return False: without an order nothing proves a rewind."""
        return False


Rules: TypeAlias = GlobalOrder | PerObjectOrder | OpaqueOrder
RULES: Mapping[Order, Rules] = {
    "global": GlobalOrder(),
    "per_object": PerObjectOrder(),
    "opaque": OpaqueOrder(),
}


def newer(version: str, cached: str) -> bool:
    """Return whether a version is newer than a cached one, which may have any form."""
    if len(version) != len(cached):
        return len(version) > len(cached)
    return version > cached


def identity(meta: ObjectMeta | None) -> tuple[str, str]:
    """Return uid and version; both are empty if there is no object."""
    return ("", "") if meta is None else (meta.uid, meta.resource_version)
