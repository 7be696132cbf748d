"""Waiting for caches: it always ends, and says why it was in vain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import anyio

from pyinformer.apimachinery import CacheSyncTimeoutError, InvalidArgumentError, LifecycleError
from pyinformer.informer._status import InformerStatus


class Syncing(Protocol):
    """What can be waited for."""

    @property
    def has_synced(self) -> bool:
        """Whether the wait is over."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether there is any hope."""
        ...

    @property
    def settled(self) -> anyio.Event:
        """Is set when it has synced, or never will."""
        ...

    def status(self) -> InformerStatus:
        """Return how it is doing."""
        ...


async def wait_for_cache_sync(*informers: Syncing, timeout_seconds: float) -> None:
    """Wait until every cache has held everything at least once.

    Args:
        informers: what to wait for; they must have been started.
        timeout_seconds: how long to wait for all of them together.

    Raises:
        CacheSyncTimeoutError: some did not sync in time, or gave up; it says for each its state,
            its attempts and its last error.
        LifecycleError: one was not started, or was closed.
        InvalidArgumentError: the timeout is negative or no number.

    Cancellation:
        Safe; the informers go on.

    Source:
        client-go tools/cache/shared_informer.go, WaitForCacheSync, which has no timeout.
    """
    check_seconds("timeout_seconds", timeout_seconds)
    for informer in informers:
        if not informer.is_running:
            reason = f"{informer.status().informer} is not running: start it before waiting"
            raise LifecycleError(reason)
    began_at = anyio.current_time()
    with anyio.move_on_after(timeout_seconds):
        for informer in informers:
            await informer.settled.wait()
    pending = [informer for informer in informers if not informer.has_synced]
    if pending:
        waited = anyio.current_time() - began_at
        raise CacheSyncTimeoutError(waited_seconds=waited, pending=_lines(pending))


def _lines(pending: Sequence[Syncing]) -> tuple[str, ...]:
    return tuple(str(informer.status()) for informer in pending)


def check_seconds(name: str, seconds: float) -> None:
    """Refuse a duration that is none.

    Raises:
        InvalidArgumentError: naming the argument.
    """
    if not (seconds >= 0 and math.isfinite(seconds)):
        reason = f"{seconds!r} is no duration; give seconds, 0 or more"
        raise InvalidArgumentError(name, reason)
