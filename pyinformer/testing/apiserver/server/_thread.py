"""The thread and the event loop that serve an embedded server.

The loop is its own, so that synchronous fixtures and every async plugin can use the server. After
`stop` no thread, port or connection is left.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import ssl
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from aiohttp import web

from pyinformer._runtime.tasks import run_on_asyncio
from pyinformer.errors import LifecycleError
from pyinformer.testing._leak_free_listener import close_listener
from pyinformer.testing.apiserver.server._faulty_response import cut_transport

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LOOPBACK = "127.0.0.1"
_LARGEST_BODY_BYTES = 512 * 1024 * 1024
_LARGEST_HEAD_BYTES = 1 << 20  # as Go reads; aiohttp takes 8 KB
_MOST_HEADERS = 1 << 15
_COMMAND_SECONDS = 30.0
_BACKLOG = 1024


class ServerThread:
    """Serves HTTP on loopback from a separate thread.

    Args:
        handler: answers every request, in the thread's loop.
        ssl_context: None serves plain HTTP.
        tick: called in the loop every `tick_seconds`.
        tick_seconds: 0 never calls it.
        lifetime: what the handler needs in the loop; entered before the first request, left after
            the last one.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        ssl_context: ssl.SSLContext | None,
        tick: Callable[[], object],
        tick_seconds: float,
        lifetime: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self._handler = handler
        self._lifetime = lifetime
        self._ssl_context = ssl_context
        self._tick = tick
        self._tick_seconds = tick_seconds
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        self._port = 0

    def start(self, port: int) -> int:
        """Start the thread and listen.

        Args:
            port: the TCP port; 0 takes any free one.

        Returns:
            The port.

        Raises:
            OSError: the port is not available.
        """
        started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._port = port
        thread = threading.Thread(
            target=lambda: run_on_asyncio(self._live(started)),
            name="pyinformer-apiserver",
            daemon=True,
        )
        thread.start()
        try:
            started.result(_COMMAND_SECONDS)
        except OSError:
            thread.join(_COMMAND_SECONDS)
            raise
        self._thread = thread
        return self._port

    def stop(self) -> None:
        """Cut every connection and end the thread; does nothing if it does not run."""
        if self._thread is None or self._loop is None or self._stopping is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_COMMAND_SECONDS)
        self._thread = self._loop = None

    def call_soon(self, action: Callable[[], object]) -> None:
        """Schedule a call in the loop; it is dropped if the thread does not run."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(action)

    def listen(self) -> None:
        """Accept connections again, on the same port."""
        self._command(self._listen)

    def close_port(self) -> None:
        """Refuse new connections; open ones stay."""
        self._command(self._close_port)

    def cut(self, *, reset: bool) -> None:
        """Cut every open connection."""
        self._command(lambda: self._cut(reset=reset))

    def _command(self, action: Callable[[], Awaitable[None]]) -> None:
        if self._loop is None:
            return
        if threading.current_thread() is self._thread:
            message = (
                "connections cannot be changed from the server's own thread, as by Fault.match"
            )
            raise LifecycleError(message)

        async def run() -> None:
            await action()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(_COMMAND_SECONDS)

    async def _live(self, started: concurrent.futures.Future[None]) -> None:
        async with self._lifetime():
            await self._main(started)

    async def _main(self, started: concurrent.futures.Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        app = web.Application(client_max_size=_LARGEST_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handler)
        runner = self._runner = web.AppRunner(
            app,
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=1.0,
            max_line_size=_LARGEST_HEAD_BYTES,
            max_field_size=_LARGEST_HEAD_BYTES,
            max_headers=_MOST_HEADERS,
        )
        await runner.setup()
        try:
            await self._listen()
        except OSError as error:
            await runner.cleanup()
            started.set_exception(error)
            return
        started.set_result(None)
        self._schedule_tick()
        await self._stopping.wait()
        await self._close_port()
        await self._cut(reset=False)
        await runner.cleanup()

    async def _listen(self) -> None:
        if self._listener is not None or self._runner is None or self._runner.server is None:
            return
        self._listener = await asyncio.get_running_loop().create_server(
            self._runner.server,
            _LOOPBACK,
            self._port,
            ssl=self._ssl_context,
            backlog=_BACKLOG,
        )
        self._port = self._listener.sockets[0].getsockname()[1]

    async def _close_port(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            await close_listener(listener)

    async def _cut(self, *, reset: bool) -> None:
        if self._runner is not None and self._runner.server is not None:
            for connection in self._runner.server.connections:
                cut_transport(connection.transport, reset=reset)

    def _schedule_tick(self) -> None:
        if self._tick_seconds and self._loop is not None:
            self._loop.call_later(self._tick_seconds, self._run_tick)

    def _run_tick(self) -> None:
        self._tick()
        self._schedule_tick()
