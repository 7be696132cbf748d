"""Waiting until a cache holds everything that the server has, writes of other processes included.

The identities of all objects are listed once. The cache has caught up when it has reached each of
them, and holds nothing older that the list lacks. Where versions of two objects do not compare, or
the watch is late, or past what the cache lacks, a new list is applied instead.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Any, Final, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import loop_time
from pyinformer.cache.informer._informer_parts import core_of
from pyinformer.errors import (
    ForbiddenError,
    InformerError,
    InternalError,
    InvalidArgumentError,
    InvalidObjectError,
    LifecycleError,
    ProtocolError,
    RequestTimeoutError,
    ResourceExpiredError,
    StaleCacheError,
)
from pyinformer.objects import ExponentialBackoff, VersionOrder, older

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyinformer.cache.informer._namespace_cache import NamespaceCache
    from pyinformer.cache.informer._shared_informer import SharedInformer
    from pyinformer.cache.reflector import Reflector

_log = get_logger(__name__)

_KNOWN_VERSION_SECONDS: Final = 1.0  # nearly every event is there by then
_LOOK_SECONDS: Final = 0.05  # a notification would cost every event a call
_LONGEST_DELAY_SECONDS: Final = 5.0  # between two lists: nothing is reconciled meanwhile
_LATE_SECONDS: Final = 10.0  # a watch that stands still may stand for long, and lists are answered
_SKIPPED_SECONDS: Final = 2.0  # an event is applied in the same step as its position
_FINE_SECONDS: Final = 0.5  # a new timer for each of 100,000 objects would cost more than they do


@final
class _Lists:
    """The lists of one cache, which may bring nothing for a time; that in line does not count.

    Args:
        seconds: that time.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._scope = anyio.CancelScope(deadline=loop_time() + seconds)

    def arrived(self) -> None:
        """Wait for as long again: a part of a list has arrived."""
        deadline = loop_time() + self._seconds
        if deadline - self._scope.deadline > min(_FINE_SECONDS, self._seconds / 2):
            self._scope.deadline = deadline

    def set_in_line(self, is_in_line: bool) -> None:  # noqa: FBT001 - a callback
        """Note whether a list waits for its turn among those of the connection."""
        if is_in_line or self._scope.deadline == inf:
            self._scope.deadline = inf if is_in_line else loop_time() + self._seconds

    @contextmanager
    def reading(self, reflector: Reflector[Any]) -> Iterator[None]:
        """Cancel the block when lists have brought nothing for the time.

        Raises:
            RequestTimeoutError: the time has passed.
        """
        with self._scope:
            yield
        if self._scope.cancelled_caught:
            what = f"list {reflector.list_watch.resource}"
            why = f": {error}" if (error := reflector.last_error) is not None else ""
            reason = f"it has brought nothing for {self._seconds:g} s{why}"
            raise RequestTimeoutError(what, reason, waited_seconds=self._seconds)


async def catch_up(
    informer: SharedInformer[Any], *, resource_version: str = "", list_timeout_seconds: float
) -> str:
    """Wait until an informer's cache holds what the server has at the time of the call.

    It ends when the watch has brought that, or else a list, or when lists bring nothing.

    Args:
        informer: the informer; it runs.
        resource_version: the newest write that matters, if it is known; then nothing is listed if
            the cache reaches it soon.
        list_timeout_seconds: how long lists may bring nothing, whether they are refused or not
            answered.

    Returns:
        A version at which any cache of these objects has everything that was waited for; empty if
        versions of two objects do not compare.

    Raises:
        LifecycleError: the informer was not started, or was closed.
        InformerError: the server's lists have brought nothing: what it has is not known. If only
            those of some namespaces have, they are logged, and hold up no other.

    Cancellation:
        Safe.
    """
    if resource_version and await _reaches(informer, resource_version):
        return resource_version
    failing_since: float | None = None
    backoff = ExponentialBackoff(max_seconds=_LONGEST_DELAY_SECONDS, rng=random.Random())
    done: set[NamespaceCache[Any]] = set()  # what they had reached they never lose
    while True:
        before = len(done)
        caches = core_of(informer).caches.all
        try:
            await _catch_up_all(
                [one for one in caches if one not in done], done, list_timeout_seconds
            )
        except (InternalError, LifecycleError):
            raise
        except InformerError as error:
            if len(done) > before:
                failing_since = loop_time()
            elif failing_since is None:
                waited = error.waited_seconds if isinstance(error, RequestTimeoutError) else 0
                failing_since = loop_time() - waited
            if loop_time() - failing_since >= list_timeout_seconds:
                if not done:
                    raise
                _log.error(
                    "%s: whether it holds what earlier leaders wrote in %s is not known, since"
                    " the lists there bring nothing; other namespaces do not wait for that: %s",
                    informer.name,
                    ", ".join(sorted(one.scope.namespace or "" for one in {*caches} - done)),
                    error,
                )
                return _furthest(done)
        else:
            return _furthest(caches)
        await anyio.sleep(backoff.next(loop_time()))


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
    list_timeout_seconds: float,
) -> None:
    """Wait for the caches of several namespaces, as many at a time as may list; note each.

    A namespace whose lists are forbidden keeps the others waiting for nothing: its RoleBinding is
    gone, perhaps with the namespace, and what its cache has remains as it was.

    Raises:
        InformerError: of the first that failed, when all have ended, or at once if its lists bring
            nothing; or of a forbidden one, if all that are left are forbidden.
    """
    failures: list[InformerError] = []
    forbidden: dict[NamespaceCache[Any], ForbiddenError] = {}

    async def one(cache: NamespaceCache[Any]) -> None:
        """Wait for one."""
        try:
            await _catch_up(cache, list_timeout_seconds)
        except ForbiddenError as error:
            forbidden[cache] = error
        except InformerError as error:
            failures.append(error)
            if isinstance(error, RequestTimeoutError):
                group.cancel_scope.cancel()  # each of many that wait for it would take as long
        else:
            done.add(cache)

    async with anyio.create_task_group() as group:
        for cache in caches:
            group.start_soon(one, cache)
    if failures:
        raise failures[0]
    if forbidden and not done:
        raise next(iter(forbidden.values()))
    done.update(forbidden)


