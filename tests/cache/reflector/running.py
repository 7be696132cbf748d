"""A reflector that runs against a server, with a dict as its sink."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyinformer.cache.reflector import (
    Lineage,
    Reflector,
    ReflectorOptions,
    ReflectorState,
    RequestBudget,
    WatchListMemory,
)
from pyinformer.client.transport import (
    ClusterConfig,
    Connection,
    Credentials,
    ListWatch,
    NoCredentials,
)
from pyinformer.objects import GroupVersionResource
from tests.cache.reflector.samples import PODS, DictSink, server_with
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pyinformer.client.transport import ConnectionProtocol
    from pyinformer.testing import APIServer, RequestRecord


class Hurry(random.Random):
    """Chance that always draws the smallest number, and makes delays of the backoff tiny."""

    def uniform(self, a: float, b: float) -> float:
        smallest = min(a, b)
        return smallest if smallest > 1 else smallest / 20


def options(**changes: Any) -> ReflectorOptions:
    """Return options with the shortest delays, and no watch-list unless it is asked for."""
    return ReflectorOptions(**{"use_watch_list": False, "rng": Hurry(), **changes})


@dataclass
class Running:
    """A reflector at work."""

    server: APIServer
    reflector: Reflector[None]
    sink: DictSink
    states: list[ReflectorState]

    async def until_watching(self, *, loads: int = 1) -> None:
        """Wait until it has loaded so often and the server has its watch."""
        await until(lambda: self.reflector.status().loads >= loads and self.server.open_watches)

    async def until_equal(self, api_version: str = "v1", plural: str = "pods") -> None:
        """Wait until the sink holds what the server lists."""
        await until(lambda: self.sink.versions() == listed(self.server, api_version, plural))

    def counts(self) -> dict[str, int]:
        """Return what the guard counted."""
        return dict(self.reflector.status().guard.counts)


@asynccontextmanager
async def reflecting(
    server: APIServer,
    *,
    resource: GroupVersionResource = PODS,
    credentials: Credentials | None = None,
    memory: WatchListMemory | None = None,
    request_budget: RequestBudget | None = None,
    lineage: Lineage | None = None,
    with_options: ReflectorOptions | Callable[[], ReflectorOptions] | None = None,
    label_selector: str | None = None,
    url: str | None = None,
    through: Callable[[ConnectionProtocol], ConnectionProtocol] = lambda connection: connection,
    **more: Any,
) -> AsyncIterator[Running]:
    """Run a reflector, and stop it; a URL or `through` leads to the server by another way."""
    config = ClusterConfig(server=url or server.url, credentials=credentials or NoCredentials())
    connection = Connection(config)
    sink = DictSink()
    states: list[ReflectorState] = []

    def note() -> None:
        if not states or states[-1] is not reflector.state:
            states.append(reflector.state)

    reflector: Reflector[None] = Reflector(
        ListWatch(through(connection), resource, label_selector=label_selector),
        sink,
        options=with_options or options(),
        server=server_with(memory, request_budget, lineage),
        on_change=note,
        **more,
    )
    task = asyncio.create_task(reflector.run())
    try:
        yield Running(server, reflector, sink, states)
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task.exception()
        await connection.aclose()


def put(server: APIServer, *names: str, value: str = "", **labels: str) -> None:
    """Create pods, or change them."""
    for name in names:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"nodeName": value},
        }
        exists = any(one["metadata"]["name"] == name for one in server.list("v1", "pods"))
        (server.update if exists else server.create)(pod)


def remove(server: APIServer, *names: str) -> None:
    """Delete pods."""
    for name in names:
        server.delete("v1", "pods", name)


def listed(server: APIServer, api_version: str = "v1", plural: str = "pods") -> dict[str, str]:
    """Return the version of each object that exists, by key."""
    metas = [one["metadata"] for one in server.list(api_version, plural)]
    return {f"{meta['namespace']}/{meta['name']}": meta["resourceVersion"] for meta in metas}


def is_load(request: RequestRecord) -> bool:
    """Return whether a request lists everything, and is not a proof or a read of one object."""
    named = "metadata.name=" in request.query.get("fieldSelector", "")
    return request.verb == "list" and request.query.get("limit") != "1" and not named


def verbs(server: APIServer, plural: str = "pods") -> list[str]:
    """Return the verbs of all requests so far; a watch-list is one of them, a proof another."""
    asked = [request for request in server.requests if request.resource == plural]
    return [_verb(one) for one in asked]


def _verb(request: RequestRecord) -> str:
    if is_watch_list(request):
        return "watch-list"
    return request.verb if request.verb != "list" or is_load(request) else "look"


def watches(server: APIServer) -> list[str]:
    """Return where each watch began."""
    return [
        request.query["resourceVersion"]
        for request in server.requests
        if request.verb == "watch" and not is_watch_list(request)
    ]


def is_watch_list(request: RequestRecord) -> bool:
    """Return whether a request asks for initial events."""
    return request.query.get("sendInitialEvents") == "true"


async def until_held(server: APIServer, count: int = 1) -> None:
    """Wait until so many responses stall or hang."""
    await until(lambda: server.faults.held >= count)
