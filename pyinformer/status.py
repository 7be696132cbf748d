"""Frozen records of what a part of the library does and has done: statuses, reports, statistics.

They are made when they are read, and are safe to keep, compare and pass to another thread.
"""

from pyinformer.apimachinery import InternStatistics, Journal, JournalEntry
from pyinformer.audit import (
    AuditRepair,
    AuditReport,
    AuditVerdict,
    CacheMutation,
    Difference,
    Mismatches,
    MutatedPath,
    MutationMode,
    MutationStatistics,
    ValueSource,
)
from pyinformer.cluster import APIResource, PooledClusterStatus, Upserted, WriteStatistics
from pyinformer.controller import (
    ControllerGroupStatus,
    ControllerStatus,
    FailingKeyStatus,
    HotLoopStatus,
    NoopWriteStatus,
    Outcome,
    WorkerStatus,
)
from pyinformer.deltas import QueueStatistics
from pyinformer.informer import (
    Explanation,
    FactoryStatus,
    HandlerStatus,
    InformerStatus,
    NamespaceStatus,
    StateChange,
    WatchdogStatistics,
)
from pyinformer.recording import RecordingStatistics
from pyinformer.reflector import (
    GuardStatistics,
    LineageStatus,
    Liveness,
    LoadCause,
    ReflectorState,
    ReflectorStatus,
    RelistRecord,
    RequestBudgetStatistics,
)
from pyinformer.store import IndexStatistics, OverlayStatistics

__all__ = [
    "APIResource",
    "AuditRepair",
    "AuditReport",
    "AuditVerdict",
    "CacheMutation",
    "ControllerGroupStatus",
    "ControllerStatus",
    "Difference",
    "Explanation",
    "FactoryStatus",
    "FailingKeyStatus",
    "GuardStatistics",
    "HandlerStatus",
    "HotLoopStatus",
    "IndexStatistics",
    "InformerStatus",
    "InternStatistics",
    "Journal",
    "JournalEntry",
    "LineageStatus",
    "Liveness",
    "LoadCause",
    "Mismatches",
    "MutatedPath",
    "MutationMode",
    "MutationStatistics",
    "NamespaceStatus",
    "NoopWriteStatus",
    "Outcome",
    "OverlayStatistics",
    "PooledClusterStatus",
    "QueueStatistics",
    "RecordingStatistics",
    "ReflectorState",
    "ReflectorStatus",
    "RelistRecord",
    "RequestBudgetStatistics",
    "StateChange",
    "Upserted",
    "ValueSource",
    "WatchdogStatistics",
    "WorkerStatus",
    "WriteStatistics",
]
