"""The state machine of a reflector: from how a command ended to the next command."""

# Pure, as all modules below: it knows no event loop.

from pyinformer.cache.reflector.machine._load_modes import WatchListMemory
from pyinformer.cache.reflector.machine._machine import ReflectorMachine
from pyinformer.cache.reflector.machine._retry_delay import is_throttled, requested_seconds
from pyinformer.cache.reflector.machine.steps import LoadCause, ReflectorState

__all__ = [
    "LoadCause",
    "ReflectorMachine",
    "ReflectorState",
    "WatchListMemory",
    "is_throttled",
    "requested_seconds",
]
