"""Waiting until several caches hold what other replicas wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from pyinformer.cache.informer._catch_up import catch_up
from pyinformer.cache.reflector import ReflectorState
from pyinformer.errors import InformerError, InternalError, LifecycleError
from pyinformer.objects import older

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyinformer.cache.informer._shared_informer import SharedInformer


class CaughtUp(NamedTuple):
    """What is known of the caches then."""

    reached: dict[str, str]
    """By resource, a version at which they hold what others wrote."""
    unlisted: dict[SharedInformer[Any], InformerError]
    """Those whose lists are refused or not answered, so that what they lack is unknown."""


def unknown_version(_resource: str) -> str:
    """Return that it is unknown what was written of a resource, as after a crash."""
    return ""


async def caught_up(
    informers: Iterable[SharedInformer[Any]],
    version_of: Callable[[str], str | None],
    *,
    list_timeout_seconds: float,
) -> CaughtUp:
    """Wait until caches hold what other replicas wrote.

    Where lists bring nothing, they bring nothing to all replicas, so this fails for no cache.

    Args:
        informers: the caches.
        version_of: returns the version of a resource that was written; empty if it is unknown, None
            if nothing was.
        list_timeout_seconds: how long the lists of one may bring nothing.

    Raises:
        LifecycleError: a cache was closed.

    Cancellation:
        Safe.
    """
    failures: list[InformerError] = []
    reached: dict[str, str] = {}
    unlisted: dict[SharedInformer[Any], InformerError] = {}

    async def one(informer: SharedInformer[Any], resource: str, version: str) -> None:
        """Wait for one cache."""
        try:
            found = await catch_up(
                informer,
                resource_version=version,
                list_timeout_seconds=list_timeout_seconds,
            )
        except (InternalError, LifecycleError) as error:
            failures.append(error)
        except InformerError as error:
            unlisted[informer] = error
        else:
            reached[resource] = _later(reached.get(resource, found), found)

    async with anyio.create_task_group() as waiting:
        for informer in informers:
            resource = str(informer.scope.resource)
            version = version_of(resource)
            if version is not None and informer.state is not ReflectorState.ABSENT:
                waiting.start_soon(one, informer, resource, version)
    if failures:
        raise failures[0]
    lacking = {str(informer.scope.resource) for informer in unlisted}
    return CaughtUp({one: at for one, at in reached.items() if one not in lacking}, unlisted)


def _later(first: str, second: str) -> str:
    """Return the version that is ahead; "" if one of them is unknown."""
    if not (first and second):
        return ""
    return second if older(first, second) else first
