"""A plain informer: it lists, then watches in a loop, into a dict that all readers share.

It is careful code, written with the documentation of kubernetes_asyncio: it compares each list with
its cache, requests bookmarks, lists again after a 410, and pauses after an error. None of its
weaknesses was added for the scenes.
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
"""Receives ADDED, MODIFIED or DELETED, and the cached object itself."""


@asynccontextmanager
async def services_api(url: str) -> AsyncIterator[client.CoreV1Api]:
    """Create the API client of a plain program.

    Cancellation:
        Closes the client.
    """
    configuration = client.Configuration(host=url)
    async with client.ApiClient(configuration) as api:
        yield client.CoreV1Api(api)


@final
class PlainInformer:
    """Keeps a cache of the objects of one namespace.

    Args:
        list_objects: the list method, such as `CoreV1Api(api).list_namespaced_service`.
        namespace: the namespace to follow.
        handler: is called for every change.
        after_error: what to do after a broken connection. `list` lists again, as most programs do;
            `resume` watches from the last resource version, as client-go does.

    Attributes:
        cache: the objects by name; all readers share them.
        resource_version: the position of the watch.
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
        """List and watch without end.

        Cancellation:
            Stops the informer.
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
        """Apply events; the client library reopens a watch that ends cleanly."""
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
        Stops the informer.
    """
    async with services_api(url) as api, anyio.create_task_group() as tasks:
        informer = PlainInformer(
            api.list_namespaced_service, namespace, handler=handler, after_error=after_error
        )
        tasks.start_soon(informer.run)
        await informer.synced.wait()
        yield informer
        tasks.cancel_scope.cancel()
