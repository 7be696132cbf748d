"""Waiting for caches: it always ends, and says why it was in vain.

What enters are informers and a deadline; what leaves is nothing, or an error that says for each
informer that did not sync its state, its attempts, its last error and its seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Protocol

import anyio

from pyinformer.apimachinery import (
    CacheSyncTimeoutError,
    InformerError,
    LifecycleError,
    check_seconds,
)
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
    def crash(self) -> InformerError | None:
        """What went wrong inside of it."""
        ...

    @property
    def settled(self) -> anyio.Event:
        """Is set when it has synced, or never will; another one after there is more to sync."""
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
        CacheSyncTimeoutError: some did not sync in time, or one gave up, which ends the wait at
            once; it says for each its state, its attempts, its last error and its seconds.
        LifecycleError: one was not started, or was closed before it had synced.
        InternalError: something inside of one crashed.
        InvalidArgumentError: the timeout is negative or no number.

    Cancellation:
        Safe; the informers go on.

    Source:
        client-go tools/cache/shared_informer.go, WaitForCacheSync, which has no timeout.
    """
    check_seconds("timeout_seconds", timeout_seconds)
    for informer in informers:
        _check_running(informer, "is not running: start it first; what was closed stays closed")
    began_at = anyio.current_time()
    synced: list[Syncing] = []  # each at some moment: one may have more to follow by now
    with anyio.move_on_after(timeout_seconds):
        await _all_settled(informers, synced)
    pending = [one for one in informers if not (one.has_synced or one in synced)]
    for informer in pending:
        _check_running(informer, "was closed before it had synced")
    if pending:
        waited = anyio.current_time() - began_at
        lines = chain.from_iterable(informer.status().pending() for informer in pending)
        raise CacheSyncTimeoutError(waited_seconds=waited, pending=tuple(lines))


async def _all_settled(informers: Sequence[Syncing], synced: list[Syncing]) -> None:
    """Wait for all of them, or for the first that will never sync."""
    async with anyio.create_task_group() as group:

        async def wait(informer: Syncing) -> None:
            while not informer.has_synced:
                settled = informer.settled
                await settled.wait()
                if not informer.has_synced and informer.settled is settled:
                    group.cancel_scope.cancel()
                    return  # else a namespace came to it meanwhile, and it has another event
            synced.append(informer)

        for informer in informers:
            group.start_soon(wait, informer)


def _check_running(informer: Syncing, otherwise: str) -> None:
    if informer.crash is not None:
        raise informer.crash
    if not informer.is_running:
        raise LifecycleError(f"{informer.status().informer} {otherwise}")
