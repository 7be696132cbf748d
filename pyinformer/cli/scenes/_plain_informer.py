"""A plain informer: list, then watch in a loop, into a dict that everybody shares.

This is how programs are written with kubernetes_asyncio and its documentation at hand, by careful
people: it compares each list with what it had, asks for bookmarks, lists again after a 410, pauses
after an error. The scenes show what it still does wrong; nothing in it was made to fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias, final

import aiohttp
import anyio
from kubernetes_asyncio import client, watch

_PAUSE_SECONDS = 1.0
_GONE = 410

Handler: TypeAlias = Callable[[str, Any], None]
"""Takes ADDED, MODIFIED or DELETED, and the object: the very one that is in the cache."""


@asynccontextmanager
async def services_api(url: str) -> AsyncIterator[client.CoreV1Api]:
    """Make the client of a plain program, with which it reads and writes Services.

    Cancellation:
        Closes it.
    """
    configuration = client.Configuration(host=url)
    async with client.ApiClient(configuration) as api:
        yield client.CoreV1Api(api)


@final
class PlainInformer:
    """Follows the objects that a list call of the client returns.

    Args:
        list_objects: such as `CoreV1Api(api).list_namespaced_service`.
        namespace: its argument.
        handler: is told of every change.
        after_error: what follows a broken connection. `list` begins anew, as most programs do;
            `resume` watches on from the last resource version, as client-go does.

    Attributes:
        cache: the objects by name; readers share them.
        resource_version: where the watch is.
        synced: set after the first list.
    """

    def __init__(
        self,
        list_objects: Callable[..., Awaitable[Any]],
        namespace: str,
        *,
        handler: Handler | None = None,
        after_error: Literal["list", "resume"] = "list",
    ) -> None:
        self.cache: dict[str, Any] = {}
        self.resource_version: str = ""
        self.synced: asyncio.Event = asyncio.Event()
        self._list_objects = list_objects
        self._namespace = namespace
        self._handler = handler
        self._after_error = after_error

    async def run(self) -> None:
        """Follow for ever.

        Cancellation:
            Ends it.
        """
        while True:
            try:
                if not self.resource_version or self._after_error == "list":
                    await self._list()
                await self._watch()
            except client.ApiException as error:
                if error.status == _GONE:
                    self.resource_version = ""
                else:
                    await asyncio.sleep(_PAUSE_SECONDS)
            except (TimeoutError, aiohttp.ClientError, OSError):
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _list(self) -> None:
        answer = await self._list_objects(self._namespace)
        listed = {one.metadata.name: one for one in answer.items}
        for name in self.cache.keys() - listed.keys():
            self._notify("DELETED", self.cache.pop(name))
        for name, new in listed.items():
            old = self.cache.get(name)
            self.cache[name] = new
            if old is None:
                self._notify("ADDED", new)
            elif old.metadata.resource_version != new.metadata.resource_version:
                self._notify("MODIFIED", new)
        self.resource_version = answer.metadata.resource_version
        self.synced.set()

    async def _watch(self) -> None:
        """Apply events; the client opens the watch again by itself when it ends cleanly."""
        async with watch.Watch() as events:
            async for event in events.stream(
                self._list_objects,
                self._namespace,
                resource_version=self.resource_version,
                allow_watch_bookmarks=True,
            ):
                self.resource_version = str(events.resource_version)
                if event["type"] != "BOOKMARK":
                    self._apply(event["type"], event["object"])

    def _apply(self, kind: str, obj: Any) -> None:  # noqa: ANN401 - the client ships no types
        if kind == "DELETED":
            self.cache.pop(obj.metadata.name, None)
        else:
            self.cache[obj.metadata.name] = obj
        self._notify(kind, obj)

    def _notify(self, kind: str, obj: Any) -> None:  # noqa: ANN401 - as above
        if self._handler is not None:
            self._handler(kind, obj)


@asynccontextmanager
async def following_services(
    url: str,
    namespace: str,
    *,
    handler: Handler | None = None,
    after_error: Literal["list", "resume"] = "list",
) -> AsyncIterator[PlainInformer]:
    """Run a plain informer of the Services of a namespace, once it has listed them.

    Cancellation:
        Ends it.
    """
    async with services_api(url) as api, anyio.create_task_group() as tasks:
        informer = PlainInformer(
            api.list_namespaced_service, namespace, handler=handler, after_error=after_error
        )
        tasks.start_soon(informer.run)
        await informer.synced.wait()
        yield informer
        tasks.cancel_scope.cancel()
