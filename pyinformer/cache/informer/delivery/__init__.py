"""Delivers the events of a cache to handlers and event streams, each with a buffer of its own."""

from pyinformer.cache.informer.delivery._event_stream import Delivery, EventStream
from pyinformer.cache.informer.delivery._filtered_handlers import filtered
from pyinformer.cache.informer.delivery._handlers import (
    EventFunction,
    Handler,
    ObjectFunction,
    ResourceEventHandler,
    UpdateFunction,
    in_thread,
)
from pyinformer.cache.informer.delivery._listener import HandlerHistory, HandlerStatus, Listener
from pyinformer.cache.informer.delivery._mailbox import Mailbox, newest
from pyinformer.cache.informer.delivery._shared_processor import (
    Receiver,
    Registration,
    SharedProcessor,
)
from pyinformer.cache.informer.delivery._undelivered_objects import CacheContents

__all__ = [
    "CacheContents",
    "Delivery",
    "EventFunction",
    "EventStream",
    "Handler",
    "HandlerHistory",
    "HandlerStatus",
    "Listener",
    "Mailbox",
    "ObjectFunction",
    "Receiver",
    "Registration",
    "ResourceEventHandler",
    "SharedProcessor",
    "UpdateFunction",
    "filtered",
    "in_thread",
    "newest",
]
