"""Controllers: reconcile functions, called for each request, with retries and deadlines."""

from pyinformer.controller._controller import Controller
from pyinformer.controller._group import ControllerGroup
from pyinformer.controller._lifecycle import Lifecycle as Lifecycle
from pyinformer.controller._options import ControllerOptions
from pyinformer.controller._outcomes import Outcome
from pyinformer.controller._result import Reconcile, Result
from pyinformer.controller._signals import on_stop_signal
from pyinformer.controller._status import (
    ControllerGroupStatus,
    ControllerStatus,
    FailingKeyStatus,
    HotLoopStatus,
    NoopWriteStatus,
    WorkerStatus,
)

__all__ = [
    "Controller",
    "ControllerGroup",
    "ControllerGroupStatus",
    "ControllerOptions",
    "ControllerStatus",
    "FailingKeyStatus",
    "HotLoopStatus",
    "NoopWriteStatus",
    "Outcome",
    "Reconcile",
    "Result",
    "WorkerStatus",
    "on_stop_signal",
]
