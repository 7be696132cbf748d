"""The last check of a guarded write: where its body meets the socket, and when its term ends.

Between the decision to write and the socket are waits: for a connection, for TLS, for a proxy. A
body that has not left by the end of the term never leaves, also not from the buffer of its socket.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Final, final

import anyio

from pyinformer.client.transport._write_guard import CURRENT_GUARD
from pyinformer.client.transport.http._guarded_socket import socket_of
from pyinformer.errors import FencedError, InformerError

if TYPE_CHECKING:
    from aiohttp.payload import BytesPayload

    from pyinformer.client.transport._write_guard import WriteGuard
    from pyinformer.client.transport.http._guarded_socket import GuardedSocket

_DROP_UNSENT: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing drops what the kernel holds


@final
class Fence:
    """One guarded write, from its first wait to its response; see `fence_of`."""

    def __init__(self, guard: WriteGuard, scope: anyio.CancelScope) -> None:
        self._guard = guard
        self._scope = scope
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self._transport: asyncio.Transport | None = None
        self._socket: GuardedSocket | None = None
        self.refusal: FencedError | None = None
        """Why the body did not leave."""

    def check(self) -> None:
        """Return if the write may leave now.

        Raises:
            FencedError: it may not.
        """
        self._guard.check()

    def body(self, content: bytes | None) -> BytesPayload:
        """Return a body that is checked when it is written to the socket; empty for None."""
        from pyinformer.client.transport.http._guarded_body import FencedBody

        return FencedBody(content or b"", self)

    def leave_by(self, transport: asyncio.Transport | None) -> None:
        """Let the body leave by a transport now.

        Raises:
            FencedError: it may not; kept as the `refusal`.
        """
        self._check_leaving()
        self._transport = transport
        self._socket = socket_of(transport)
        if self._socket is not None:
            self._socket.fence = self

    def before_send(self) -> None:
        """Let the socket send now what the event loop has kept.

        Raises:
            ConnectionAbortedError: it may not. The event loop drops what it has kept.
        """
        try:
            self._check_leaving()
        except FencedError as error:
            self._drop_unsent()
            raise ConnectionAbortedError(error.reason) from error

    def _check_leaving(self) -> None:
        try:
            self._guard.check()
        except FencedError as error:
            self.refusal = self._error(error)
            raise

    def cut_off(self) -> None:
        """End the request, and drop what has not left yet; from any thread."""
        if _running_loop() is self._loop:
            self._cut_off()
        elif not self._loop.is_closed():  # the term may end in another thread
            self._loop.call_soon_threadsafe(self._cut_off)

    def end(self) -> None:
        """Record that the request has ended: another one may use its connection."""
        self._is_over = True
        if self._socket is not None and self._socket.fence is self:
            self._socket.fence = None

    def error(self) -> FencedError:
        """Return the error of a write that was cut off."""
        try:
            self._guard.check()
        except FencedError as error:
            return self._error(error)
        return self._error(FencedError(lease="", reason="its term has ended"))

    def _error(self, error: FencedError) -> FencedError:
        return FencedError(
            lease=error.lease,
            reason=error.reason,
            may_have_left=self._transport is not None,
            has_ended=error.has_ended,
        )

    def _cut_off(self) -> None:
        if self._is_over:
            return
        if self._transport is not None:
            self._drop_unsent()
            self._transport.abort()
        self._scope.cancel()

    def _drop_unsent(self) -> None:
        transport = self._transport
        found = None if transport is None else transport.get_extra_info("socket")
        if found is not None and found.fileno() >= 0:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP_UNSENT)


def fence_of(method: str) -> AbstractAsyncContextManager[Fence | None]:
    """Return the fence of a write in a guarded context; other requests have none.

    Args:
        method: the HTTP method.
    """
    guard = CURRENT_GUARD.get()
    return nullcontext() if guard is None or method == "GET" else _counted(guard)


@asynccontextmanager
async def _counted(guard: WriteGuard) -> AsyncIterator[Fence]:
    """Record a refusal, once for each write."""
    try:
        async with _fenced(guard) as fence:
            yield fence
    except FencedError as error:
        guard.record_refusal(error.lease)
        raise


@asynccontextmanager
async def _fenced(guard: WriteGuard) -> AsyncIterator[Fence]:
    """Refuse a write at the end of its term: before it leaves, or while it waits for its answer."""
    guard.check()
    with anyio.CancelScope() as scope:
        fence = Fence(guard, scope)
        take_back = guard.on_end(fence.cut_off)
        try:
            yield fence
        except InformerError as error:
            if fence.refusal is None:
                raise
            raise fence.refusal from error
        finally:
            fence.end()
            take_back()
    if scope.cancelled_caught:
        raise fence.error()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # this thread has none
        return None
