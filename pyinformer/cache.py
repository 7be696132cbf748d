"""What a cache is built of: reflectors, queues of deltas, indexers, selectors and their options.

Most programs need none of it: `pyinformer.SharedInformerFactory` puts the parts together.
"""

from pyinformer.apimachinery import (
    ABSENT,
    Absent,
    BytesTransform,
    Change,
    FieldRequirement,
    FieldSelector,
    JSONValue,
    LabelRequirement,
    Labels,
    LabelSelector,
    OwnerReference,
    Transform,
    VersionOrder,
)
from pyinformer.cluster import LogStream, ObjectList
from pyinformer.deltas import (
    DeletedFinalStateUnknown,
    Delta,
    DeltaFIFO,
    Deltas,
    DeltaType,
    KnownObjects,
    RealFIFO,
)
from pyinformer.informer import (
    EventStream,
    InformerOptions,
    InformerSettings,
    KeepingOptions,
    Recording,
    Registration,
    Scope,
)
from pyinformer.reflector import (
    Lineage,
    MassDeletePolicy,
    Reflector,
    ReflectorOptions,
    Sink,
    StaleObject,
    WatchListMemory,
)
from pyinformer.store import (
    DecodedLister,
    DecodedObject,
    DecodedObjects,
    Indexer,
    IndexFunction,
    SharedObject,
)
from pyinformer.transport import ListWatch

__all__ = [
    "ABSENT",
    "Absent",
    "BytesTransform",
    "Change",
    "DecodedLister",
    "DecodedObject",
    "DecodedObjects",
    "DeletedFinalStateUnknown",
    "Delta",
    "DeltaFIFO",
    "DeltaType",
    "Deltas",
    "EventStream",
    "FieldRequirement",
    "FieldSelector",
    "IndexFunction",
    "Indexer",
    "InformerOptions",
    "InformerSettings",
    "JSONValue",
    "KeepingOptions",
    "KnownObjects",
    "LabelRequirement",
    "LabelSelector",
    "Labels",
    "Lineage",
    "ListWatch",
    "LogStream",
    "MassDeletePolicy",
    "ObjectList",
    "OwnerReference",
    "RealFIFO",
    "Recording",
    "Reflector",
    "ReflectorOptions",
    "Registration",
    "Scope",
    "SharedObject",
    "Sink",
    "StaleObject",
    "Transform",
    "VersionOrder",
    "WatchListMemory",
]
