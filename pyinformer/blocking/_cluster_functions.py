"""The blocking twins of functions that take a cluster, for plain reconciles and threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Concatenate, Final, ParamSpec, TypeVar

from pyinformer._runtime.tasks import checked_by
from pyinformer.blocking._cluster import BlockingCluster
from pyinformer.blocking._loop_calls import pause_between_attempts
from pyinformer.blocking._sync_proxy import documented_as, with_arguments_of
from pyinformer.client.cluster import Cluster, check_attempt, pause_after_conflict
from pyinformer.client.cluster import create_or_update as create_or_update_on
from pyinformer.client.cluster import retry_on_conflict as retry_on_conflict_on
from pyinformer.client.cluster import upgrade_managed_fields as upgrade_managed_fields_on
from pyinformer.controller.conventions import FinalizerContext, enter_finalizer, leave_finalizer
from pyinformer.controller.conventions import finalizer as finalizer_on
from pyinformer.errors import ConflictError, InvalidTypeError
from pyinformer.objects import KubeObject, check_type

P = ParamSpec("P")
R = TypeVar("R")


def _check_blocking(cluster: object, *_: object, **__: object) -> None:
    shown = "the BlockingCluster that a plain function gets, or that runner.connect() opens"
    check_type("cluster", cluster, BlockingCluster, shown=shown)


def _twin(
    original: Callable[Concatenate[Cluster, P], Awaitable[R]],
) -> Callable[Concatenate[BlockingCluster, P], R]:
    """Return a function that calls `original` on the loop and waits for its result."""

    @documented_as(original)
    @with_arguments_of(original)
    def call(cluster: BlockingCluster, /, *args: P.args, **kwargs: P.kwargs) -> R:
        _check_blocking(cluster)
        calls = cluster._thread  # noqa: SLF001 - as its own methods
        return calls.call(lambda: original(cluster.asynchronous, *args, **kwargs))

    call.__name__ = call.__qualname__ = original.__name__
    return call


create_or_update: Final = _twin(create_or_update_on)
"""Create an object, or change the one that exists; `mutate` runs on the loop: it must not block."""

upgrade_managed_fields: Final = _twin(upgrade_managed_fields_on)
"""Let the fields that managers own by updates belong to a manager's server-side applies."""


@documented_as(retry_on_conflict_on)
def retry_on_conflict(
    attempt: Callable[[], R], *, attempts: int = 5, backoff_seconds: float = 0.01
) -> R:
    """Do the same in a thread."""
    check_attempt(attempt, attempts=attempts, backoff_seconds=backoff_seconds)
    left = attempts
    while True:
        left -= 1
        try:
            made = attempt()
        except ConflictError as error:
            seconds = pause_after_conflict(error, left, backoff_seconds)
        else:
            if isinstance(made, Coroutine):
                made.close()
                raise InvalidTypeError("attempt", "must be a plain function, not an async one")
            return made
        pause_between_attempts(seconds)


@checked_by(_check_blocking)
@contextmanager
@documented_as(finalizer_on)
def finalizer(
    cluster: BlockingCluster, obj: KubeObject[object] | None, name: str, *, add: bool = True
) -> Iterator[FinalizerContext]:
    """Do the same in a thread."""
    held = _begin(cluster, obj, name, add=add)
    yield held
    _end(cluster, held)


_begin: Final = _twin(enter_finalizer)
_end: Final = _twin(leave_finalizer)
