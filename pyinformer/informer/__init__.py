"""Station 5: assemble the other stations into informers, and call handlers."""

from typing import TYPE_CHECKING

from pyinformer._late_names import late_getattr
from pyinformer.informer._cache_sync import (
    wait_for_cache_sync,
    wait_until_controllers_can_begin,
)
from pyinformer.informer._catch_up import catch_up
from pyinformer.informer._core import core_of
from pyinformer.informer._explain import Explanation
from pyinformer.informer._factory import SharedInformerFactory, status_in_steps
from pyinformer.informer._key_waits import Predicate
from pyinformer.informer._settings import (
    DEFAULT_MAX_BYTES,
    InformerOptions,
    InformerSettings,
    KeepingOptions,
    Memory,
    QueueKind,
    Scope,
    SharingKind,
    check_option_names,
    checked_namespaces,
)
from pyinformer.informer._shared_informer import SharedInformer
from pyinformer.informer._state_changes import StateChange
from pyinformer.informer._status import FactoryStatus, InformerStatus, NamespaceStatus, counted
from pyinformer.informer._store_sink import StoreSink, make_sink
from pyinformer.informer.delivery import (
    Delivery,
    EventFunction,
    EventStream,
    Handler,
    HandlerStatus,
    ObjectFunction,
    Receiver,
    Registration,
    ResourceEventHandler,
    UpdateFunction,
    in_thread,
)
from pyinformer.tasks import WatchdogStatistics

if TYPE_CHECKING:
    from pyinformer.informer._recording import Recording

# What few programs use loads when they do.
_HOMES = {
    "Recording": "_recording",
}

__all__ = [
    "DEFAULT_MAX_BYTES",
    "Delivery",
    "EventFunction",
    "EventStream",
    "Explanation",
    "FactoryStatus",
    "Handler",
    "HandlerStatus",
    "InformerOptions",
    "InformerSettings",
    "InformerStatus",
    "KeepingOptions",
    "Memory",
    "NamespaceStatus",
    "ObjectFunction",
    "Predicate",
    "QueueKind",
    "Receiver",
    "Recording",
    "Registration",
    "ResourceEventHandler",
    "Scope",
    "SharedInformer",
    "SharedInformerFactory",
    "SharingKind",
    "StateChange",
    "StoreSink",
    "UpdateFunction",
    "WatchdogStatistics",
    "catch_up",
    "check_option_names",
    "checked_namespaces",
    "core_of",
    "counted",
    "in_thread",
    "make_sink",
    "status_in_steps",
    "wait_for_cache_sync",
    "wait_until_controllers_can_begin",
]

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__ = late_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
