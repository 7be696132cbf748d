"""A connection whose server is a few generators, for tests in virtual time.

A list is a dict or an error; a watch is an asynchronous generator of bytes. The time that the
server takes is virtual.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

from msgspec import json

from pyinformer.cache.reflector import Reflector, ReflectorOptions, RequestBudget, WatchListMemory
from pyinformer.cache.reflector.lineage import Lineage
from pyinformer.client.transport import Body, ClusterConfig, ListWatch, NoCredentials
from pyinformer.client.transport.http import Query
from pyinformer.objects import GroupVersionResource
from tests.cache.reflector.samples import PODS, DictSink, server_with

Pieces = AsyncGenerator[bytes, None]


async def silence() -> Pieces:
    """Return a watch without events."""
    yield b""
    await asyncio.Event().wait()


class ScriptedBody:
    """A body of the pieces that a generator yields."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self.received_bytes = 0

    async def read(self) -> bytes:
        """Return the next piece that is not empty."""
        async for piece in self._pieces:
            if piece:
                self.received_bytes += len(piece)
                return piece
        return b""

    def expire(self, waited_seconds: float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class ScriptedConnection:
    """What a connection has beside the answers to lists and watches."""

    @property
    def config(self) -> ClusterConfig:
        """Return an address that is not used."""
        return ClusterConfig(server="https://scripted", credentials=NoCredentials())

    def stream(
        self,
        path: str,
        query: Query = (),
        *,
        watch: bool,
        what: str = "",
        deadline_seconds: float | None = None,
        accept: str = "",
        same_server: bool = False,
    ) -> AbstractAsyncContextManager[Body]:
        """Answer a list or a watch."""
        del watch, what, deadline_seconds, accept, same_server
        return self.answer(path, dict(query))

    def answer(self, path: str, query: dict[str, str]) -> AbstractAsyncContextManager[Body]:
        """Answer a list or a watch."""
        raise NotImplementedError(path)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
        accept: str = "",
    ) -> bytes:
        """Refuse: a reflector of pods reads no documents."""
        raise NotImplementedError(f"{method} {path}")

    async def aclose(self) -> None:
        """Do nothing."""


@dataclass
class ScriptedServer(ScriptedConnection):
    """The server of one test, and the connection to it."""

    watch_list: Callable[[], Pieces]
    """Answers a watch-list."""
    pods: list[dict[str, object]] = field(default_factory=list)
    """What a list shows."""
    version: str = "100"
    """The version of a list."""
    list_seconds: float = 0.0
    """How long a list takes."""
    answers_nothing: int = 0
    """How many lists lack everything."""
    refused: Exception | None = None
    """Raised by each list."""
    is_mute: bool = False
    """Whether watch-lists are not answered at all."""
    requests: list[str] = field(default_factory=list)
    """What was requested: `watch-list`, `list`, `look` for a list of one item, `watch`."""

    @asynccontextmanager
    async def answer(self, path: str, query: dict[str, str]) -> AsyncIterator[Body]:
        """Answer a list or a watch."""
        if "watch" in query:
            is_load = "sendInitialEvents" in query
            self.requests.append("watch-list" if is_load else "watch")
            if is_load and self.is_mute:
                await asyncio.Event().wait()
            pieces = self.watch_list() if is_load else silence()
        else:
            self.requests.append("look" if query.get("limit") == "1" else "list")
            if self.refused is not None:
                raise self.refused
            pieces = self._list(path, query)
        try:
            yield ScriptedBody(pieces)
        finally:
            await pieces.aclose()

    async def _list(self, path: str, query: dict[str, str]) -> Pieces:
        if self.list_seconds:
            done = asyncio.Event()
            asyncio.get_running_loop().call_later(self.list_seconds, done.set)
            await done.wait()
        items = self.pods[: int(query.get("limit", 0)) or None]
        if self.answers_nothing:
            self.answers_nothing, items = self.answers_nothing - 1, []
        yield json.encode(
            {
                "kind": "PodList",
                "apiVersion": "v1" if path.startswith("/api/") else "metrics.k8s.io/v1beta1",
                "metadata": {"resourceVersion": self.version},
                "items": items,
            }
        )


@asynccontextmanager
async def following(
    server: ScriptedConnection,
    *,
    resource: GroupVersionResource = PODS,
    memory: WatchListMemory | None = None,
    budget: RequestBudget | None = None,
    options: ReflectorOptions | None = None,
    lineage: Lineage | None = None,
) -> AsyncIterator[tuple[Reflector[None], DictSink]]:
    """Run a reflector of pods on a scripted server, and stop it."""
    sink = DictSink()
    reflector: Reflector[None] = Reflector(
        ListWatch(server, resource),
        sink,
        server=server_with(memory, budget, lineage),
        options=options,
    )
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector, sink
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task.exception()
