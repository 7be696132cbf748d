"""Waiting until a cache holds everything that the server has, writes of other processes included.

The identities of all objects are listed once. The cache has caught up when it has reached each of
them, and holds nothing older that the list lacks. Where versions of two objects do not compare, a
new list is applied instead.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import anyio

from pyinformer._runtime.tasks import loop_time
from pyinformer.cache.informer._core import core_of
from pyinformer.errors import (
    APIStatusError,
    InformerError,
    InvalidArgumentError,
    StaleCacheError,
)
from pyinformer.objects import ExponentialBackoff, VersionOrder, older

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyinformer.cache.informer._namespace_cache import NamespaceCache
    from pyinformer.cache.informer._shared_informer import SharedInformer

_KNOWN_VERSION_SECONDS: Final = 1.0  # nearly every event is there by then
_LOOK_SECONDS: Final = 0.05  # a notification would cost every event a call
_LONGEST_DELAY_SECONDS: Final = 5.0  # between two lists: nothing is reconciled meanwhile
_FINE_SECONDS: Final = 0.5  # a new timer for each of 100,000 objects would cost more than they do
_REFUSED_SECONDS: Final = 10.0  # a server that starts again answers lists within it


async def catch_up(
    informer: SharedInformer[Any], *, resource_version: str = "", timeout_seconds: float
) -> str:
    """Wait until an informer's cache holds what the server has at the time of the call.

    Args:
        informer: the informer; it runs.
        resource_version: the newest write that matters, if it is known; then nothing is listed if
            the cache reaches it soon.
        timeout_seconds: how long to wait for the server's next answer, or for the cache. A list
            of many objects may take longer in all, while parts of it arrive.

    Returns:
        A version at which any cache of these objects has everything that was waited for; empty if
        versions of two objects do not compare.

    Raises:
        APIStatusError: the server has refused every list for ten seconds: what it has is not known.
        StaleCacheError: the cache did not catch up in time.
        LifecycleError: the informer was not started, or was closed.

    Cancellation:
        Safe.
    """
    if resource_version and await _reaches(informer, resource_version):
        return resource_version
    last_error = ""
    refused_at: float | None = None
    backoff = ExponentialBackoff(max_seconds=_LONGEST_DELAY_SECONDS, rng=random.Random())
    with anyio.move_on_after(timeout_seconds) as scope:

        def go_on() -> None:
            """Wait for as long again: something arrives."""
            deadline = loop_time() + timeout_seconds
            if deadline - scope.deadline > _FINE_SECONDS:
                scope.deadline = deadline

        done: set[NamespaceCache[Any]] = set()  # what they had reached they never lose
        while True:
            try:
                caches = core_of(informer).caches.all
                await _catch_up_all([one for one in caches if one not in done], done, go_on)
            except APIStatusError as error:
                last_error = str(error)
                refused_at = loop_time() if refused_at is None else refused_at
                if loop_time() - refused_at >= _REFUSED_SECONDS:
                    raise
            except InformerError as error:
                last_error, refused_at = str(error), None
            else:
                return _furthest(caches)
            await anyio.sleep(backoff.next(loop_time()))
    raise StaleCacheError(
        informer=informer.name,
        wanted="everything that the server has",
        position=informer.observed_resource_version,
        waited_seconds=timeout_seconds,
        state=informer.state.value,
        reason=last_error,
    )


async def _reaches(informer: SharedInformer[Any], resource_version: str) -> bool:
    try:
        await informer.wait_until(resource_version, timeout_seconds=_KNOWN_VERSION_SECONDS)
    except (StaleCacheError, InvalidArgumentError):  # a selector excludes it, or it is not ordered
        return False
    return True


def _furthest(caches: Iterable[NamespaceCache[Any]]) -> str:
    """Return the position of the cache that is ahead of the others; "" if they do not compare."""
    furthest = ""
    for cache in caches:
        if cache.reflector.version_order is not VersionOrder.GLOBAL:
            return ""
        if not furthest or older(furthest, cache.freshness.position):
            furthest = cache.freshness.position
    return furthest


async def _catch_up_all(
    caches: Iterable[NamespaceCache[Any]],
    done: set[NamespaceCache[Any]],
    go_on: Callable[[], None],
) -> None:
    """Wait for the caches of several namespaces, as many at a time as may list; note each.

    Raises:
        InformerError: of the first that failed, when all have ended.
    """
    failures: list[InformerError] = []

    async def one(cache: NamespaceCache[Any]) -> None:
        """Wait for one."""
        try:
            await _catch_up(cache, go_on)
        except InformerError as error:
            failures.append(error)
        else:
            done.add(cache)
            go_on()

    async with anyio.create_task_group() as group:
        for cache in caches:
            group.start_soon(one, cache)
    if failures:
        raise failures[0]


async def _catch_up(cache: NamespaceCache[Any], go_on: Callable[[], None]) -> None:
    """Wait until the cache of one namespace holds what the server has now.

    Args:
        cache: the cache.
        go_on: called for each object that is listed.
    """
    reflector = cache.reflector
    if reflector.version_order is not VersionOrder.GLOBAL:
        begun = reflector.loads_begun  # one under way may have been answered before the writes
        reflector.request_relist("the cache has to catch up with the server")
        while reflector.last_complete_load <= begun:
            if isinstance(reflector.last_error, APIStatusError):
                raise reflector.last_error
            if reflector.is_loading:
                go_on()
            await anyio.sleep(_LOOK_SECONDS)
        return
    listed: dict[str, tuple[str, str]] = {}

    def take(key: str, uid: str, resource_version: str) -> None:
        """Keep one identity."""
        listed[key] = uid, resource_version
        go_on()

    position = await cache.auditor.read_identities(take)
    outdated = {
        obj.key: obj.metadata.resource_version
        for obj in cache.indexer.list()
        if obj.key not in listed and not older(position, obj.metadata.resource_version)
    }
    while True:
        listed = {
            key: (uid, version)
            for key, (uid, version) in listed.items()
            if not _is_reached(cache, key, uid, version)
        }
        outdated = {
            key: version for key, version in outdated.items() if _holds(cache, key, version)
        }
        if not (listed or outdated):
            return
        await anyio.sleep(_LOOK_SECONDS)


def _is_reached(cache: NamespaceCache[Any], key: str, uid: str, version: str) -> bool:
    held = cache.indexer.get(key)
    if held is None or held.metadata.uid != uid:
        # It is outstanding, or was deleted since: then the cache is past its version.
        return older(version, cache.reflector.position)
    return not older(held.metadata.resource_version, version)


def _holds(cache: NamespaceCache[Any], key: str, version: str) -> bool:
    held = cache.indexer.get(key)
    return held is not None and held.metadata.resource_version == version
