"""Servers that public reports describe; docs/reference/field-reports.md. The times are virtual."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from msgspec import json

from pyinformer.cache.reflector import ReflectorState
from pyinformer.client.transport import Body, status_error
from tests.cache.reflector.samples import bookmark, line, pod_bytes
from tests.cache.reflector.scripted import Pieces, ScriptedBody, ScriptedConnection, following
from tests.virtual_time import elapse
from tests.waiting import until

pytestmark = pytest.mark.virtual_time


@dataclass
class FieldServer(ScriptedConnection):
    """A server without watch-lists; a test chooses what is odd about it."""

    pods: dict[str, int] = field(default_factory=lambda: {"a": 4, "b": 5})
    version: int = 5
    page_size: int = 1_000
    requests: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def answer(self, path: str, query: dict[str, str]) -> AsyncIterator[Body]:
        """Answer a list or a watch."""
        if "sendInitialEvents" in query:
            raise status_error(422, {}, b"", request="watch-list pods.v1")
        if "watch" in query:
            self.requests.append(f"watch {query['resourceVersion']}")
            pieces = self.watch(int(query["resourceVersion"]))
        else:
            self.requests.append("list" if "limit" in query else "whole list")
            pieces = self.listed(int(query.get("limit", 0)), query.get("continue", ""))
        try:
            yield ScriptedBody(pieces)
        finally:
            await pieces.aclose()

    async def watch(self, version: int) -> Pieces:
        """Answer a watch."""
        yield b""
        await asyncio.Event().wait()

    async def listed(self, limit: int, token: str) -> Pieces:
        """Answer a list."""
        yield self.page({})

    def page(self, meta: dict[str, object], *names: str) -> bytes:
        """Return a list of these pods, of all if none is named."""
        chosen = names or tuple(self.pods)
        items = [json.decode(pod_bytes(name, str(self.pods[name]), name)) for name in chosen]
        metadata = {"resourceVersion": str(self.version), **meta}
        head = {"kind": "PodList", "apiVersion": "v1"}
        return json.encode({**head, "metadata": metadata, "items": items})

    def added(self, name: str) -> bytes:
        """Return the event of a pod that was created."""
        return line("ADDED", name, str(self.pods[name]), name) + b"\n"


@dataclass
class BrokenPages(FieldServer):
    """A server whose pages are not lists; one whole body is."""

    how: str = ""

    async def listed(self, limit: int, token: str) -> Pieces:
        """Answer a list."""
        if limit in {0, 1}:  # whole, or a look at the newest version
            yield self.page({})
        elif self.how == "repeats":
            yield self.page({"continue": "same"}, "a")
        elif self.how == "ends-early":
            yield self.page({"remainingItemCount": 1}, "a")
        elif token:
            yield self.page({"resourceVersion": str(self.version + 1)}, "b")
        else:
            yield self.page({"continue": "t"}, "a")


@pytest.mark.parametrize("how", ["repeats", "ends-early", "two-versions"])
async def test_a_server_whose_pages_are_no_list_is_asked_for_one_body(how: str) -> None:
    server = BrokenPages(how=how)
    async with following(server) as (reflector, sink):
        await until(lambda: reflector.status().loads)
        assert sink.versions() == {"a": "4", "b": "5"}
        assert asyncio.get_running_loop().time() < 30.0
    assert server.requests.count("whole list") == 1


@dataclass
class FilteredPages(FieldServer):
    """A gateway that leaves out of its pages what the user may not see; each has another token."""

    last: int = 24
    """The number of pages; the first and the last have a pod."""
    has_whole: bool = True
    """Whether one body is answered as one."""

    async def listed(self, limit: int, token: str) -> Pieces:
        """Answer a list."""
        if limit == 1 or (not limit and self.has_whole):  # a look at the newest version, or whole
            yield self.page({})
            return
        number = int(token or 1)
        meta: dict[str, object] = {"continue": str(number + 1)} if number < self.last else {}
        page = json.decode(self.page(meta, "a" if number == 1 else "b"))
        if 1 < number < self.last:
            page["items"] = []
        yield json.encode(page)


async def test_a_gateway_that_filters_pages_is_followed_to_the_end() -> None:
    server = FilteredPages()
    async with following(server) as (reflector, sink):
        await until(lambda: reflector.status().loads)
        assert sink.versions() == {"a": "4", "b": "5"}
        assert asyncio.get_running_loop().time() < 6.0
    assert (server.requests.count("list"), server.requests.count("whole list")) == (24, 0)


async def test_a_gateway_that_filters_many_pages_is_asked_for_one_body() -> None:
    server = FilteredPages(last=2_000)
    async with following(server) as (reflector, sink):
        await until(lambda: reflector.status().loads)
        assert sink.versions() == {"a": "4", "b": "5"}
        assert asyncio.get_running_loop().time() < 60.0
    assert (server.requests.count("list"), server.requests.count("whole list")) == (65, 1)


async def test_pages_that_bring_nothing_without_end_are_not_requested_twice_a_second() -> None:
    server = FilteredPages(last=1_000_000, has_whole=False)
    async with following(server) as (reflector, _):
        await elapse(600.0)
        assert reflector.status().loads == 0
    assert len(server.requests) < 1_200


class Compacted(FieldServer):
    """A store that answers a position which it has compacted with a plain error."""

    as_event = False

    async def watch(self, version: int) -> Pieces:
        """Answer a watch."""
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500}
        text = json.encode({**body, "message": "rpc error: revision has been compact"})
        if version < self.version:
            if not self.as_event:
                raise status_error(500, {}, text, request="watch pods.v1")
            yield b'{"type":"ERROR","object":%s}\n' % text
            return
        yield b""
        if version > 5:
            await asyncio.Event().wait()
        self.pods, self.version = {"c": 9}, 9  # while the watch shows nothing
        await elapse(1.0)


@pytest.mark.parametrize("as_event", [False, True])
async def test_a_position_that_only_fails_is_given_up_for_a_list(as_event: bool) -> None:
    server = Compacted()
    server.as_event = as_event
    async with following(server) as (reflector, sink):
        await until(lambda: sink.versions() == {"c": "9"})
        assert asyncio.get_running_loop().time() < 60.0
        await until(lambda: reflector.status().state is ReflectorState.WATCHING)


class ExpiredAtOnce(FieldServer):
    """A server that refuses to watch from the version of its newest list."""

    async def watch(self, version: int) -> Pieces:
        """Answer a watch."""
        text = b'{"kind":"Status","reason":"Expired","message":"too old","code":410}'
        raise status_error(410, {}, text, request="watch pods.v1")
        yield b""


async def test_a_server_that_watches_from_none_of_its_lists_is_listed_again_and_again() -> None:
    server = ExpiredAtOnce()
    async with following(server) as (reflector, sink):
        await until(lambda: reflector.status().loads > 2)
        assert "does not reach back to its lists" in reflector.status().reason
        server.pods, server.version = {"a": 4, "c": 6}, 6
        began = asyncio.get_running_loop().time()
        await until(lambda: sink.versions() == {"a": "4", "c": "6"})
        assert asyncio.get_running_loop().time() - began < 60.0
        await elapse(300.0)
    lists = len([one for one in server.requests if "list" in one])
    assert lists < 40, "the pauses grow"


@dataclass
class Replaying(FieldServer):
    """A server that ignores the version of a watch: it shows everything again."""

    async def watch(self, version: int) -> Pieces:
        """Answer a watch."""
        yield b"".join(map(self.added, self.pods))
        await elapse(5.0)
        yield bookmark(str(self.version)) + b"\n"


async def test_a_watch_that_shows_everything_again_changes_nothing() -> None:
    server = Replaying()
    async with following(server) as (reflector, sink):
        await until(lambda: reflector.status().loads)
        await elapse(60.0)
        assert {name: len(found) for name, found in sink.history.items()} == {"a": 1, "b": 1}
        server.pods["c"], server.version = 8, 8
        await until(lambda: sink.versions() == {"a": "4", "b": "5", "c": "8"})
        assert reflector.status().state is ReflectorState.WATCHING
        assert "whole list" not in server.requests


class Behind(FieldServer):
    """A server whose store lags behind its own list: it reports that in words alone."""

    def __init__(self) -> None:
        super().__init__()
        self.catches_up_at = 40.0

    async def watch(self, version: int) -> Pieces:
        """Answer a watch."""
        if asyncio.get_running_loop().time() < self.catches_up_at:
            text = b'{"kind":"Status","reason":"Timeout","code":504,"message":"Too large version"}'
            raise status_error(504, {}, text, request="watch pods.v1")
        yield b""
        await elapse(1.0)
        self.pods, self.version = {"a": 4, "b": 5, "c": 8}, 8
        yield self.added("c")
        await asyncio.Event().wait()


async def test_a_version_that_is_too_large_without_a_cause_ends_when_the_server_has_it() -> None:
    server = Behind()
    async with following(server) as (reflector, sink):
        await until(lambda: sink.versions().get("c") == "8")
        assert reflector.status().state is ReflectorState.WATCHING
    assert len(server.requests) < 60, "the pauses grow"


class NeverReadable(FieldServer):
    """Its watches are not lines of JSON, in one of several ways."""

    text = b""

    async def watch(self, version: int) -> Pieces:
        """Answer a watch."""
        yield self.text
        await elapse(1.0)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"kind":"PodList","items":[]}\n', id="a-list"),
        pytest.param(b'{\n "type": "ADDED",\n "object": {}\n}\n', id="indented"),
        pytest.param(b"upstream request timeout\n", id="words"),
        pytest.param(bookmark("0") + b"\n", id="bookmark-at-zero"),
    ],
)
async def test_a_resource_whose_watches_are_never_readable_is_polled(text: bytes) -> None:
    server = NeverReadable()
    server.text = text
    async with following(server) as (reflector, sink):
        await until(lambda: reflector.status().loads)
        await elapse(300.0)
        server.pods, server.version = {"a": 4, "c": 9}, 9
        began = asyncio.get_running_loop().time()
        await until(lambda: sink.versions() == {"a": "4", "c": "9"})
        assert asyncio.get_running_loop().time() - began < 120.0
        assert reflector.status().last_error is not None
        await elapse(600.0)
    assert len(server.requests) < 300, "the pauses grow"


class AwayForHours(FieldServer):
    """A server that refuses every list for three hours."""

    async def listed(self, limit: int, token: str) -> Pieces:
        """Answer a list."""
        if asyncio.get_running_loop().time() < 3 * 3600.0:
            raise status_error(503, {}, b"", request="list pods.v1")
        yield self.page({})


async def test_a_reflector_does_not_give_up_in_hours() -> None:
    server = AwayForHours()
    async with following(server) as (_, sink):
        await elapse(3 * 3600.0 + 120.0)
        assert sink.versions() == {"a": "4", "b": "5"}
    assert len(server.requests) < 3 * 3600 / 10


class NullObject(FieldServer):
    """At one position its watch shows an event without an object, each time."""

    async def watch(self, version: int) -> Pieces:
        """Answer a watch."""
        if version > 5:
            yield b""
            await asyncio.Event().wait()
        self.pods, self.version = {"a": 4, "b": 9}, 9
        yield b'{"type":"MODIFIED","object":null}\n'


async def test_an_event_without_an_object_at_a_position_is_passed_by_a_list() -> None:
    server = NullObject()
    async with following(server) as (reflector, sink):
        await until(lambda: sink.versions() == {"a": "4", "b": "9"})
        await until(lambda: reflector.status().state is ReflectorState.WATCHING)
        assert asyncio.get_running_loop().time() < 60.0
