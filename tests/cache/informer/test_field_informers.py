"""Informers beside servers that public reports describe; docs/reference/field-reports.md."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import pytest
from msgspec import json

import pyinformer
from pyinformer import SharedInformerFactory
from pyinformer.errors import InformerError
from tests.client.transport.serving import CHUNKED, chunk, response, serving
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.client.transport.serving import Request, Server

REFUSED = json.encode({"kind": "Status", "apiVersion": "v1", "code": 422, "reason": "Invalid"})


def config_map(name: str, version: int, **data: str) -> dict[str, object]:
    """Return a ConfigMap as a server sends it."""
    meta = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": data}


def event(kind: str, obj: dict[str, object]) -> bytes:
    """Return an event of a watch."""
    return json.encode({"type": kind, "object": obj}) + b"\n"


@dataclass
class Odd:
    """A server of ConfigMaps without watch-lists; a test chooses what is odd about it."""

    version: int = 5
    changed: int = 4
    """The version of the object."""
    lists: int = 0
    watches: list[int] = field(default_factory=list)

    async def __call__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        """Answer a request."""
        parts = urlsplit(request.target)
        query = dict(parse_qsl(parts.query))
        if not parts.path.endswith("configmaps"):
            writer.write(response(REFUSED, status=404))
        elif "sendInitialEvents" in query:
            writer.write(response(REFUSED, status=422))
        elif "watch" in query:
            self.watches.append(int(query["resourceVersion"]))
            await self.watch(writer, int(query["resourceVersion"]))
        else:
            self.lists += query.get("limit") != "1"  # which looks at the newest version
            writer.write(response(self.page()))

    def page(self) -> bytes:
        """Return the list."""
        items = [config_map("a", self.changed)]
        meta = {"resourceVersion": str(self.version)}
        head = {"kind": "ConfigMapList", "apiVersion": "v1"}
        return json.encode({**head, "metadata": meta, "items": items})

    async def watch(self, writer: asyncio.StreamWriter, version: int) -> None:
        """Answer a watch."""
        writer.write(CHUNKED)
        await asyncio.Event().wait()


class Ending(Odd):
    """Its watches bring one event and a bookmark, and end."""

    async def watch(self, writer: asyncio.StreamWriter, version: int) -> None:
        """Answer a watch."""
        self.version = self.changed = version + 1
        changed = event("MODIFIED", config_map("a", self.version))
        done = event("BOOKMARK", config_map("", self.version))
        writer.write(CHUNKED + chunk(changed + done) + chunk(b""))


@asynccontextmanager
async def following(odd: Odd) -> AsyncIterator[tuple[Server, SharedInformerFactory]]:
    """Run a factory beside a server."""
    async with (
        serving(odd) as server,
        pyinformer.connect(server=server.url) as cluster,
        SharedInformerFactory(cluster) as factory,
    ):
        yield server, factory


async def test_watches_that_end_leave_no_connection_and_no_second_watch() -> None:
    odd = Ending()
    async with following(odd) as (server, factory):
        maps = factory.informer("v1", "configmaps")
        await factory.start()
        for _ in range(3):  # as a program that restarts its informer after an error
            await factory.start()
            await maps.start()
        await until(lambda: len(odd.watches) > 12)
        assert server.open_connections <= 3
        assert odd.watches == sorted(odd.watches), "no watch begins behind another"
        assert odd.lists == 1


async def test_informers_have_no_threads() -> None:
    async with following(Odd()) as (_, factory):
        before = threading.active_count()
        labels = [f"team={number}" for number in range(20)]
        for label in labels:
            factory.informer("v1", "configmaps", label_selector=label)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert threading.active_count() <= before + 1  # the watchdog of the loop


class AnsweredByAList(Odd):
    """It does not know `watch`: a watch is answered by the list, and ends."""

    async def watch(self, writer: asyncio.StreamWriter, version: int) -> None:
        """Answer a watch."""
        self.version = self.changed = self.version + 1
        writer.write(response(self.page() + b"\n"))


async def test_a_server_that_answers_a_watch_by_a_list_is_not_asked_without_a_pause() -> None:
    odd = AnsweredByAList()
    async with following(odd) as (_, factory):
        factory.informer("v1", "configmaps")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        await until(lambda: len(odd.watches) > 3)
        await until(lambda: "sent a ConfigMapList in place of an event" in str(factory.status()))
        assert len(odd.watches) < 10, "the pauses grow"


class ForeignBookmarks(Odd):
    """Its bookmarks are those of the objects that it converts."""

    async def watch(self, writer: asyncio.StreamWriter, version: int) -> None:
        """Answer a watch."""
        self.version = self.changed = 51
        foreign = {"kind": "HelmRelease", "apiVersion": "helm.example.com/v2"}
        meta = {"resourceVersion": "50", "creationTimestamp": None}
        writer.write(CHUNKED + chunk(event("BOOKMARK", {**foreign, "metadata": meta, "spec": {}})))
        if version < 50:
            writer.write(chunk(b""))
            return
        writer.write(chunk(event("MODIFIED", config_map("a", 51))))
        await asyncio.Event().wait()


async def test_a_bookmark_of_another_kind_is_a_bookmark() -> None:
    odd = ForeignBookmarks()
    async with following(odd) as (_, factory):
        maps = factory.informer("v1", "configmaps")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        await until(lambda: maps.lister["ns/a"].metadata.resource_version == "51")
        assert (odd.watches, odd.lists) == ([5, 50], 1)


async def test_a_later_page_of_another_shape_is_an_error_and_no_short_list() -> None:
    pages = itertools.count()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        meta = {"resourceVersion": "5", "continue": "t"}
        head = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": meta}
        good = json.encode({**head, "items": [config_map("a", 4)]})
        writer.write(response(b'{"kind":"Other"}' if next(pages) else good))

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        found = []
        with pytest.raises(InformerError, match="Other"):
            async for one in cluster.list("v1", "configmaps"):
                found.append(one.key)  # noqa: PERF401 - what came before the error counts
        assert found == ["ns/a"]


OUT_OF_DESCRIPTORS = """
import asyncio, logging, os, resource, sys
import pyinformer

async def main():
    async with (
        pyinformer.connect(server=sys.argv[1]) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        maps = factory.informer("v1", "configmaps")
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = max(map(int, os.listdir("/proc/self/fd"))) + 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
        held = []
        try:
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        try:
            await cluster.get("v1", "configmaps", "ns/a")
        except pyinformer.TransportError as error:
            print(error)
        await factory.start()
        while not (text := str(factory.status())).count("Too many open files"):
            await asyncio.sleep(0)
        for one in held:
            os.close(one)
        await factory.wait_for_cache_sync(timeout_seconds=100)
        print(len(maps.lister.list()))

logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout, level=logging.ERROR)
asyncio.run(main())
"""


async def test_a_process_out_of_descriptors_says_so_and_follows_once_it_has_some() -> None:
    """Also if no request was sent before, so that what sends it is still to be imported."""
    async with serving(Odd()) as server:
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", OUT_OF_DESCRIPTORS, server.url, stdout=asyncio.subprocess.PIPE
        )
        try:
            printed, _ = await asyncio.wait_for(program.communicate(), 100)
        finally:
            with contextlib.suppress(ProcessLookupError):
                program.kill()
    refused, *errors, found = printed.decode().splitlines()
    assert "Too many open files" in refused
    assert (errors, found) == ([], "1")
