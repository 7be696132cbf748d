"""Interceptors: functions of a test that see each request before the server does.

A function that fails is not called again, and its error ends the `with` block of the test: what the
program under test makes of the refused request cannot hide it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final, TypeAlias, final

from pyinformer._runtime.tasks import check_callable
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import JSONValue, redacted
from pyinformer.testing.apiserver.requests._faults import Fault

if TYPE_CHECKING:
    from concurrent.futures import Future

_FAILED: Final = 400  # which clients do not send again, unlike a 500
_ALTERABLE: Final = frozenset({"body", "query"})
_SECRETS: Final = "secrets"
_SECRET: Final = "Secret"  # noqa: S105 - the kind
_NOT_IN_MEMORY: Final = ("hang", "frames", "stall_after_bytes", "edit", "gzip_members")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InterceptedRequest:
    """A request as an interceptor sees it; `dataclasses.replace` makes an altered one."""

    verb: str
    """`list`, `watch`, `get`, `create`, `update`, `patch`, `delete` or `deletecollection`; the
    lower-case method outside the resource API. An apply is a `patch`."""
    resource: str
    """`pods` or `deployments.apps`; "" outside the resource API, as for discovery."""
    namespace: str
    """"" across namespaces and for cluster-scoped resources."""
    name: str
    """"" for collections, and for an object whose name the server makes."""
    subresource: str
    """`status`, or "" for the object itself."""
    user: str
    """Who sends it; `system:unsecured` on a server without tokens."""
    query: Mapping[str, str]
    """The query's parameters; may be altered."""
    body: JSONValue
    """The body: an object, a patch, or options; None without one. It is the function's own, and may
    be altered: a changed copy counts if it is returned in a request."""

    def __repr__(self) -> str:
        # Failed assertions print it; the values of a Secret must not appear.
        shown = {one.name: getattr(self, one.name) for one in fields(self)}
        if isinstance(self.body, dict):
            shown["body"] = redacted(self.body, kind=_SECRET if self.resource == _SECRETS else "")
        elif self.body is not None and self.resource == _SECRETS:
            shown["body"] = "(hidden)"
        values = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"InterceptedRequest({values})"


Interception: TypeAlias = Fault | InterceptedRequest | None
"""What an interceptor returns: a fault, an altered request, or None to let the request pass."""

Interceptor: TypeAlias = Callable[[InterceptedRequest], Interception | Awaitable[Interception]]
"""A function of a test, plain or asynchronous."""


@final
class Interceptors:
    """The interceptors of one server; any thread may add one.

    Args:
        in_memory: whether answers go through memory, which not every fault can disturb.
    """

    def __init__(self, *, in_memory: bool = False) -> None:
        self._in_memory = in_memory
        self._entries: tuple[_Entry, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._entries)

    @contextmanager
    def intercepting(
        self, function: Interceptor, loop: asyncio.AbstractEventLoop | None
    ) -> Iterator[None]:
        """Call a function for each request in the block; see `APIServer.intercept`.

        Args:
            function: the function.
            loop: where what it returns is awaited; None for the server's own loop.

        Raises:
            InvalidTypeError: it cannot be called so, or has returned something else.
            Exception: what it has raised.
        """
        check_callable(function, "function(request)", 1)
        entry = _Entry(function, loop, in_memory=self._in_memory)
        self._entries = (*self._entries, entry)
        try:
            yield
        except Exception:
            self._remove(entry)
            if entry.error is not None:  # the error of the block has followed from it
                raise entry.error  # noqa: B904 - which stays visible as its context
            raise
        finally:
            self._remove(entry)
        if entry.error is not None:
            raise entry.error

    def _remove(self, entry: _Entry) -> None:
        self._entries = tuple(one for one in self._entries if one is not entry)
        entry.close()

    async def ask(self, request: InterceptedRequest) -> Fault | InterceptedRequest:
        """Ask all functions, the first one first; a fault is the end.

        Returns:
            The fault, or the request, altered perhaps.

        Cancellation:
            Reaches the function that is awaited.
        """
        for entry in self._entries:
            found = await entry.ask(request)
            if isinstance(found, Fault):
                return found
            request = request if found is None else found
        return request


@final
class _Entry:
    """One interceptor, from the begin of its block to the end."""

    def __init__(
        self, function: Interceptor, loop: asyncio.AbstractEventLoop | None, *, in_memory: bool
    ) -> None:
        self.error: BaseException | None = None
        """What went wrong first; it is not called again then."""
        self._function = function
        self._loop = loop
        self._in_memory = in_memory
        self._is_closed = False
        self._pending: set[Future[Interception]] = set()

    def close(self) -> None:
        """Let the requests pass that the function still holds."""
        self._is_closed = True
        for future in tuple(self._pending):
            future.cancel()

    async def ask(self, request: InterceptedRequest) -> Interception:
        """Ask the function; a request for which it fails is refused.

        Cancellation:
            Reaches the function.
        """
        if self._is_closed or self.error is not None:
            return None
        try:
            found = self._function(request)
            if inspect.isawaitable(found):
                found = await self._await(found)
            return self._checked(request, found)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling() and self._is_closed:
                return None
            raise
        except BaseException as error:  # noqa: BLE001 - raised at the end of the block
            self.error = self.error or error
            message = f"the interceptor of the test failed: {type(error).__name__}"
            return Fault(status=_FAILED, message=message)

    async def _await(self, found: Awaitable[Interception]) -> Interception:
        if self._loop is None or self._loop is asyncio.get_running_loop():
            return await found
        future = asyncio.run_coroutine_threadsafe(_awaiting(found), self._loop)
        self._pending.add(future)
        if self._is_closed:  # by the thread of the test, which did not find the future yet
            future.cancel()
        try:
            return await asyncio.wrap_future(future)
        finally:
            self._pending.discard(future)

    def _checked(self, request: InterceptedRequest, found: object) -> Interception:
        """Refuse what cannot be carried out.

        Raises:
            InvalidTypeError: it is neither a fault nor a request.
            InvalidArgumentError: the server cannot carry it out.
        """
        if found is None:
            return None
        if isinstance(found, Fault):
            names = [name for name in _NOT_IN_MEMORY if getattr(found, name)]
            if self._in_memory and names:
                reason = f"a World has no network for {names[0]}: use an APIServer, or await"
                raise InvalidArgumentError("fault", reason)
            return found
        if not isinstance(found, InterceptedRequest):
            reason = f"must return a Fault, a request or None, got {type(found).__name__}"
            raise InvalidTypeError("interceptor", reason)
        fixed = {name: getattr(request, name) for name in _ALTERABLE}
        if replace(found, **fixed) != request:
            raise InvalidArgumentError("interceptor", "may alter only the body and the query")
        _check_altered(found)
        return found


def _check_altered(request: InterceptedRequest) -> None:
    """Refuse what no client can send.

    Raises:
        InvalidTypeError: the body is not JSON values, or the query is not texts.
    """
    query: object = request.query
    texts = (*query, *query.values()) if isinstance(query, Mapping) else (None,)
    if not all(isinstance(one, str) for one in texts):
        raise InvalidTypeError("interceptor", "must return a query that is a dict of texts")
    try:
        json.dumps(request.body, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        reason = f"must return a body of JSON values: {type(error).__name__}"
        raise InvalidTypeError("interceptor", reason) from error


async def _awaiting(found: Awaitable[Interception]) -> Interception:
    return await found
