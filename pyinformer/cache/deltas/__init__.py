"""Queues between a reflector and its consumer: in order of arrival, or by key.

Both are sinks: a reflector fills them, and a consumer takes from them at its own pace.
"""

from pyinformer.cache.deltas._base_queue import QueueStatistics
from pyinformer.cache.deltas._delta import DeletedFinalStateUnknown, Delta, DeltaType, KnownObjects
from pyinformer.cache.deltas._delta_events import differences, events_of
from pyinformer.cache.deltas._delta_fifo import DeltaFIFO, Deltas
from pyinformer.cache.deltas._real_fifo import RealFIFO

__all__ = [
    "DeletedFinalStateUnknown",
    "Delta",
    "DeltaFIFO",
    "DeltaType",
    "Deltas",
    "KnownObjects",
    "QueueStatistics",
    "RealFIFO",
    "differences",
    "events_of",
]
