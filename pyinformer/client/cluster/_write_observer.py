"""Observers of writes: they make a process's own writes visible to its reads.

Observers of a resource are called in the step of the event loop in which a response arrives. The
server has carried out the write by then, so an observer that fails is logged and counted, and never
makes the write look failed.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.objects import GroupVersionResource, check_type

if TYPE_CHECKING:
    from pyinformer.objects import KubeObject

_log = get_logger(__name__)


class WriteObserver(Protocol):
    """Is called on the event loop with the server's responses to writes; must not block or raise.

    Calls may come in any order relative to the events of a watch, and more than once.
    """

    @abstractmethod
    def wrote(self, obj: KubeObject, raw: bytes) -> None:
        """Record an object as the server has it now.

        Args:
            obj: the object; a write that changed nothing has the resource version from before.
            raw: the response's JSON text, which may have the managedFields that `obj` lacks.
        """
        ...

    @abstractmethod
    def deleted(self, key: str, uid: str, resource_version: str | None) -> None:
        """Record that the server no longer has an object.

        Args:
            key: `namespace/name`, or `name` if it is cluster-scoped.
            uid: which object of that name; never empty.
            resource_version: the newest known one: of the deletion, or an earlier one.
        """
        ...


@final
class WriteObservers:
    """The observers of one cluster, by resource."""

    def __init__(self) -> None:
        self._observers: dict[GroupVersionResource, tuple[WriteObserver, ...]] = {}
        self.failures: int = 0
        """How often an observer raised."""

    def add(self, resource: GroupVersionResource, observer: WriteObserver) -> None:
        """Add an observer of a resource's writes; a second time changes nothing."""
        check_type("resource", resource, GroupVersionResource)
        known = self._observers.get(resource, ())
        if not any(one is observer for one in known):
            self._observers[resource] = (*known, observer)

    def remove(self, resource: GroupVersionResource, observer: WriteObserver) -> None:
        """Remove an observer, if it is one."""
        check_type("resource", resource, GroupVersionResource)
        left = tuple(one for one in self._observers.get(resource, ()) if one is not observer)
        if left:
            self._observers[resource] = left
        else:
            self._observers.pop(resource, None)

    def wrote(self, resource: GroupVersionResource, obj: KubeObject, raw: bytes) -> None:
        """Report a write."""
        for observer in self._observers.get(resource, ()):
            try:
                observer.wrote(obj, raw)
            except Exception as error:  # noqa: BLE001 - the write is done, whatever they make of it
                self._failed(resource, error)

    def deleted(
        self,
        resource: GroupVersionResource,
        key: str,
        uid: str,
        resource_version: str | None = None,
    ) -> None:
        """Report a deletion, unless the uid is empty: a successor could not be distinguished."""
        for observer in self._observers.get(resource, ()) if uid else ():
            try:
                observer.deleted(key, uid, resource_version)
            except Exception as error:  # noqa: BLE001 - the object is gone, whatever they make of it
                self._failed(resource, error)

    def _failed(self, resource: GroupVersionResource, error: Exception) -> None:
        self.failures += 1
        # Neither its text nor its traceback's values: they may quote the object.
        _log.error(
            "write observer failed",
            extra={"resource": str(resource), "error": type(error).__name__},
        )
