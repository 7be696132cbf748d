"""Findings about programs and their connections: their rules, and the limits of these.

Everything here is synchronous and reads records only; the command line gets them.
"""

# Pure, as all modules below: it knows no event loop.

from pyinformer.operator.diagnosis._diagnosis_finding import (
    DiagnosisFinding,
    Severity,
    good,
    grade,
    span,
    trouble,
    warn,
    worst_first,
)
from pyinformer.operator.diagnosis._page_fields import PageFields
from pyinformer.operator.diagnosis._status_diagnosis import (
    diagnose_controller,
    diagnose_informer,
    diagnose_replicas,
    diagnose_status,
    is_status_page,
)
from pyinformer.operator.diagnosis._thresholds import THRESHOLDS, Thresholds

__all__ = [
    "THRESHOLDS",
    "DiagnosisFinding",
    "PageFields",
    "Severity",
    "Thresholds",
    "diagnose_controller",
    "diagnose_informer",
    "diagnose_replicas",
    "diagnose_status",
    "good",
    "grade",
    "is_status_page",
    "span",
    "trouble",
    "warn",
    "worst_first",
]
