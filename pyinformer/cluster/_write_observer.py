"""Who hears of a write's answer: the way by which writes reach this process's reads.

What enters are the answers of writes, made by the Cluster or recorded by hand; they leave in the
same step of the event loop, to the observers of exactly that resource. A write has been carried out
by then, so an observer that fails is named and counted, and never makes the write look failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, final

from pyinformer._logging import get_logger

if TYPE_CHECKING:
    from pyinformer.apimachinery import GroupVersionResource

_LOGGER = get_logger("pyinformer.cluster")


class WriteObserver(Protocol):
    """Told on the event loop of what the server answered to writes; must neither block nor raise.

    Both may come in any order relative to the events of a watch, and more than once.
    """

    def wrote(self, raw: bytes) -> None:
        """Take note of an object as the server has it now.

        Args:
            raw: its JSON, with apiVersion, kind, uid and resourceVersion; a write that changed
                nothing has the resource version of before.
        """
        ...

    def deleted(self, key: str, uid: str, resource_version: str | None) -> None:
        """Take note that the server no longer has an object.

        Args:
            key: `namespace/name`, or `name` if it is cluster-scoped.
            uid: which object of that name; never empty.
            resource_version: the newest that is known of it, its deletion's or an earlier one.
        """
        ...


@final
class WriteObservers:
    """The observers of one cluster, by resource."""

    def __init__(self) -> None:
        self._observers: dict[GroupVersionResource, tuple[WriteObserver, ...]] = {}
        self._failures = 0

    @property
    def failures(self) -> int:
        """How often an observer raised."""
        return self._failures

    def add(self, resource: GroupVersionResource, observer: WriteObserver) -> None:
        """Let an observer hear of a resource's writes; a second time changes nothing."""
        known = self._observers.get(resource, ())
        if not any(one is observer for one in known):
            self._observers[resource] = (*known, observer)

    def remove(self, resource: GroupVersionResource, observer: WriteObserver) -> None:
        """Forget an observer; one that is not known is no error."""
        left = tuple(one for one in self._observers.get(resource, ()) if one is not observer)
        if left:
            self._observers[resource] = left
        else:
            self._observers.pop(resource, None)

    def wrote(self, resource: GroupVersionResource, raw: bytes) -> None:
        """Tell of a write."""
        for observer in self._observers.get(resource, ()):
            try:
                observer.wrote(raw)
            except Exception as error:  # noqa: BLE001 - the write is done, whatever they make of it
                self._failed(resource, error)

    def deleted(
        self,
        resource: GroupVersionResource,
        key: str,
        uid: str,
        resource_version: str | None = None,
    ) -> None:
        """Tell of a deletion; one of an object that nobody can tell from its successor is not."""
        for observer in self._observers.get(resource, ()) if uid else ():
            try:
                observer.deleted(key, uid, resource_version)
            except Exception as error:  # noqa: BLE001 - the object is gone, whatever they make of it
                self._failed(resource, error)

    def _failed(self, resource: GroupVersionResource, error: Exception) -> None:
        self._failures += 1
        # Neither its text nor its traceback's values: they may quote the object.
        _LOGGER.error(
            "write observer failed",
            extra={"resource": str(resource), "error": type(error).__name__},
        )
