"""Queues between a reflector and its consumer: in order of arrival, or by key.

Both are sinks: a reflector fills them, and a consumer takes from them at its own pace.
"""

from pyinformer.deltas._delta import DeletedFinalStateUnknown, Delta, DeltaType, KnownObjects
from pyinformer.deltas._delta_fifo import DeltaFIFO, Deltas
from pyinformer.deltas._processing import differences, events_of
from pyinformer.deltas._queue import QueueStatistics
from pyinformer.deltas._real_fifo import RealFIFO

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
