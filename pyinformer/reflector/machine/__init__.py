"""The state machine of a reflector: from how a command ended to the next command."""

# Pure, as all modules below: it knows no event loop.

from pyinformer.reflector.machine._load_modes import WatchListMemory
from pyinformer.reflector.machine._machine import ReflectorMachine
from pyinformer.reflector.machine._retry_delay import is_throttled, requested_seconds
from pyinformer.reflector.machine.steps import LoadCause, ReflectorState

__all__ = [
    "LoadCause",
    "ReflectorMachine",
    "ReflectorState",
    "WatchListMemory",
    "is_throttled",
    "requested_seconds",
]
