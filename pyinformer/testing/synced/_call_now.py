"""Calls of handlers that return when the handler has, an asynchronous one by a loop of its own.

What enters are a handler and an event; what leaves is whatever the handler raises.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable

from pyinformer.apimachinery import Event, LifecycleError, V
from pyinformer.informer import Handler


def call_now(handler: Handler[V], event: Event[V]) -> None:
    """Call a handler and wait for its end.

    Raises:
        LifecycleError: it is asynchronous, and a loop runs in this thread.
        Exception: whatever it raises.
    """
    found = handler.call(event)
    if not inspect.isawaitable(found):
        return

    async def wait(awaitable: Awaitable[object]) -> None:
        """Make a coroutine of whatever can be awaited."""
        await awaitable

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(wait(found))
        return
    if inspect.iscoroutine(found):
        found.close()  # never begun, and nobody shall be told that it was forgotten
    message = (
        f"the handler {handler.name} is asynchronous, and cannot be called while a loop runs in"
        " this thread: test it in a synchronous test, or with a World"
    )
    raise LifecycleError(message)
