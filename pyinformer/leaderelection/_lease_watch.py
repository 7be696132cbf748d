"""Follows Leases: the sink of a Reflector, which calls a follower for each change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, final

from pyinformer.leaderelection._lease import LeaseRecord, read_lease
from pyinformer.objects import Deleted, Event, KubeObject, Updated


class LeaseFollower(Protocol):
    """Is called on the event loop with what a watch shows."""

    def on_watched(self, lease: LeaseRecord) -> None:
        """Take a version of a Lease."""
        ...

    def on_watched_deletion(self, name: str, uid: str) -> None:
        """Take the deletion of a Lease; a watch of a label shows one that has lost it so, too."""
        ...


class GroupFollower(LeaseFollower, Protocol):
    """Also decides whether its elector competes."""

    @property
    def waits_for(self) -> str:
        """Why the elector may not take its Lease; empty if it may."""
        ...


@final
@dataclass(frozen=True, slots=True)
class LeaseGroup:
    """The Leases with a label, one of which an elector competes for: it watches all of them."""

    label: str
    name: str
    """The value of the label."""
    follower: GroupFollower
    """Is called with what the watch shows of each, before the elector is."""


@final
class LeaseSink:
    """The sink of the Reflector: it holds the Leases.

    Others are left out: a server behind a gateway may ignore selectors, and show all.

    Args:
        follower: called for each change.
        key: the elector's own Lease, `namespace/name`.
        is_group: whether all Leases of its namespace are followed, and not only that one.
    """

    def __init__(self, follower: LeaseFollower, key: str, *, is_group: bool) -> None:
        self._follower = follower
        self._key, self._is_group = key, is_group
        self._objects: dict[str, KubeObject] = {}

    def get(self, key: str) -> KubeObject | None:
        """Return a Lease, if it exists."""
        return self._objects.get(key)

    def keys(self) -> list[str]:
        """Return the keys of the Leases."""
        return list(self._objects)

    def apply_nowait(self, event: Event) -> None:
        """Apply one event."""
        if isinstance(event, Deleted):
            if self._is_wanted(event.last_known):
                self._objects.pop(event.last_known.key, None)
                self._delete(event.last_known)
        else:
            self._put(event.new if isinstance(event, Updated) else event.object)

    def replace_nowait(
        self, objects: Mapping[str, KubeObject], resource_version: str
    ) -> Iterable[None]:
        """Apply a list."""
        for key in [key for key in self._objects if key not in objects]:
            self._delete(self._objects.pop(key))
        for obj in objects.values():
            self._put(obj)
        return ()

    def bookmark_nowait(self, resource_version: str) -> None:
        """Do nothing: only changes count."""

    def _is_wanted(self, obj: KubeObject) -> bool:
        if not self._is_group:
            return obj.key == self._key
        return obj.key.partition("/")[0] == self._key.partition("/")[0]

    def _put(self, obj: KubeObject) -> None:
        if not self._is_wanted(obj):
            return
        known = self._objects.get(obj.key)
        if known is not None and known.metadata.uid != obj.metadata.uid:
            self._delete(known)
        self._objects[obj.key] = obj
        self._follower.on_watched(read_lease(obj.to_dict()))

    def _delete(self, known: KubeObject) -> None:
        self._follower.on_watched_deletion(known.metadata.name, known.metadata.uid)
