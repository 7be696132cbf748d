"""Helpers for reconciles: owner references, finalizers, conditions, Events."""

from pyinformer.client.cluster import upgrade_managed_fields
from pyinformer.controller.conventions._conditions import (
    find_condition,
    is_condition_true,
    remove_condition,
    set_condition,
)
from pyinformer.controller.conventions._event_recorder import EventRecorder, EventRecorderStatistics
from pyinformer.controller.conventions._finalizer import FinalizerContext, FinalizerPhase, finalizer
from pyinformer.controller.conventions._finalizer import check_finalizer as check_finalizer
from pyinformer.controller.conventions._finalizer import enter_finalizer as enter_finalizer
from pyinformer.controller.conventions._finalizer import leave_finalizer as leave_finalizer
from pyinformer.controller.conventions._owner_references import (
    has_owner_reference,
    remove_owner_reference,
    set_controller_reference,
    set_owner_reference,
)

__all__ = [
    "EventRecorder",
    "EventRecorderStatistics",
    "FinalizerContext",
    "FinalizerPhase",
    "finalizer",
    "find_condition",
    "has_owner_reference",
    "is_condition_true",
    "remove_condition",
    "remove_owner_reference",
    "set_condition",
    "set_controller_reference",
    "set_owner_reference",
    "upgrade_managed_fields",
]
