"""From a change to a reconcile that cannot be lost: controllers, and operators made of them."""

from pyinformer.controller._conditions import find_condition, is_condition_true, set_condition
from pyinformer.controller._controller import Controller
from pyinformer.controller._custom_resource import (
    CustomResource,
    custom_resource,
    custom_resource_definition,
)
from pyinformer.controller._event_recorder import EventRecorder, EventRecorderStatistics
from pyinformer.controller._finalizer import FinalizerPhase, HeldObject, finalizer
from pyinformer.controller._group import ControllerGroup
from pyinformer.controller._mapping import Keys, MappingFunction
from pyinformer.controller._operator import Operator
from pyinformer.controller._operator_run import OperatorRun
from pyinformer.controller._options import ControllerOptions
from pyinformer.controller._outcomes import Outcome
from pyinformer.controller._owner_references import set_controller_reference, set_owner_reference
from pyinformer.controller._predicates import (
    Predicate,
    PredicateFunction,
    StateFunction,
    all_of,
    annotations_changed,
    any_of,
    generation_changed,
    labels_changed,
    matches,
    negate,
    resource_version_changed,
)
from pyinformer.controller._request import Reason, Request
from pyinformer.controller._result import Reconcile, Result
from pyinformer.controller._source_mapped import PrimarySource, WatchedSource
from pyinformer.controller._source_owned import OwnedSource
from pyinformer.controller._source_timer import KeysFunction, TimerSource
from pyinformer.controller._sources import Enqueue, Source, SourceInformer, SourceStatus
from pyinformer.controller._status import (
    ControllerGroupStatus,
    ControllerStatus,
    SlotStatus,
)

__all__ = [
    "Controller",
    "ControllerGroup",
    "ControllerGroupStatus",
    "ControllerOptions",
    "ControllerStatus",
    "CustomResource",
    "Enqueue",
    "EventRecorder",
    "EventRecorderStatistics",
    "FinalizerPhase",
    "HeldObject",
    "Keys",
    "KeysFunction",
    "MappingFunction",
    "Operator",
    "OperatorRun",
    "Outcome",
    "OwnedSource",
    "Predicate",
    "PredicateFunction",
    "PrimarySource",
    "Reason",
    "Reconcile",
    "Request",
    "Result",
    "SlotStatus",
    "Source",
    "SourceInformer",
    "SourceStatus",
    "StateFunction",
    "TimerSource",
    "WatchedSource",
    "all_of",
    "annotations_changed",
    "any_of",
    "custom_resource",
    "custom_resource_definition",
    "finalizer",
    "find_condition",
    "generation_changed",
    "is_condition_true",
    "labels_changed",
    "matches",
    "negate",
    "resource_version_changed",
    "set_condition",
    "set_controller_reference",
    "set_owner_reference",
]
