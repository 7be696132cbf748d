"""Objects of a cache that a handler is yet to be told of, all at once and at no cost.

What enters is the content of a cache; objects leave one by one in that order, or are looked up by
key because something happened to them meanwhile. The look-up table is built when it is first
needed, over what is left then: handing over a hundred thousand objects takes no time by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Generic, final

from pyinformer.apimachinery import KubeObject, V

_key_of = attrgetter("_key")


@final
class ResyncList(Generic[V]):
    """A sequence of objects with unique keys that becomes a mapping when it has to.

    Args:
        objects: what to hold, the first to leave first.
    """

    def __init__(self, objects: Iterable[KubeObject[V]]) -> None:
        # The last leaves first: cheap for a list, and the only cheap end of a dict.
        self._reversed = list(objects)[::-1]
        self._by_key: dict[str, KubeObject[V]] | None = None

    def __len__(self) -> int:
        return len(self._reversed if self._by_key is None else self._by_key)

    def pop(self) -> KubeObject[V]:
        """Remove and return the first object.

        Raises:
            IndexError, KeyError: there is none.
        """
        return self._reversed.pop() if self._by_key is None else self._by_key.popitem()[1]

    def holds(self, key: str) -> bool:
        """Tell whether an object is among what is left; slow, changes nothing, any thread."""
        if any(obj._key == key for obj in self._reversed.copy()):
            return True
        by_key = self._by_key  # looked at last: what was listed a moment ago may be in it now
        return by_key is not None and key in by_key

    def by_key(self) -> dict[str, KubeObject[V]]:
        """Return what is left by key, `namespace/name` or `name`; to be changed in place."""
        if self._by_key is None:
            objects, self._reversed = self._reversed, []
            self._by_key = dict(zip(map(_key_of, objects), objects, strict=True))
        return self._by_key
