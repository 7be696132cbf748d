"""Station 5: assemble the other stations into informers, and call handlers."""

from typing import TYPE_CHECKING

from pyinformer._runtime.late_names import late_getattr
from pyinformer.cache.informer._cache_sync import (
    wait_for_cache_sync,
    wait_until_controllers_can_begin,
)
from pyinformer.cache.informer._catch_up import catch_up
from pyinformer.cache.informer._explain import Explanation
from pyinformer.cache.informer._factory import SharedInformerFactory, status_in_steps
from pyinformer.cache.informer._factory import informer_in_range as informer_in_range
from pyinformer.cache.informer._informer_parts import core_of
from pyinformer.cache.informer._key_waits import Predicate
from pyinformer.cache.informer._settings import (
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
from pyinformer.cache.informer._shared_informer import SharedInformer
from pyinformer.cache.informer._state_changes import StateChange
from pyinformer.cache.informer._status import (
    FactoryStatus,
    InformerStatus,
    NamespaceStatus,
    counted,
)
from pyinformer.cache.informer._store_sink import StoreSink, make_sink
from pyinformer.cache.informer.delivery import (
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
    filtered,
    in_thread,
)

if TYPE_CHECKING:
    from pyinformer.cache.informer._caught_up import CaughtUp, caught_up, unknown_version
    from pyinformer.cache.informer._recording import Recording

# What few programs use loads when they do.
_HOMES = {
    "CaughtUp": "_caught_up",
    "Recording": "_recording",
    "caught_up": "_caught_up",
    "unknown_version": "_caught_up",
}

__all__ = [
    "DEFAULT_MAX_BYTES",
    "CaughtUp",
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
    "catch_up",
    "caught_up",
    "check_option_names",
    "checked_namespaces",
    "core_of",
    "counted",
    "filtered",
    "in_thread",
    "make_sink",
    "status_in_steps",
    "unknown_version",
    "wait_for_cache_sync",
    "wait_until_controllers_can_begin",
]

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__ = late_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
