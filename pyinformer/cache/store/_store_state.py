"""What a complete list replaces as one: the objects, and the indexes over exactly these objects."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, final

from pyinformer.cache.store._index import NAMESPACE_INDEX
from pyinformer.objects import V

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.cache.store._index import Index
    from pyinformer.cache.store._label_index import LabelIndexes
    from pyinformer.cache.store._overlay import OverlayEntry
    from pyinformer.objects import KubeObject

NO_WRITES: Final[Mapping[str, OverlayEntry[Any]]] = MappingProxyType({})


@final
class State(Generic[V]):
    """What is swapped as one: the objects and the indexes over exactly these objects."""

    __slots__ = ("by_namespace", "ended", "indexes", "items", "label_indexes", "others", "shown")

    def __init__(
        self,
        items: dict[str, KubeObject[V]],
        indexes: dict[str, Index[V]],
        ended: Mapping[str, OverlayEntry[V]] = NO_WRITES,
    ) -> None:
        self.ended = ended
        """The own writes that this state replaces, by key; readers no longer see them."""
        self.items = items
        self.indexes = indexes
        self.by_namespace = indexes[NAMESPACE_INDEX].buckets
        self.others = tuple(indexes[name] for name in indexes if name != NAMESPACE_INDEX)
        self.shown = MappingProxyType(items)  # read-only, for readers
        self.label_indexes: LabelIndexes[V] | None = None
        """Made by readers that select by label; the writer records in it, and drops it."""
