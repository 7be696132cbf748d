"""Send one attack to an informer, and look at what its process keeps."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, final

import anyio

import pyinformer
from pyinformer.testing import APIServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.tenants.attacks import Attack

_WAIT_SECONDS = 100.0
_LOOK_SECONDS = 0.002
_TOGETHER = 10  # updates that are under way at once


@final
class Victim:
    """An informer of config maps, and the server that sends it the lines of an attack."""

    def __init__(self, server: APIServer, informer: pyinformer.SharedInformer[None]) -> None:
        self._server = server
        self.informer = informer

    async def suffer(self, attack: Attack, numbers: range, size: int) -> None:
        """Send updates, a few at a time; between them, another tenant's have to arrive."""
        for number in numbers:
            for kind, head, end in attack(number, size):
                self._server.advance_resource_version()
                version = self._server.resource_version
                line = f'{{"type":"{kind}","object":{head},"resourceVersion":"{version}"{end}}}\n'
                self._server.emit_raw("v1", "configmaps", line.encode())
            if number % _TOGETHER == 0 or number == numbers[-1]:
                await self._until_seen(number)

    async def _until_seen(self, number: int) -> None:
        """Wait until what another tenant writes has arrived."""
        data = {"data": {"number": f"{number}"}}
        made = self._server.patch("v1", "configmaps", "other", data, "default")
        version = made["metadata"]["resourceVersion"]
        with anyio.fail_after(_WAIT_SECONDS):
            while self._other_version() != version:  # noqa: ASYNC110 - a handler would cost memory
                await anyio.sleep(_LOOK_SECONDS)

    def _other_version(self) -> str:
        return self.informer.lister["default/other"].metadata.resource_version


@asynccontextmanager
async def victim(**options: object) -> AsyncIterator[Victim]:
    """Start a server and an informer, synced."""
    with APIServer(history_size=100, watch_cache_size=100) as server:
        meta = {"name": "other", "namespace": "default"}
        server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        settings = pyinformer.cache.ReflectorOptions(**options)  # type: ignore[arg-type]
        async with (
            pyinformer.connect(server=server.url) as cluster,
            pyinformer.SharedInformerFactory(cluster, options=settings) as factory,
        ):
            informer = factory.informer("v1", "configmaps")
            informer.add_event_handler(lambda _: None)
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=_WAIT_SECONDS)
            server.wait_for_watches(1)
            yield Victim(server, informer)
