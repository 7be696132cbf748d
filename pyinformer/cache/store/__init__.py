"""The cache: objects by key, indexes over them, listers that read them, and own writes."""

# Pure, as all modules below: it knows no event loop.

from pyinformer.cache.store._decoded import (
    DecodedLister,
    DecodedObject,
    DecodedObjects,
    SharedObject,
)
from pyinformer.cache.store._index import (
    NAMESPACE_INDEX,
    IndexFunction,
    IndexStatistics,
    IndexValue,
)
from pyinformer.cache.store._indexer import Indexer
from pyinformer.cache.store._joint_indexer import Cache, JointIndexer
from pyinformer.cache.store._lister import Lister, NamespaceLister, Readiness
from pyinformer.cache.store._overlay import (
    Overlay,
    OverlayEntries,
    OverlayEntry,
    OverlayStatistics,
    UnconfirmedWrite,
)
from pyinformer.cache.store._overlay_reads import merged_get

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
