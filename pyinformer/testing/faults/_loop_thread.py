"""An event loop in a thread of its own, for proxies that tests of every kind use.

A test needs no event loop for it, and one that has a loop does not share it. After `stop` neither
the thread nor a task of its loop is left.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar, final

import anyio

from pyinformer._runtime.tasks import run_on_asyncio
from pyinformer.errors import LifecycleError

_COMMAND_SECONDS = 30.0

ResultT = TypeVar("ResultT")


@final
class LoopThread:
    """Runs one coroutine in a thread, and calls in its loop.

    Args:
        name: the name of the thread.
        main: the coroutine; it calls its argument when it is ready, and is cancelled by `stop`.
    """

    def __init__(self, name: str, main: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        self._name = name
        self._main = main
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scope: anyio.CancelScope | None = None

    def start(self) -> None:
        """Start the thread, and wait until the coroutine is ready.

        Raises:
            LifecycleError: it already runs.
            OSError: the coroutine failed with it before it was ready.
        """
        if self._thread is not None:
            message = f"{self._name} already runs: call stop() before start()"
            raise LifecycleError(message)
        started: concurrent.futures.Future[None] = concurrent.futures.Future()
        thread = threading.Thread(
            target=lambda: run_on_asyncio(self._run(started)), name=self._name, daemon=True
        )
        thread.start()
        try:
            started.result(_COMMAND_SECONDS)
        except BaseException:
            thread.join(_COMMAND_SECONDS)
            raise
        self._thread = thread

    def stop(self) -> None:
        """Cancel the coroutine and wait for the end of the thread; idempotent."""
        thread, self._thread = self._thread, None
        if thread is None or self._loop is None or self._scope is None:
            return
        self._loop.call_soon_threadsafe(self._scope.cancel)
        thread.join(_COMMAND_SECONDS)
        self._loop = self._scope = None

    def call(self, action: Callable[[], ResultT]) -> ResultT:
        """Call a function in the loop, and return its result.

        Raises:
            LifecycleError: the thread does not run.
        """
        loop = self._loop
        if self._thread is None or loop is None:
            message = f"{self._name} does not run: call start(), or use `with`"
            raise LifecycleError(message)
        if threading.current_thread() is self._thread:
            return action()
        done: concurrent.futures.Future[ResultT] = concurrent.futures.Future()

        def run() -> None:
            try:
                done.set_result(action())
            except Exception as error:  # noqa: BLE001 - raised again where it was called
                done.set_exception(error)

        loop.call_soon_threadsafe(run)
        return done.result(_COMMAND_SECONDS)

    async def _run(self, started: concurrent.futures.Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        with anyio.CancelScope() as self._scope:
            try:
                await self._main(lambda: started.set_result(None))
            except OSError as error:
                if started.done():
                    raise
                started.set_exception(error)
