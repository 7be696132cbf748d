"""The cache: objects by key, indexes over them, listers that read them, and own writes."""

# Pure, as all modules below: it knows no event loop.

from pyinformer.store._decoded import DecodedLister, DecodedObject, DecodedObjects, SharedObject
from pyinformer.store._index import (
    NAMESPACE_INDEX,
    IndexFunction,
    IndexStatistics,
    IndexValue,
)
from pyinformer.store._indexer import Indexer
from pyinformer.store._joint_indexer import Cache, JointIndexer
from pyinformer.store._lister import Lister, NamespaceLister, Readiness
from pyinformer.store._merging import merged_get
from pyinformer.store._overlay import (
    Overlay,
    OverlayEntries,
    OverlayEntry,
    OverlayStatistics,
    UnconfirmedWrite,
)

__all__ = [
    "NAMESPACE_INDEX",
    "Cache",
    "DecodedLister",
    "DecodedObject",
    "DecodedObjects",
    "IndexFunction",
    "IndexStatistics",
    "IndexValue",
    "Indexer",
    "JointIndexer",
    "Lister",
    "NamespaceLister",
    "Overlay",
    "OverlayEntries",
    "OverlayEntry",
    "OverlayStatistics",
    "Readiness",
    "SharedObject",
    "UnconfirmedWrite",
    "merged_get",
]
