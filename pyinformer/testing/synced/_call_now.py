"""Call a handler and wait until it returns; an asynchronous one runs in a temporary event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable

from pyinformer.apimachinery import Event, V
from pyinformer.errors import LifecycleError
from pyinformer.informer import Handler


def call_now(handler: Handler[V], event: Event[V]) -> None:
    """Call a handler and wait until it returns.

    Raises:
        LifecycleError: it is asynchronous, and an event loop runs in this thread.
        Exception: what the handler raises.
    """
    found = handler.call(event)
    if not inspect.isawaitable(found):
        return

    async def wait(awaitable: Awaitable[object]) -> None:
        """Await any awaitable, since a runner accepts coroutines only."""
        await awaitable

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(wait(found))
        return
    if inspect.iscoroutine(found):
        found.close()  # never started: close it, so Python does not warn about it
    message = (
        f"the handler {handler.name} is asynchronous, and cannot be called while a loop runs in"
        " this thread: test it in a synchronous test, or with a World"
    )
    raise LifecycleError(message)
