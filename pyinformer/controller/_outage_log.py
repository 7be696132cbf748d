"""Failures that an outage of a server causes: one line for all keys and controllers, once a minute.

While a server is away, every reconcile that needs it fails for one reason. A line for each would
bury the one that names it. What the failures have in common is read from the error alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from pyinformer._runtime.tasks import FailureLog
from pyinformer.controller._requeue_policy import only_cause
from pyinformer.errors import APIStatusError, TransportError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_OF_AN_OUTAGE: Final = frozenset({429, 502, 503, 504})
_logs: Final[MutableMapping[asyncio.AbstractEventLoop, FailureLog]] = WeakKeyDictionary()


def outages() -> FailureLog:
    """Return the log of the outages that the controllers of this event loop meet."""
    return _logs.setdefault(asyncio.get_running_loop(), FailureLog())


def outage_of(error: BaseException) -> str:
    """Return what a failure has in common with those of other keys; empty if it is about its own.

    Args:
        error: what the reconcile raised.
    """
    cause = only_cause(error)
    if isinstance(cause, TransportError):
        server = "/".join(cause.url.split("/", 3)[:3])  # https://host:port
        return f"{type(cause).__name__} {server}"
    if isinstance(cause, APIStatusError) and cause.status in _OF_AN_OUTAGE:
        # A refusal with causes is about the object: a disruption budget answers 429.
        return "" if cause.causes else f"{cause.status}"
    return ""
