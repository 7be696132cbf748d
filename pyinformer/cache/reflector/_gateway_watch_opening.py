"""Opening a watch behind a gateway that may not answer it while it answers lists.

A kube-apiserver sends the head of the response at once. A gateway that buffers responses sends it
with the first event, or when the watch has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from pyinformer._runtime.tasks import start_later
from pyinformer.cache.reflector.lineage import read_live
from pyinformer.errors import ForbiddenError, InformerError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager, AsyncExitStack

    from pyinformer.client.transport import Body, ListWatch


async def open_unless_mute(
    stack: AsyncExitStack,
    watch: AbstractAsyncContextManager[Body],
    list_watch: ListWatch,
    *,
    idle_seconds: float,
) -> Body | None:
    """Open a watch; return None if the server does not answer it and answers lists.

    Args:
        stack: holds the watch open.
        watch: the request.
        list_watch: the resource and the scope.
        idle_seconds: after how long without an answer a list of one object is requested, and again
            after each further time.

    Raises:
        InformerError: it was not accepted.

    Cancellation:
        Safe; the connection is closed.
    """
    body: Body | None = None
    failure: Exception | None = None
    async with anyio.create_task_group() as group:

        async def doubt() -> None:
            """End the wait for an answer once a list is answered."""
            while True:
                try:
                    await read_live(list_watch)
                except ForbiddenError:
                    return  # lists show nothing here, and will not in a moment
                except InformerError:  # the server is slow or away, for lists as well
                    await anyio.sleep(idle_seconds)
                else:
                    group.cancel_scope.cancel()
                    return

        doubting = start_later(group, idle_seconds, doubt)
        try:
            body = await stack.enter_async_context(watch)
        except Exception as error:  # noqa: BLE001 - the group would wrap it
            failure = error
        finally:
            doubting.cancel()
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return body
