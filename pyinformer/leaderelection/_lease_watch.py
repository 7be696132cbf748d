"""Follows one Lease: the sink of a Reflector, which calls a listener for each change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, final

from pyinformer.leaderelection._lease import LeaseRecord, read_lease
from pyinformer.objects import Deleted, Event, KubeObject, Updated


class LeaseListener(Protocol):
    """Is called on the event loop with what a watch shows."""

    def on_watched(self, lease: LeaseRecord) -> None:
        """Take a version of the Lease."""
        ...

    def on_watched_deletion(self, uid: str) -> None:
        """Take the deletion of a Lease."""
        ...


@final
class LeaseSink:
    """The sink of the Reflector: it holds the Lease, if it exists.

    Other Leases are left out: a server behind a gateway may ignore field selectors and show all.

    Args:
        listener: called for each change.
        key: the Lease, `namespace/name`.
    """

    def __init__(self, listener: LeaseListener, key: str) -> None:
        self._listener = listener
        self._key = key
        self._objects: dict[str, KubeObject] = {}

    def get(self, key: str) -> KubeObject | None:
        """Return the Lease, if the key is its own and it exists."""
        return self._objects.get(key)

    def keys(self) -> list[str]:
        """Return the key of the Lease, if it exists."""
        return list(self._objects)

    def apply_nowait(self, event: Event) -> None:
        """Apply one event."""
        if isinstance(event, Deleted):
            if event.last_known.key != self._key:
                return
            self._objects.pop(self._key, None)
            self._listener.on_watched_deletion(event.last_known.metadata.uid)
        else:
            self._put(event.new if isinstance(event, Updated) else event.object)

    def replace_nowait(
        self, objects: Mapping[str, KubeObject], resource_version: str
    ) -> Iterable[None]:
        """Apply a list."""
        for key in [key for key in self._objects if key not in objects]:
            self._listener.on_watched_deletion(self._objects.pop(key).metadata.uid)
        for obj in objects.values():
            self._put(obj)
        return ()

    def bookmark_nowait(self, resource_version: str) -> None:
        """Do nothing: only changes count."""

    def _put(self, obj: KubeObject) -> None:
        if obj.key != self._key:
            return
        known = self._objects.get(obj.key)
        if known is not None and known.metadata.uid != obj.metadata.uid:
            self._listener.on_watched_deletion(known.metadata.uid)
        self._objects[obj.key] = obj
        self._listener.on_watched(read_lease(obj.to_dict()))
