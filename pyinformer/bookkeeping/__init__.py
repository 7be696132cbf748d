"""What a reconcile writes beside its work: owners, finalizers, conditions, events."""

from pyinformer.bookkeeping._conditions import find_condition, is_condition_true, set_condition
from pyinformer.bookkeeping._event_recorder import EventRecorder, EventRecorderStatistics
from pyinformer.bookkeeping._finalizer import FinalizerPhase, HeldObject, finalizer
from pyinformer.bookkeeping._owner_references import set_controller_reference, set_owner_reference

__all__ = [
    "EventRecorder",
    "EventRecorderStatistics",
    "FinalizerPhase",
    "HeldObject",
    "finalizer",
    "find_condition",
    "is_condition_true",
    "set_condition",
    "set_controller_reference",
    "set_owner_reference",
]
