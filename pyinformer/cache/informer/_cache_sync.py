"""Waiting until caches have synced; the wait always ends, with a reason for each that has not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import anyio.lowlevel

from pyinformer._runtime.tasks import loop_time
from pyinformer.cache.informer._informer_parts import InformerCore, core_of
from pyinformer.cache.reflector import ReflectorState
from pyinformer.errors import CacheSyncTimeoutError, InvalidTypeError, LifecycleError
from pyinformer.objects import check_flag, check_seconds

if TYPE_CHECKING:
    from pyinformer.cache.informer._namespace_caches import NamespaceCaches
    from pyinformer.cache.informer._shared_informer import SharedInformer
    from pyinformer.cache.informer._state_changes import StateChange

_Test: TypeAlias = "Callable[[NamespaceCaches[Any]], bool]"


async def wait_for_cache_sync(
    *informers: SharedInformer[Any], timeout_seconds: float, fail_fast: bool = False
) -> None:
    """Wait until every cache has held everything at least once.

    Args:
        informers: started informers.
        timeout_seconds: how long to wait for all of them together.
        fail_fast: end the wait as soon as the server refuses one of them for missing rights (403).
            By default the wait continues: rights are often granted a moment after the start.

    Raises:
        CacheSyncTimeoutError: some did not sync in time, or one gave up or was refused, which ends
            the wait at once; it names the state, the attempts, the last error and the seconds of
            each.
        LifecycleError: one was not started, or was closed before it had synced.
        InternalError: an informer crashed.
        InvalidArgumentError: the timeout is not a duration, or `fail_fast` not a bool.
        InvalidTypeError: one of them is not an informer.

    Cancellation:
        Safe; the informers continue.

    Source:
        client-go tools/cache/shared_informer.go, WaitForCacheSync, which has no timeout.
    """
    check_flag("fail_fast", fail_fast)
    check_seconds("timeout_seconds", timeout_seconds)
    await _wait_for(
        informers,
        timeout_seconds=timeout_seconds,
        is_ready=lambda caches: caches.has_synced,
        is_enough=lambda caches: caches.has_synced,
        fail_fast=fail_fast,
    )


async def wait_until_controllers_can_begin(
    *informers: SharedInformer[Any], timeout_seconds: float | None
) -> None:
    """Wait for caches as `wait_for_cache_sync`, but not for every namespace of a selector.

    A namespace that a selector has found is not waited for while the server refuses it; and when
    the time is over, the namespaces that have synced are enough. The others join when they sync.

    Args:
        informers: started informers.
        timeout_seconds: how long to wait for all of them together; None for as long as it takes.

    Raises:
        CacheSyncTimeoutError: some did not sync in time, or one gave up.
        LifecycleError: one was not started, or was closed before it had synced.
        InternalError: an informer crashed.

    Cancellation:
        Safe; the informers continue.
    """
    if timeout_seconds is not None:
        check_seconds("timeout_seconds", timeout_seconds)
    await _wait_for(
        informers,
        timeout_seconds=timeout_seconds,
        is_ready=lambda caches: caches.can_begin,
        is_enough=lambda caches: caches.can_begin_in_part,
    )


async def _wait_for(
    informers: Sequence[SharedInformer[Any]],
    *,
    timeout_seconds: float | None,
    is_ready: _Test,
    is_enough: _Test,
    fail_fast: bool = False,
) -> None:
    """Wait until all informers are ready; when the time is over, accept what is enough."""
    for informer in informers:
        _check_informer(informer)
        _check_running(informer, "is not running: start it first; what was closed stays closed")
    began_at = loop_time()
    ready: list[SharedInformer[Any]] = []  # once: a namespace may have been added since
    with anyio.move_on_after(timeout_seconds):
        await _all_settled(informers, ready, is_ready=is_ready, fail_fast=fail_fast)
    pending = [one for one in informers if not (one in ready or is_enough(core_of(one).caches))]
    for informer in pending:
        _check_running(informer, "was closed before it had synced")
    if pending:
        waited = loop_time() - began_at
        lines = chain.from_iterable(informer.status().pending() for informer in pending)
        raise CacheSyncTimeoutError(waited_seconds=waited, pending=tuple(lines))


async def _all_settled(
    informers: Sequence[SharedInformer[Any]],
    ready: list[SharedInformer[Any]],
    *,
    is_ready: _Test,
    fail_fast: bool,
) -> None:
    """Wait for all of them, or for the first that will never be ready, or is refused."""
    pending, over = set(informers), anyio.Event()

    def look(informer: SharedInformer[Any]) -> None:
        caches = core_of(informer).caches
        if informer in pending and is_ready(caches):
            pending.remove(informer)
            ready.append(informer)
        if not pending or (informer in pending and caches.is_settled):
            over.set()  # the latter is closed, or a namespace of it will never sync

    def end_if_refused(informer: SharedInformer[Any], _: StateChange | None = None) -> None:
        if informer.state is ReflectorState.FORBIDDEN and not informer.has_synced:
            over.set()

    if not informers:
        over.set()
    with ExitStack() as stack:
        for informer in informers:
            stack.callback(core_of(informer).caches.on_rechecked(partial(look, informer)))
            look(informer)
            if fail_fast:
                stack.callback(informer.on_state_change(partial(end_if_refused, informer)))
                end_if_refused(informer)
        await over.wait()
    for _ in range(2):  # a handler that is idle has the first list before its waiter continues
        await anyio.lowlevel.checkpoint()


def _check_informer(informer: object) -> None:
    if not isinstance(getattr(informer, "_core", None), InformerCore):
        reason = f"must be SharedInformers, got {type(informer).__name__}"
        raise InvalidTypeError("informers", reason)


def _check_running(informer: SharedInformer[Any], otherwise: str) -> None:
    if informer.crash is not None:
        raise informer.crash
    if not informer.is_running:
        raise LifecycleError(f"{informer.status().informer} {otherwise}")
