"""Controllers: reconcile functions, called for each request, with retries and deadlines.

`sources` say which events become requests; `conventions` are what a controller keeps on objects by
the conventions of Kubernetes: conditions, finalizers, owner references and Events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer._runtime.late_names import late_getattr

if TYPE_CHECKING:
    from pyinformer.controller._controller import (
        Controller,
    )
    from pyinformer.controller._controller_group import (
        ControllerGroup,
    )
    from pyinformer.controller._controller_group import checked_controllers as checked_controllers
    from pyinformer.controller._gate import Gate as Gate
    from pyinformer.controller._object_tasks import ObjectTask as ObjectTask
    from pyinformer.controller._object_tasks import ObjectTasks as ObjectTasks
    from pyinformer.controller._options import (
        ControllerOptions,
    )
    from pyinformer.controller._primary_informers import own_requests as own_requests
    from pyinformer.controller._requeue_policy import (
        Outcome,
    )
    from pyinformer.controller._requeue_policy import given_up_reason as given_up_reason
    from pyinformer.controller._result import (
        UNDECIDED as UNDECIDED,
    )
    from pyinformer.controller._result import (
        Reconcile,
        Result,
    )
    from pyinformer.controller._result import invalid_result as invalid_result
    from pyinformer.controller._shutdown_signals import FORCED_END as FORCED_END
    from pyinformer.controller._shutdown_signals import STOPPING as STOPPING
    from pyinformer.controller._shutdown_signals import on_stop_signal as on_stop_signal
    from pyinformer.controller._status import (
        ControllerGroupStatus,
        ControllerStatus,
        DaemonsStatus,
        EngagedClusterStatus,
        EngagedState,
        FailingKeyStatus,
        HotLoopStatus,
        NoopWriteStatus,
        WaitingKeyStatus,
        WorkerStatus,
    )
    from pyinformer.controller.conventions import (
        EventRecorder,
        EventRecorderStatistics,
        FinalizerContext,
        FinalizerPhase,
        finalizer,
        find_condition,
        has_owner_reference,
        is_condition_true,
        remove_condition,
        remove_owner_reference,
        set_condition,
        set_controller_reference,
        set_owner_reference,
        upgrade_managed_fields,
    )
    from pyinformer.controller.sources import (
        Keys,
        KeysFunction,
        MappingFunction,
        OwnedSource,
        OwnerKind,
        Predicate,
        PredicateFunction,
        PrimarySource,
        Reason,
        Request,
        Source,
        SourceOptions,
        SourceStatus,
        StateFunction,
        TimerSource,
        WatchedSource,
        all_of,
        annotations_changed,
        any_of,
        generation_changed,
        labels_changed,
        matches,
        matches_labels,
        negate,
        resource_version_changed,
    )

# Loaded when they are first used: a room of the wing can be used without the others.
_HOMES = {
    "UNDECIDED": "_result",
    "given_up_reason": "_requeue_policy",
    "invalid_result": "_result",
    "Controller": "_controller",
    "ControllerGroup": "_controller_group",
    "ControllerGroupStatus": "_status",
    "ControllerOptions": "_options",
    "ControllerStatus": "_status",
    "DaemonsStatus": "_status",
    "EngagedClusterStatus": "_status",
    "EngagedState": "_status",
    "EventRecorder": "conventions",
    "EventRecorderStatistics": "conventions",
    "FailingKeyStatus": "_status",
    "FinalizerContext": "conventions",
    "FinalizerPhase": "conventions",
    "Gate": "_gate",
    "HotLoopStatus": "_status",
    "Keys": "sources",
    "KeysFunction": "sources",
    "MappingFunction": "sources",
    "NoopWriteStatus": "_status",
    "ObjectTask": "_object_tasks",
    "ObjectTasks": "_object_tasks",
    "Outcome": "_requeue_policy",
    "OwnedSource": "sources",
    "OwnerKind": "sources",
    "Predicate": "sources",
    "PredicateFunction": "sources",
    "PrimarySource": "sources",
    "Reason": "sources",
    "Reconcile": "_result",
    "Request": "sources",
    "Result": "_result",
    "Source": "sources",
    "SourceOptions": "sources",
    "SourceStatus": "sources",
    "StateFunction": "sources",
    "TimerSource": "sources",
    "WaitingKeyStatus": "_status",
    "WatchedSource": "sources",
    "WorkerStatus": "_status",
    "all_of": "sources",
    "annotations_changed": "sources",
    "any_of": "sources",
    "checked_controllers": "_controller_group",
    "finalizer": "conventions",
    "find_condition": "conventions",
    "generation_changed": "sources",
    "has_owner_reference": "conventions",
    "is_condition_true": "conventions",
    "labels_changed": "sources",
    "matches": "sources",
    "matches_labels": "sources",
    "negate": "sources",
    "FORCED_END": "_shutdown_signals",
    "STOPPING": "_shutdown_signals",
    "on_stop_signal": "_shutdown_signals",
    "own_requests": "_primary_informers",
    "remove_condition": "conventions",
    "remove_owner_reference": "conventions",
    "resource_version_changed": "sources",
    "set_condition": "conventions",
    "set_controller_reference": "conventions",
    "set_owner_reference": "conventions",
    "upgrade_managed_fields": "conventions",
}

__all__ = [
    "Controller",
    "ControllerGroup",
    "ControllerGroupStatus",
    "ControllerOptions",
    "ControllerStatus",
    "DaemonsStatus",
    "EngagedClusterStatus",
    "EngagedState",
    "EventRecorder",
    "EventRecorderStatistics",
    "FailingKeyStatus",
    "FinalizerContext",
    "FinalizerPhase",
    "HotLoopStatus",
    "Keys",
    "KeysFunction",
    "MappingFunction",
    "NoopWriteStatus",
    "Outcome",
    "OwnedSource",
    "OwnerKind",
    "Predicate",
    "PredicateFunction",
    "PrimarySource",
    "Reason",
    "Reconcile",
    "Request",
    "Result",
    "Source",
    "SourceOptions",
    "SourceStatus",
    "StateFunction",
    "TimerSource",
    "WaitingKeyStatus",
    "WatchedSource",
    "WorkerStatus",
    "all_of",
    "annotations_changed",
    "any_of",
    "finalizer",
    "find_condition",
    "generation_changed",
    "has_owner_reference",
    "is_condition_true",
    "labels_changed",
    "matches",
    "matches_labels",
    "negate",
    "remove_condition",
    "remove_owner_reference",
    "resource_version_changed",
    "set_condition",
    "set_controller_reference",
    "set_owner_reference",
    "upgrade_managed_fields",
]

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__ = late_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
