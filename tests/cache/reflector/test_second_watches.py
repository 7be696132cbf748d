"""What a second watch proves: the first one stalls, and lists show that there is something new."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from pyinformer.cache.reflector import ReflectorOptions, ReflectorState
from pyinformer.errors import APIStatusError
from tests.cache.reflector.samples import bookmark, line, pod_bytes, status_bytes
from tests.cache.reflector.scripted import Pieces, ScriptedBody, ScriptedServer, following, silence
from tests.virtual_time import elapse
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pyinformer.client.transport import Body

pytestmark = pytest.mark.virtual_time


async def ends_at_once() -> Pieces:
    """Answer as a server that is going away."""
    return
    yield b""


async def ends_in_time() -> Pieces:
    """Answer as a kube-apiserver without a watch cache, whether its etcd is silent or quiet."""
    await elapse(3.0)
    return
    yield b""


async def brings_an_old_bookmark() -> Pieces:
    """Answer as one whose watch cache stands still."""
    await elapse(1.0)
    yield bookmark("100") + b"\n"
    await elapse(2.0)


async def brings_a_bookmark() -> Pieces:
    await elapse(1.0)
    yield bookmark("101") + b"\n"
    await elapse(2.0)


async def without_line_end() -> Pieces:
    """Send the event, and the line end only before the next one."""
    yield line("MODIFIED", "a", "101")
    await elapse(1.0)


async def refused_without_line_end() -> Pieces:
    """Refuse the watch in its body, as some proxies do."""
    yield b'{"type":"ERROR","object":%s}' % status_bytes(429, "TooManyRequests")


@dataclass
class Stalling(ScriptedServer):
    """The first watch stalls; all later ones are answered in one way."""

    later: Callable[[], Pieces] = silence
    watches: list[str] = field(default_factory=list)

    async def probe(self, timeout_seconds: float) -> bool:
        """Answer: it is a server over a network."""
        return True

    def describe_pending(self, path: str) -> str:
        """Return nothing."""
        return ""

    @asynccontextmanager
    async def answer(self, path: str, query: dict[str, str]) -> AsyncIterator[Body]:
        """Answer a list or a watch."""
        if "watch" not in query:
            async with super().answer(path, query) as body:
                yield body
            return
        self.watches.append(query["resourceVersion"])
        pieces = silence() if len(self.watches) == 1 else self.later()
        try:
            yield ScriptedBody(pieces)
        finally:
            await pieces.aclose()


def listed(version: str) -> list[dict[str, object]]:
    return [json.loads(pod_bytes("a", version))]


def stalling(later: Callable[[], Pieces]) -> Stalling:
    return Stalling(silence, pods=listed("100"), later=later)


OPTIONS = ReflectorOptions(use_watch_list=False)


@pytest.mark.parametrize(
    "later", [ends_at_once, without_line_end, ends_in_time, brings_an_old_bookmark]
)
async def test_a_second_watch_that_does_not_show_everything_proves_no_age(
    later: Callable[[], Pieces],
) -> None:
    server = stalling(later)
    async with following(server, options=OPTIONS) as (reflector, sink):
        await until(lambda: reflector.state is ReflectorState.WATCHING)
        changed_at = asyncio.get_running_loop().time()
        server.pods, server.version = listed("101"), "101"
        for _ in range(40):
            reflector.want_age(2.0)
            await elapse(0.5)
            if sink.versions() == {"a": "101"}:
                break
            assert (reflector.last_proof_at or 0.0) <= changed_at
        assert len(server.watches) > 1


async def test_a_second_watch_that_is_refused_in_its_body_shows_no_event() -> None:
    server = stalling(refused_without_line_end)
    async with following(server, options=OPTIONS) as (reflector, _):
        await until(lambda: reflector.state is ReflectorState.WATCHING)
        await elapse(70.0)  # less than the silence that ends a watch
        assert len(server.watches) > 1
        assert reflector.status().takeovers == 0


async def test_a_list_proves_the_age_where_second_watches_bring_no_bookmark() -> None:
    server = stalling(ends_in_time)
    async with following(server, options=OPTIONS) as (reflector, sink):
        await until(lambda: reflector.state is ReflectorState.WATCHING)
        changed_at = asyncio.get_running_loop().time()
        server.pods, server.version = listed("101"), "101"
        await until(lambda: sink.versions() == {"a": "101"}, timeout_seconds=240.0)
        assert (reflector.last_proof_at or 0.0) > changed_at


async def test_a_bookmark_of_a_second_watch_proves_the_age() -> None:
    server = stalling(brings_a_bookmark)
    async with following(server, options=OPTIONS) as (reflector, _):
        await until(lambda: reflector.state is ReflectorState.WATCHING)
        changed_at = asyncio.get_running_loop().time()
        server.version = "101"  # another resource has changed
        reflector.want_age(2.0)
        await until(lambda: (reflector.last_proof_at or 0.0) > changed_at)


@dataclass
class Unlimited(Stalling):
    """A healthy server whose lists are complete, whatever limit is asked for."""

    ignores_selectors: bool = False
    refuses_selectors: bool = False
    complete: int = 0
    """How many complete lists were sent."""

    @asynccontextmanager
    async def answer(self, path: str, query: dict[str, str]) -> AsyncIterator[Body]:
        """Answer a list or a watch."""
        if "watch" in query:
            pieces = _bookmarks(int(query["timeoutSeconds"]))
        else:
            is_empty = "fieldSelector" in query and not self.ignores_selectors
            if is_empty and self.refuses_selectors:
                raise APIStatusError(status=400, reason="BadRequest", request="list pods.v1")
            self.complete += not is_empty
            kept = {name: value for name, value in query.items() if name != "limit"}
            pieces = self._list(path, {**kept, "limit": "-3"} if is_empty else kept)
        try:
            yield ScriptedBody(pieces)
        finally:
            await pieces.aclose()


async def _bookmarks(timeout_seconds: int) -> Pieces:
    """Send a bookmark each minute, until the end that was asked for."""
    left_seconds = timeout_seconds
    while left_seconds > 60:
        left_seconds -= 60
        await elapse(60)
        yield bookmark("100") + b"\n"
    await elapse(left_seconds)


@pytest.mark.parametrize("ignores_selectors", [False, True])
async def test_a_server_without_limits_is_not_asked_for_everything_again_and_again(
    ignores_selectors: bool,
) -> None:
    pods = [json.loads(pod_bytes(name, "100")) for name in ("a", "b", "c")]
    server = Unlimited(silence, pods=pods, ignores_selectors=ignores_selectors)
    async with following(server, options=OPTIONS) as (reflector, _):
        await until(lambda: reflector.state is ReflectorState.WATCHING)
        for _ in range(40):
            reflector.want_age(100.0)
            await elapse(15.0)
        assert server.complete <= (6 if ignores_selectors else 2)


async def test_where_lists_are_whole_or_refused_what_arrives_is_the_age() -> None:
    """Else a quiet resource would count as stale for as long as it is quiet."""
    pods = [json.loads(pod_bytes(name, "100")) for name in ("a", "b", "c")]
    server = Unlimited(silence, pods=pods, refuses_selectors=True)
    async with following(server, options=OPTIONS) as (reflector, _):
        await until(lambda: reflector.state is ReflectorState.WATCHING)
        for _ in range(40):
            reflector.want_age(100.0)
            await elapse(15.0)
        assert not reflector.is_provable
        assert server.complete <= 2
