"""The functions of users that get a cluster: async ones on the loop, plain ones in a thread.

A plain function gets the blocking face of the cluster, so it writes as an async one does.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast, final

from pyinformer._runtime.tasks import (
    WorkerThreads,
    check_callable,
    is_asynchronous,
    is_in_thread,
    name_of,
    refuse_awaitable,
    signature_of,
)
from pyinformer.blocking import run_with_cluster
from pyinformer.client.cluster import Cluster, writing_as
from pyinformer.controller import Result
from pyinformer.errors import invalid_handler

_GIVEN_BY_KOPF: Final = frozenset(
    {
        *("activity", "annotations", "body", "diff", "dryrun", "event", "headers", "labels"),
        *("logger", "memo", "meta", "name", "namespace", "new", "old", "operation", "param"),
        *("patch", "reason", "resource", "retry", "runtime", "settings", "spec", "started"),
        *("status", "stopped", "subresource", "type", "uid", "userinfo", "warnings"),
    }
)

F = TypeVar("F", bound=Callable[..., object])


def shown_as(original: object) -> Callable[[F], F]:
    """Give a function the name that logs show of another; it keeps its own signature."""

    def decorate(function: F) -> F:
        for attribute in ("__module__", "__qualname__"):
            if hasattr(original, attribute):
                setattr(function, attribute, getattr(original, attribute))
        return function

    return decorate


def check_cluster_function(function: object, shape: str, arguments: int) -> None:
    """Refuse a function that cannot be called so, or that would get the wrong kind of cluster.

    Args:
        function: the user's function.
        shape: the signature that it should have, for the error: `every(cluster)`.
        arguments: how many arguments it will be called with.

    Raises:
        InvalidTypeError: with the function's name and `shape`. `in_thread` makes an `async def` of
            a plain function: it would get a Cluster, whose methods a thread cannot await, so that
            its writes would not be made, without an error.
    """
    check_callable(function, shape, arguments)
    if of_kopf := _arguments_of_kopf(function, arguments):
        reason = (
            f"is called as {shape}, by position, so that `{of_kopf}` would be something else than a"
            " handler of kopf gets"
        )
        raise invalid_handler(name_of(function), reason)
    if is_in_thread(function):
        reason = (
            "must not be marked by in_thread: without it, a plain function runs in a thread as"
            " well, and gets a BlockingCluster"
        )
        raise invalid_handler(name_of(function), reason)


def arguments_of(function: object, number: int) -> list[inspect.Parameter]:
    """Return the arguments of a function that is called with so many; none without a signature."""
    signature = signature_of(function, number)
    return [] if signature is None else [*signature.parameters.values()]


def _arguments_of_kopf(function: object, number: int) -> str:
    """Return the first argument of a handler of kopf; empty if it is not one.

    kopf gives all arguments by name, so that its handlers end with `**kwargs`, and have no others.
    """
    given = arguments_of(function, number)
    if not any(one.kind is one.VAR_KEYWORD for one in given):
        return ""
    names = [one.name for one in given[:number] if one.kind is one.POSITIONAL_OR_KEYWORD]
    return names[0] if names and _GIVEN_BY_KOPF.issuperset(names) else ""


def _refusal_of(function: Callable[..., Any]) -> str:
    """Return what is wrong with a plain function that returned an awaitable, and the cure."""
    name = name_of(function)
    if is_asynchronous(getattr(function, "__wrapped__", None)):
        return (
            f"a decorator makes a plain function of {name}, which is `async def`:"
            " use one that returns an `async def`, or decorate what it calls"
        )
    return f"{name} is a plain function and returned an awaitable: make it `async def`"


@final
class ClusterFunction:
    """Calls a user's function with a cluster of the kind that it needs.

    Args:
        function: the function.
        cluster: the cluster, on the loop of the calls.
        field_manager: the owner of the fields that it writes, unless the cluster has one.
    """

    def __init__(
        self, function: Callable[..., Any], cluster: Cluster, *, field_manager: str
    ) -> None:
        self._cluster = cluster
        self._field_manager = field_manager
        self._threads = None if is_asynchronous(function) else WorkerThreads(name_of(function))
        self._refusal = _refusal_of(function)

    async def __call__(self, call: Callable[[Any], object]) -> Result | None:
        """Call the function once.

        Args:
            call: calls the function with a Cluster, or with a BlockingCluster if it is plain.

        Raises:
            BaseException: what the function raised.
            InvalidTypeError: a plain function returned an awaitable.

        Cancellation:
            Reaches an async function. The blocking calls of a plain one are cancelled, and it is
            waited for.
        """
        with writing_as(self._field_manager):
            return await self._call(call)

    async def _call(self, call: Callable[[Any], object]) -> Result | None:
        if self._threads is None:
            return await cast("Awaitable[Result | None]", call(self._cluster))
        returned = await run_with_cluster(self._threads, call, self._cluster)
        refuse_awaitable(returned, "result", self._refusal)
        return cast("Result | None", returned)