async def _catch_up(cache: NamespaceCache[Any], list_timeout_seconds: float) -> None:
    """Wait until the cache of one namespace holds what the server has now.

    Raises:
        RequestTimeoutError: lists have brought nothing for so long.
        InformerError: the server refused, or could not be reached.
    """
    reflector = cache.reflector
    is_ordered = reflector.version_order is VersionOrder.GLOBAL
    if is_ordered and await _reaches_list(cache, list_timeout_seconds):
        return
    lists = _Lists(list_timeout_seconds)
    with lists.reading(reflector):
        await _load_again(reflector, lists)


async def _reaches_list(cache: NamespaceCache[Any], list_timeout_seconds: float) -> bool:
    """List the identities of all objects, and wait until the cache has reached each.

    Returns:
        Whether it has: not if its pages are not a list, or an item has no name, which the cache
        knows how to load; not if the watch is past an object that the cache lacks, since its event
        was lost, or it cannot be read and was skipped; and not if the watch is late.

    Raises:
        RequestTimeoutError: the list has brought nothing for so long.
        InformerError: the server refused, or could not be reached.
    """
    found, lists = _Outstanding(cache), _Lists(list_timeout_seconds)

    def take(key: str, uid: str, resource_version: str) -> None:
        """Keep one identity."""
        found.listed[key] = uid, resource_version
        lists.arrived()

    try:
        with lists.reading(cache.reflector):
            found.begin(await cache.auditor.read_identities(take, lists.set_in_line))
    except (ProtocolError, InvalidObjectError, ResourceExpiredError):
        return False
    began_at, due_since = loop_time(), None
    while found.is_left():
        now = loop_time()
        if now - began_at >= _LATE_SECONDS:
            return False
        due_since = (now if due_since is None else due_since) if found.is_due else None
        if due_since is not None and now - due_since >= _SKIPPED_SECONDS:
            return False
        await anyio.sleep(_LOOK_SECONDS)
    return True


@final
class _Outstanding:
    """What one cache has not reached of a list.

    Args:
        cache: the cache.
    """

    def __init__(self, cache: NamespaceCache[Any]) -> None:
        self._cache = cache
        self.listed: dict[str, tuple[str, str]] = {}
        """The uids and versions of the list, by key."""
        self._position = ""
        self._outdated: dict[str, str] = {}  # versions that the list lacks

    def begin(self, position: str) -> None:
        """Note what the cache has and the list lacks.

        Args:
            position: the version of the list.
        """
        self._position = position
        self._outdated = {
            obj.key: obj.metadata.resource_version
            for obj in self._cache.indexer.list()
            if obj.key not in self.listed and not older(position, obj.metadata.resource_version)
        }

    def is_left(self) -> bool:
        """Return whether the cache lacks a listed object, or has one that the list lacks."""
        self.listed = {
            key: (uid, version)
            for key, (uid, version) in self.listed.items()
            if not self._is_reached(key, uid, version)
        }
        self._outdated = {
            key: version for key, version in self._outdated.items() if self._holds(key, version)
        }
        return bool(self.listed or self._outdated)

    @property
    def is_due(self) -> bool:
        """Whether the cache is past all that is left: no event of it will come any more."""
        at = self._cache.reflector.position
        versions = [version for _, version in self.listed.values()]
        versions += [self._position] if self._outdated else []
        return not any(older(at, version) for version in versions)

    def _is_reached(self, key: str, uid: str, version: str) -> bool:
        held = self._cache.indexer.get(key)
        if held is None or held.metadata.uid != uid:
            # It is outstanding, or was deleted since: then the cache is past its version.
            return older(version, self._cache.reflector.position)
        return not older(held.metadata.resource_version, version)

    def _holds(self, key: str, version: str) -> bool:
        held = self._cache.indexer.get(key)
        return held is not None and held.metadata.resource_version == version


async def _load_again(reflector: Reflector[Any], lists: _Lists) -> None:
    """Have everything listed, and wait until it is applied.

    Args:
        reflector: the reflector.
        lists: is informed of what arrives.
    """
    begun = reflector.loads_begun  # one under way may have been answered before the writes
    received = reflector.loaded_bytes
    reflector.request_relist("the cache has to catch up with the server")
    while reflector.last_complete_load <= begun:
        lists.set_in_line(reflector.is_in_line)
        if reflector.loaded_bytes != received:
            received = reflector.loaded_bytes
            lists.arrived()
        await anyio.sleep(_LOOK_SECONDS)
