"""The reflector: what to load, where to resume the watch, and which events to apply."""

from pyinformer.cache.reflector._availability import AbsencePolicy
from pyinformer.cache.reflector._event_applier import EventApplier, StreamBroken
from pyinformer.cache.reflector._followed_server import FollowedServer
from pyinformer.cache.reflector._mass_delete import MassDeletePolicy
from pyinformer.cache.reflector._options import ReflectorOptions
from pyinformer.cache.reflector._quarantine import StaleObject
from pyinformer.cache.reflector._reflector import Reflector, ReflectorStatus
from pyinformer.cache.reflector._reporting import RelistRecord
from pyinformer.cache.reflector._request_budget import (
    ListingSlot,
    RequestBudget,
    RequestBudgetOptions,
)
from pyinformer.cache.reflector._sink import Sink
from pyinformer.cache.reflector._snapshot import Snapshot
from pyinformer.cache.reflector._tap import ReflectorTap
from pyinformer.cache.reflector._throttled_pages import past_throttling
from pyinformer.cache.reflector._watch_loop import Liveness
from pyinformer.cache.reflector.guard import Counts, Guard, GuardStatistics
from pyinformer.cache.reflector.lineage import Lineage, LineageStatus, LiveIdentity, read_live
from pyinformer.cache.reflector.machine import LoadCause, ReflectorState, WatchListMemory

__all__ = [
    "AbsencePolicy",
    "Counts",
    "EventApplier",
    "FollowedServer",
    "Guard",
    "GuardStatistics",
    "Lineage",
    "LineageStatus",
    "ListingSlot",
    "LiveIdentity",
    "Liveness",
    "LoadCause",
    "MassDeletePolicy",
    "Reflector",
    "ReflectorOptions",
    "ReflectorState",
    "ReflectorStatus",
    "ReflectorTap",
    "RelistRecord",
    "RequestBudget",
    "RequestBudgetOptions",
    "Sink",
    "Snapshot",
    "StaleObject",
    "StreamBroken",
    "WatchListMemory",
    "past_throttling",
    "read_live",
]
