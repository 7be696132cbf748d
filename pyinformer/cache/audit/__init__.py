"""Checks of the cache: whether it agrees with the server, and whether readers changed it."""

from pyinformer.cache.audit._consistency import (
    MAX_NAMED,
    AuditRepair,
    AuditReport,
    AuditVerdict,
    Comparison,
    Difference,
    Mismatches,
)
from pyinformer.cache.audit._mutation_detector import (
    DebugSession,
    MutationDetector,
    MutationStatistics,
)
from pyinformer.cache.audit._mutation_diff import CacheMutation, MutatedPath, MutationMode
from pyinformer.cache.audit._mutation_ledger import SharedValue, ValueSource

__all__ = [
    "MAX_NAMED",
    "AuditRepair",
    "AuditReport",
    "AuditVerdict",
    "CacheMutation",
    "Comparison",
    "DebugSession",
    "Difference",
    "Mismatches",
    "MutatedPath",
    "MutationDetector",
    "MutationMode",
    "MutationStatistics",
    "SharedValue",
    "ValueSource",
]
