"""What a pool is given: functions and names, looked at before they are used.

In go arguments; what leaves is an error that names the argument, at once and not at the first
cluster; and the connection that a name stands for if nobody says what else it is.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from pyinformer.apimachinery import InvalidArgumentError, InvalidTypeError
from pyinformer.cluster._connect import connect as connect_to

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager

    from pyinformer.cluster._cluster import Cluster


def context_of(name: str) -> AbstractAsyncContextManager[Cluster]:
    """Connect to the cluster of a context of the kubeconfig."""
    return connect_to(context=name, name=name)


def check_name(name: object) -> None:
    """Refuse what names no cluster, and may not even be a key.

    Raises:
        InvalidArgumentError: an empty text.
        InvalidTypeError: no text.
    """
    if not isinstance(name, str):
        raise InvalidTypeError("name", f"a {type(name).__name__} is no text")
    if not name:
        raise InvalidArgumentError("name", "an empty text names no cluster")


def check_functions(functions: Mapping[str, object]) -> None:
    """Refuse what would fail at the first use, for every cluster alike.

    Raises:
        InvalidTypeError: naming the argument; only `open` must not be None.
    """
    for argument, function in functions.items():
        if function is None and argument != "open":
            continue
        if not callable(function):
            raise InvalidTypeError(argument, f"a {type(function).__name__} is no function")
        if inspect.isasyncgenfunction(function):
            reason = "is an async generator function; decorate it with @asynccontextmanager"
            raise InvalidTypeError(argument, reason)
