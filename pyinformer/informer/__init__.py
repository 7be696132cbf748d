"""Station 5: assemble the others into informers, and fan out to handlers."""

from pyinformer.informer._cache_sync import wait_for_cache_sync
from pyinformer.informer._event_stream import EventStream
from pyinformer.informer._expectations import (
    Expectations,
    ExpectationState,
    PendingExpectations,
)
from pyinformer.informer._explain import Explanation
from pyinformer.informer._factory import SharedInformerFactory
from pyinformer.informer._handlers import ResourceEventHandler, in_thread
from pyinformer.informer._listener import HandlerStatus
from pyinformer.informer._registration import Registration
from pyinformer.informer._shared_informer import SharedInformer
from pyinformer.informer._state_changes import StateChange
from pyinformer.informer._status import FactoryStatus, InformerStatus, NamespaceStatus
from pyinformer.informer._store_sink import Receiver
from pyinformer.tasks import WatchdogStatistics

__all__ = [
    "EventStream",
    "ExpectationState",
    "Expectations",
    "Explanation",
    "FactoryStatus",
    "HandlerStatus",
    "InformerStatus",
    "NamespaceStatus",
    "PendingExpectations",
    "Receiver",
    "Registration",
    "ResourceEventHandler",
    "SharedInformer",
    "SharedInformerFactory",
    "StateChange",
    "WatchdogStatistics",
    "in_thread",
    "wait_for_cache_sync",
]
