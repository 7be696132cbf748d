"""What resource versions prove, in each of the three orders they can have.

What enters is an event, an item of a list, or the list of one key, with what is cached and what is
remembered of the key; what leaves is why it is passed over, or None if it is to be taken. Pure, and
nothing is remembered here. In a global order the position tells a replay from news; `per_object`
compares only what is of one object; `opaque` drops what is there already and takes the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, final

from pyinformer.apimachinery import older
from pyinformer.reflector._ruling import Order, Passing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.apimachinery import ObjectMeta
    from pyinformer.reflector._memory import Memory


class Rules(Protocol):
    """The rules of one order."""

    def change(
        self, key: str, new: ObjectMeta, cached: ObjectMeta | None, position: str, memory: Memory
    ) -> Passing | None:
        """Judge an ADDED or MODIFIED event."""
        ...

    def deletion(
        self, key: str, gone: ObjectMeta, cached: ObjectMeta, position: str, memory: Memory
    ) -> Passing | None:
        """Judge a DELETED event of a key that is cached."""
        ...

    def contradicts(
        self, key: str, found: ObjectMeta | None, cached: ObjectMeta | None, memory: Memory
    ) -> bool:
        """Tell whether a list of one key shows what was before what is known of it."""
        ...

    def proves_rewind(
        self, key: str, listed: ObjectMeta, cached: ObjectMeta | None, memory: Memory
    ) -> bool:
        """Tell whether an item can only come from a history that went back in time."""
        ...


@final
class GlobalOrder:
    """Any two versions compare, as built-in resources and custom resources promise."""

    def change(
        self, key: str, new: ObjectMeta, cached: ObjectMeta | None, position: str, memory: Memory
    ) -> Passing | None:
        """Judge by the position, by what is cached, and by who is dead."""
        version = new.resource_version
        is_past = cached is not None and not newer(version, cached.resource_version)
        is_past = is_past or memory.is_past(key, new)
        if older(version, position) and identity(new) != identity(cached):
            return Passing.STALE if is_past else Passing.UNPROVEN
        return Passing.DUPLICATE if is_past else None

    def deletion(
        self, key: str, gone: ObjectMeta, cached: ObjectMeta, position: str, memory: Memory
    ) -> Passing | None:
        """Judge by what is cached; a verify may have shown what was after it."""
        version = gone.resource_version
        is_of_cached = cached.uid == gone.uid
        if is_of_cached and not older(version, cached.resource_version):
            return None
        is_news = older(position, version)
        if memory.readings.cover(key, version):
            return Passing.DUPLICATE if is_news else Passing.STALE
        if is_of_cached:
            return Passing.UNPROVEN
        if newer(version, cached.resource_version):
            return Passing.UNSEEN
        return Passing.DUPLICATE if is_news else Passing.STALE

    def contradicts(
        self, key: str, found: ObjectMeta | None, cached: ObjectMeta | None, memory: Memory
    ) -> bool:
        """Compare with what is cached, and with who is dead."""
        if found is not None and memory.dead.covers(key, found.uid, found.resource_version):
            return True
        if found is None or cached is None:
            return False
        if found.uid == cached.uid:
            return older(found.resource_version, cached.resource_version)
        return not newer(found.resource_version, cached.resource_version)

    def proves_rewind(
        self, key: str, listed: ObjectMeta, cached: ObjectMeta | None, memory: Memory
    ) -> bool:
        """Compare with what a list or a watch has shown of the same object.

        What a verify has shown proves nothing: another server may have answered it.
        """
        version = listed.resource_version
        if cached is not None and cached.uid == listed.uid:
            known = cached.resource_version
            return older(version, known) and not memory.readings.is_source(key, known)
        is_dead = memory.dead.covers(key, listed.uid, version)
        return is_dead and not memory.readings.cover(key, version)


@final
class PerObjectOrder:
    """Only two versions of one object compare."""

    def change(
        self, key: str, new: ObjectMeta, cached: ObjectMeta | None, position: str, memory: Memory
    ) -> Passing | None:
        """Judge by the version that is cached of the same object."""
        del position
        version = new.resource_version
        if cached is None or cached.uid != new.uid:
            return Passing.STALE if memory.dead.covers(key, new.uid, version) else None
        if version == cached.resource_version:
            return Passing.DUPLICATE
        return Passing.STALE if older(version, cached.resource_version) else None

    def deletion(
        self, key: str, gone: ObjectMeta, cached: ObjectMeta, position: str, memory: Memory
    ) -> Passing | None:
        """Judge by the version that is cached of the same object."""
        del position
        if cached.uid == gone.uid:
            is_before = older(gone.resource_version, cached.resource_version)
            return Passing.UNPROVEN if is_before else None
        # The end of another object under this name: a replay if it is known to be dead; if not,
        # its whole life was missed, and what is cached may be over, too.
        return Passing.STALE if memory.dead.has(key, gone.uid) else Passing.UNPROVEN

    def contradicts(
        self, key: str, found: ObjectMeta | None, cached: ObjectMeta | None, memory: Memory
    ) -> bool:
        """Compare with what is cached of the same object, and with who is dead."""
        return found is not None and self.proves_rewind(key, found, cached, memory)

    def proves_rewind(
        self, key: str, listed: ObjectMeta, cached: ObjectMeta | None, memory: Memory
    ) -> bool:
        """Compare with what is cached of the same object, and with who is dead."""
        version = listed.resource_version
        if cached is not None and cached.uid == listed.uid:
            return older(version, cached.resource_version)
        return memory.dead.covers(key, listed.uid, version)


@final
class OpaqueOrder:
    """Only equality means anything."""

    def change(
        self, key: str, new: ObjectMeta, cached: ObjectMeta | None, position: str, memory: Memory
    ) -> Passing | None:
        """Drop what is cached already."""
        del key, position, memory
        # Without a version nothing says that this is what is cached, so it is taken.
        is_same = new.resource_version and identity(new) == identity(cached)
        return Passing.DUPLICATE if is_same else None

    def deletion(
        self, key: str, gone: ObjectMeta, cached: ObjectMeta, position: str, memory: Memory
    ) -> Passing | None:
        """Take it for the object that it names, or for any if it names none."""
        del key, position, memory
        return None if gone.uid in {cached.uid, ""} else Passing.STALE

    def contradicts(
        self, key: str, found: ObjectMeta | None, cached: ObjectMeta | None, memory: Memory
    ) -> bool:
        """Nothing can be said."""
        del key, found, cached, memory
        return False

    def proves_rewind(
        self, key: str, listed: ObjectMeta, cached: ObjectMeta | None, memory: Memory
    ) -> bool:
        """Nothing can be said."""
        del key, listed, cached, memory
        return False


RULES: Mapping[Order, Rules] = {
    "global": GlobalOrder(),
    "per_object": PerObjectOrder(),
    "opaque": OpaqueOrder(),
}


def newer(version: str, cached: str) -> bool:
    """Return whether a version is newer than a cached one, which may be of any form."""
    if len(version) != len(cached):
        return len(version) > len(cached)
    return version > cached


def identity(meta: ObjectMeta | None) -> tuple[str, str]:
    """Return uid and version; both are empty of nothing."""
    return ("", "") if meta is None else (meta.uid, meta.resource_version)
