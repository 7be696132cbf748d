"""From a request to a reconcile that cannot be lost: controllers, and what reconciles write."""

from pyinformer.controller._conditions import find_condition, is_condition_true, set_condition
from pyinformer.controller._controller import Controller
from pyinformer.controller._event_recorder import EventRecorder, EventRecorderStatistics
from pyinformer.controller._finalizer import FinalizerPhase, HeldObject, finalizer
from pyinformer.controller._group import ControllerGroup
from pyinformer.controller._options import ControllerOptions
from pyinformer.controller._outcomes import Outcome
from pyinformer.controller._owner_references import set_controller_reference, set_owner_reference
from pyinformer.controller._result import Reconcile, Result
from pyinformer.controller._status import ControllerGroupStatus, ControllerStatus, SlotStatus

__all__ = [
    "Controller",
    "ControllerGroup",
    "ControllerGroupStatus",
    "ControllerOptions",
    "ControllerStatus",
    "EventRecorder",
    "EventRecorderStatistics",
    "FinalizerPhase",
    "HeldObject",
    "Outcome",
    "Reconcile",
    "Result",
    "SlotStatus",
    "finalizer",
    "find_condition",
    "is_condition_true",
    "set_condition",
    "set_controller_reference",
    "set_owner_reference",
]
