"""The interface of what a reflector feeds: a store, a queue, or both.

The reflector judges an event by the newest state that the sink has of its key, passes it to the
sink, and then moves its position. A list is passed whole, as a mapping. A sink with much to do
returns the rest of its work in slices, so the event loop never waits for a hundred thousand objects
at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from typing_extensions import TypeVar

from pyinformer.objects import Event, KubeObject

V = TypeVar("V", default=None)


class Sink(Protocol[V]):
    """Receives the objects and events of a reflector, synchronously, on the reflector's loop."""

    @abstractmethod
    def get(self, key: str) -> KubeObject[V] | None:
        """Return the newest state of a key, or None; a queue includes what it holds.

        Only the key and the metadata are read: a sink that keeps no bodies returns an object whose
        metadata has uid and resource version, and whose body is empty.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
        """
        ...

    @abstractmethod
    def keys(self) -> Iterable[str]:
        """Return every key for which `get` returns an object; a list belongs to the caller."""
        ...

    @abstractmethod
    def apply_nowait(self, event: Event[V]) -> None:
        """Apply one event; the old object of an update is what `get` returned."""
        ...

    @abstractmethod
    def replace_nowait(
        self, objects: Mapping[str, KubeObject[V]], resource_version: str
    ) -> Iterable[None]:
        """Replace the content by a complete list.

        Args:
            objects: every object that exists, by key. An object that `get` returned and that has
                not changed is passed as the same record, except in the first load of a reflector,
                which passes every object as it was listed. The sink may keep the mapping.
            resource_version: the list's version.

        Returns:
            The remaining work, which the caller iterates to its end: each step is short, the list
            takes effect atomically in one of them, and handlers are notified after that.
        """
        ...

    @abstractmethod
    def bookmark_nowait(self, resource_version: str) -> None:
        """Record that nothing else has changed up to this resource version."""
        ...


@runtime_checkable
class OwnWritesSink(Protocol):
    """What a sink has besides whose readers see own writes before the watch brings them."""

    @abstractmethod
    def passed_nowait(self, resource_version: str) -> None:
        """Record that the position has passed the deletion of an object that the sink did not have.

        Other sinks get a bookmark. That also says that the server had nothing else to send for a
        while, which a burst of such deletions does not.
        """
        ...


def keys_of(sink: Sink[V]) -> list[str]:
    """Return every key of a sink, in a list that belongs to the caller.

    A list is not copied again: that would cost another 40 ms for a million keys.
    """
    keys = sink.keys()
    return keys if isinstance(keys, list) else list(keys)
