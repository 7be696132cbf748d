"""What a reflector needs of the thing it feeds: a store, a queue, or both.

The reflector judges an event by the newest state the sink has of that key, then hands it over; it
moves its position only after the sink has taken the event. A list is handed over whole, as a
mapping; a sink that has much to do with it returns the rest of its work in slices, so that the
event loop never waits for a hundred thousand objects at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from typing_extensions import TypeVar

from pyinformer.apimachinery import Event, KubeObject, View

V = TypeVar("V", bound=View | None, default=None)


class Sink(Protocol[V]):
    """Takes what a reflector learns; all of it synchronous, on the reflector's loop."""

    def get(self, key: str) -> KubeObject[V] | None:
        """Return the newest state of a key, or None; a queue answers for what is in it, too.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
        """
        ...

    def keys(self) -> Iterable[str]:
        """Return every key for which `get` returns an object; a list is the caller's own."""
        ...

    def apply_nowait(self, event: Event[V]) -> None:
        """Take one change. The old object of an update is what `get` returned."""
        ...

    def replace_nowait(
        self, objects: Mapping[str, KubeObject[V]], resource_version: str
    ) -> Iterable[None]:
        """Take a complete list.

        Args:
            objects: every object that exists, by key. An object that `get` returned and that has
                not changed is passed as the same record. The sink may keep the mapping.
            resource_version: the list's own.

        Returns:
            The work that remains, to be iterated to its end: each step is short, the list takes
            effect atomically in one of them, and consequences for others follow after it.
        """
        ...

    def bookmark_nowait(self, resource_version: str) -> None:
        """Take note that nothing changed up to this resource version."""
        ...


def keys_of(sink: Sink[V]) -> list[str]:
    """Return every key of a sink in a list of our own.

    To copy what is a copy already would walk over a million keys twice, 40 ms each time.
    """
    keys = sink.keys()
    return keys if isinstance(keys, list) else list(keys)
