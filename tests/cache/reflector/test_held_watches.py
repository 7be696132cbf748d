"""Proxies that hold back what a watch brings, or lose it; lists are answered at once.

The server behind them is correct. The times are virtual, and the settings are the defaults.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from msgspec import json

from pyinformer.cache.reflector import Reflector, ReflectorState
from pyinformer.client.transport import Body
from pyinformer.errors import ResourceVersionTooLargeError, status_error_class
from tests.cache.reflector.samples import DictSink, line, pod_bytes
from tests.cache.reflector.scripted import (
    Pieces,
    ScriptedBody,
    ScriptedConnection,
    following,
    silence,
)
from tests.virtual_time import elapse
from tests.waiting import until

pytestmark = pytest.mark.virtual_time


@dataclass
class ProxiedServer(ScriptedConnection):
    """A server that sends no bookmarks, behind a proxy without watch-lists."""

    holds: bool = False
    """Whether the proxy sends what a watch has brought when the watch ends."""
    loses: bool = False
    """Whether the proxy sends nothing of what a watch has brought."""
    buffers: bool = False
    """Whether the proxy sends the head of the response with the first event."""
    is_mute: bool = False
    """Whether the proxy answers no watch."""
    cuts_after_seconds: float = 1000.0
    """When the proxy ends a watch, in the proper way."""
    versions: dict[str, int] = field(default_factory=lambda: {"a": 40})
    """The pods."""
    requests: list[str] = field(default_factory=list)
    """What was requested."""

    @property
    def newest(self) -> int:
        """The version of the server."""
        return max(100, *self.versions.values())

    def put(self, name: str) -> None:
        """Create a pod, or change it."""
        self.versions[name] = self.newest + 1

    refused: Exception | None = None
    """Raised by each list."""

    async def probe(self, timeout_seconds: float) -> bool:
        """Return that the server answers."""
        del timeout_seconds
        return True

    def describe_pending(self, path: str) -> str:
        """Return nothing."""
        del path
        return ""

    @asynccontextmanager
    async def answer(self, path: str, query: dict[str, str]) -> AsyncIterator[Body]:
        """Answer a list or a watch."""
        del path
        if "sendInitialEvents" in query:
            self.requests.append("watch-list")
            pieces = silence()
        elif "watch" in query:
            self.requests.append("watch")
            position = int(query["resourceVersion"])
            while self.is_mute or (self.buffers and not self._events(position)):
                await elapse(1.0)
            pieces = self._watch(position, float(query["timeoutSeconds"]))
        else:
            is_look = query.get("limit") == "1" or "fieldSelector" in query
            self.requests.append("look" if is_look else "list")
            if self.refused is not None:
                raise self.refused
            pieces = self._list(query)
        try:
            yield ScriptedBody(pieces)
        finally:
            await pieces.aclose()

    async def _list(self, query: dict[str, str]) -> Pieces:
        if int(query.get("resourceVersion") or 0) > self.newest:
            raise ResourceVersionTooLargeError(status=504)
        one = query.get("fieldSelector", "").removeprefix("metadata.name=")
        yield json.encode(
            {
                "kind": "PodList",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(self.newest)},
                "items": [
                    json.decode(pod_bytes(name, str(version), name))
                    for name, version in self.versions.items()
                    if one in ("", name)
                ],
            }
        )

    async def _watch(self, position: int, seconds: float) -> Pieces:
        yield b""
        clock = asyncio.get_running_loop().time
        ends_at = clock() + min(seconds, self.cuts_after_seconds)
        while clock() < ends_at:
            if not (self.holds or self.loses):
                for piece in self._events(position):
                    yield piece
                position = self.newest
            await elapse(min(1.0, ends_at - clock()))
        if not self.loses:
            for piece in self._events(position):
                yield piece

    def _events(self, position: int) -> list[bytes]:
        return [
            line("ADDED", name, str(version), name) + b"\n"
            for name, version in self.versions.items()
            if version > position
        ]


@asynccontextmanager
async def loaded(server: ProxiedServer) -> AsyncIterator[tuple[Reflector[None], DictSink]]:
    """Run a reflector of pods from its first load on, and stop it."""
    async with following(server) as (reflector, sink):
        await until(lambda: reflector.status().loads)
        yield reflector, sink


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_proxy_that_holds_watches_back_until_their_end_is_listed() -> None:
    server = ProxiedServer(holds=True)
    async with loaded(server) as (reflector, sink):
        for name in "bcd":
            await elapse(100.0)
            server.put(name)
            missed_at, requests = now(), len(server.requests)
            while name not in sink.versions():
                await elapse(0.5)
                proven_at = reflector.last_proof_at
                assert proven_at is not None
                assert name in sink.versions() or proven_at < missed_at
                assert now() < missed_at + 75.0
            assert len(server.requests) < requests + 40
        assert reflector.epoch == 0


@pytest.mark.parametrize("seconds", [3.0, 10.0, 50.0, 1000.0])
async def test_a_proxy_that_loses_what_watches_bring_makes_no_cache_look_new(
    seconds: float,
) -> None:
    server = ProxiedServer(loses=True, cuts_after_seconds=seconds)
    async with loaded(server) as (reflector, sink):
        await elapse(100.0)
        for name in "bc":
            server.put(name)
            missed_at = now()
            while name not in sink.versions():
                await elapse(1.0)
                proven_at = reflector.last_proof_at
                assert proven_at is not None
                assert name in sink.versions() or proven_at < missed_at
                assert now() < missed_at + 300.0
        assert reflector.counts()["loads", "paged", "poll"]


async def test_a_quiet_server_without_bookmarks_is_not_listed_again() -> None:
    server = ProxiedServer()
    async with loaded(server) as (reflector, _):
        server.put("b")
        for _ in range(100):
            await elapse(30.0)
            assert now() - (reflector.last_proof_at or 0.0) < 75.0
        assert reflector.status().loads == 1


async def test_what_changes_behind_a_gateway_that_answers_no_watch_is_listed() -> None:
    server = ProxiedServer(is_mute=True)
    async with loaded(server) as (reflector, sink):
        for name in "bcdef":
            server.put(name)
            missed_at, requests = now(), len(server.requests)
            while name not in sink.versions():
                await elapse(0.5)
                assert now() < missed_at + 75.0
            assert len(server.requests) < requests + 20
        assert reflector.state is ReflectorState.POLLING
        assert "does not answer the watch" in reflector.status().reason
        server.is_mute = False
        await until(lambda: reflector.state is ReflectorState.WATCHING)
        server.put("g")
        await until(lambda: "g" in sink.versions())
        assert reflector.epoch == 0


async def test_a_gateway_that_sends_the_head_with_the_first_event_is_polled_and_watched() -> None:
    server = ProxiedServer(buffers=True)
    async with loaded(server) as (reflector, sink):
        for name in "bcdef":
            await elapse(40.0)
            server.put(name)
            missed_at = now()
            while name not in sink.versions():
                await elapse(0.5)
                assert now() < missed_at + 75.0
        assert reflector.epoch == 0


async def test_a_server_that_answers_nothing_is_not_taken_for_one_without_watches() -> None:
    server = ProxiedServer(is_mute=True)
    async with loaded(server) as (reflector, _):
        server.refused = status_error_class(503)(status=503)
        await elapse(100.0)
        assert server.requests.count("watch") == 1
        assert server.requests.count("list") == 1
        assert reflector.status().loads == 1
