"""Station 2: keep in step with the wire. Decides what to load, where to resume, what to believe."""

from pyinformer.reflector._admission import (
    Admission,
    AdmissionOptions,
    AdmissionStatistics,
    ListingSlot,
)
from pyinformer.reflector._guard import Guard, GuardStatistics
from pyinformer.reflector._lineage import Lineage, LineageStatus
from pyinformer.reflector._liveness import Liveness
from pyinformer.reflector._mass_delete import MassDeletePolicy
from pyinformer.reflector._options import ReflectorOptions
from pyinformer.reflector._presence import AbsencePolicy
from pyinformer.reflector._proof import Fresh, look
from pyinformer.reflector._quarantine import StaleObject
from pyinformer.reflector._reflector import Reflector, ReflectorStatus
from pyinformer.reflector._sink import Sink
from pyinformer.reflector._state import LoadRecord, ReflectorState
from pyinformer.reflector._watch_list_memory import WatchListMemory

__all__ = [
    "AbsencePolicy",
    "Admission",
    "AdmissionOptions",
    "AdmissionStatistics",
    "Fresh",
    "Guard",
    "GuardStatistics",
    "Lineage",
    "LineageStatus",
    "ListingSlot",
    "Liveness",
    "LoadRecord",
    "MassDeletePolicy",
    "Reflector",
    "ReflectorOptions",
    "ReflectorState",
    "ReflectorStatus",
    "Sink",
    "StaleObject",
    "WatchListMemory",
    "look",
]
