"""The reflector: what to load, where to resume the watch, and which events to apply."""

from pyinformer.reflector._availability import AbsencePolicy
from pyinformer.reflector._event_applier import EventApplier, StreamBroken
from pyinformer.reflector._mass_delete import MassDeletePolicy
from pyinformer.reflector._options import ReflectorOptions
from pyinformer.reflector._paging import LIST_TOTAL_SECONDS, Paging
from pyinformer.reflector._quarantine import StaleObject
from pyinformer.reflector._reflector import Reflector, ReflectorStatus
from pyinformer.reflector._reporting import RelistRecord
from pyinformer.reflector._request_budget import (
    ListingSlot,
    RequestBudget,
    RequestBudgetOptions,
    RequestBudgetStatistics,
)
from pyinformer.reflector._sink import Sink
from pyinformer.reflector._snapshot import Snapshot
from pyinformer.reflector._tap import ReflectorTap
from pyinformer.reflector._watch_loop import Liveness
from pyinformer.reflector.guard import Counts, Guard, GuardStatistics
from pyinformer.reflector.history import Lineage, LineageStatus, LiveIdentity, read_live
from pyinformer.reflector.machine import LoadCause, ReflectorState, WatchListMemory

__all__ = [
    "LIST_TOTAL_SECONDS",
    "AbsencePolicy",
    "Counts",
    "EventApplier",
    "Guard",
    "GuardStatistics",
    "Lineage",
    "LineageStatus",
    "ListingSlot",
    "LiveIdentity",
    "Liveness",
    "LoadCause",
    "MassDeletePolicy",
    "Paging",
    "Reflector",
    "ReflectorOptions",
    "ReflectorState",
    "ReflectorStatus",
    "ReflectorTap",
    "RelistRecord",
    "RequestBudget",
    "RequestBudgetOptions",
    "RequestBudgetStatistics",
    "Sink",
    "Snapshot",
    "StaleObject",
    "StreamBroken",
    "WatchListMemory",
    "read_live",
]
