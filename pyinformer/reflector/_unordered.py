"""The rules for resource versions that have no order among all objects of a resource.

What enters are an event's identity and version, what is cached of its key and who is known to be
dead; what leaves is why the event is passed over, or None if it is to be taken. Pure. Here a replay
cannot be told from news by the position, so `per_object` compares an event only with its own
object, and `opaque` compares nothing: it drops what is there already and takes the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer.apimachinery import older
from pyinformer.reflector._ruling import Passing

if TYPE_CHECKING:
    from pyinformer.apimachinery import ObjectMeta
    from pyinformer.reflector._tombstones import Tombstones


def change_of_opaque(new: ObjectMeta, cached: ObjectMeta | None) -> Passing | None:
    """Judge an ADDED or MODIFIED event by equality alone."""
    # Without a version nothing says that this is what is cached, so it is taken.
    is_same = cached is not None and new.resource_version and _identity(cached) == _identity(new)
    return Passing.DUPLICATE if is_same else None


def deletion_of_opaque(gone: ObjectMeta, cached: ObjectMeta) -> Passing | None:
    """Judge a DELETED event: it applies to the object that it names, or to any if it names none."""
    return None if gone.uid in {cached.uid, ""} else Passing.STALE


def change_per_object(
    key: str, new: ObjectMeta, cached: ObjectMeta | None, dead: Tombstones
) -> Passing | None:
    """Judge an ADDED or MODIFIED event by the versions of its own object."""
    version = new.resource_version
    if cached is None or cached.uid != new.uid:
        return Passing.STALE if dead.covers(key, new.uid, version) else None
    if version == cached.resource_version:
        return Passing.DUPLICATE
    return Passing.STALE if older(version, cached.resource_version) else None


def deletion_per_object(
    key: str, gone: ObjectMeta, cached: ObjectMeta, dead: Tombstones
) -> Passing | None:
    """Judge a DELETED event by the versions of its own object."""
    if cached.uid == gone.uid:
        is_before = older(gone.resource_version, cached.resource_version)
        return Passing.UNPROVEN if is_before else None
    # The end of another object under this name: a replay if it is known to be dead; if not, its
    # whole life was missed, and what is cached may be over, too.
    return Passing.STALE if dead.has(key, gone.uid) else Passing.UNPROVEN


def _identity(meta: ObjectMeta) -> tuple[str, str]:
    return meta.uid, meta.resource_version
