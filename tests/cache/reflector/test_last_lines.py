"""The last value of a watch, whose line end a server or a proxy may leave out.

The times are virtual, but for the tests with a server.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from pyinformer.cache.reflector import ReflectorOptions, ReflectorState
from pyinformer.testing import APIServer, Fault
from tests.cache.reflector.running import put, reflecting
from tests.cache.reflector.samples import bookmark, line, pod_bytes, status_bytes
from tests.cache.reflector.scripted import Pieces, ScriptedBody, ScriptedServer, following, silence
from tests.virtual_time import elapse
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pyinformer.client.transport import Body

LINE_ENDS = [pytest.param(b"\n", id="line-end"), pytest.param(b"", id="no-line-end")]
OPTIONS = ReflectorOptions(use_watch_list=False)
QUOTA = "the quota of watches is used up"
LISTED = [json.loads(pod_bytes("a", "90"))]


def once(*pieces: bytes) -> Pieces:
    """Return a body of these pieces, which ends properly."""

    async def sent() -> Pieces:
        for piece in pieces:
            yield piece
            await elapse(0.01)

    return sent()


@dataclass
class Answering(ScriptedServer):
    """Answers each watch with the next of its bodies, and the last one again and again."""

    bodies: list[Callable[[], Pieces]] = field(default_factory=list)
    after: list[bytes] = field(default_factory=list)
    """What a list shows once the first watch was answered, the newest first."""
    watches: int = 0

    @asynccontextmanager
    async def answer(self, path: str, query: dict[str, str]) -> AsyncIterator[Body]:
        """Answer a list or a watch."""
        if "watch" not in query:
            async with super().answer(path, query) as body:
                yield body
            return
        self.watches += 1
        if self.after:
            self.pods, self.version = [json.loads(one) for one in self.after], "102"
        pieces = self.bodies[min(self.watches, len(self.bodies)) - 1]()
        try:
            yield ScriptedBody(pieces)
        finally:
            await pieces.aclose()


def answering(*bodies: Callable[[], Pieces]) -> Answering:
    return Answering(silence, pods=LISTED, bodies=list(bodies))


@pytest.mark.covers("kube-client src: watch_clean_termination_delivers_every_event")
@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "end", [*LINE_ENDS, pytest.param(b"  ", id="blanks"), pytest.param(b"\r", id="carriage-return")]
)
async def test_the_last_event_of_a_watch_is_applied(end: bytes) -> None:
    first, last = line("ADDED", "b", "101") + b"\n", line("ADDED", "c", "102") + end
    server = answering(lambda: once(first + last[:40], last[40:]), silence)
    server.after = [pod_bytes("c", "102"), pod_bytes("b", "101")]
    async with following(server, options=OPTIONS) as (reflector, sink):
        await until(lambda: "c" in sink.versions(), timeout_seconds=5.0)
        assert reflector.position == "102"
        assert reflector.liveness().last_event_at is not None
        await until(lambda: server.watches == 2)
        assert reflector.status().loads == 1
        assert reflector.status().last_error is None


@pytest.mark.virtual_time
@pytest.mark.parametrize("end", LINE_ENDS)
async def test_the_last_bookmark_of_a_watch_counts(end: bytes) -> None:
    server = answering(lambda: once(bookmark("200") + end), silence)
    async with following(server, options=OPTIONS) as (reflector, _):
        await until(lambda: reflector.position == "200", timeout_seconds=5.0)


@pytest.mark.virtual_time
@pytest.mark.parametrize("end", LINE_ENDS)
@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(status_bytes(403, "Forbidden", QUOTA), id="status"),
        pytest.param(
            b'{"type":"ERROR","object":%s}' % status_bytes(403, "Forbidden", QUOTA), id="event"
        ),
    ],
)
async def test_a_refusal_in_the_body_of_a_watch_is_recognised(refusal: bytes, end: bytes) -> None:
    server = answering(lambda: once(refusal + end))
    async with following(server, options=OPTIONS) as (reflector, _):
        await until(lambda: reflector.state is ReflectorState.POLLING, timeout_seconds=100.0)
        assert QUOTA in reflector.status().reason


@pytest.mark.virtual_time
@pytest.mark.parametrize("end", LINE_ENDS)
async def test_a_whole_list_in_place_of_events_is_named(end: bytes) -> None:
    """A gateway that loses the query of a watch answers with a list."""
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": LISTED}
    server = answering(lambda: once(json.dumps(body).encode() + end))
    async with following(server, options=OPTIONS) as (reflector, _):
        await until(lambda: reflector.status().last_error, timeout_seconds=100.0)
        assert "the server sent a PodList in place of an event" in str(reflector.status())


@pytest.mark.covers(
    "kube-client src: watch_unexpected_eof_after_truncated_line_keeps_resource_version"
)
@pytest.mark.virtual_time
async def test_a_watch_that_ends_within_a_line_is_named_and_resumed() -> None:
    event = line("ADDED", "b", "101")
    server = answering(lambda: once(event[:-7]), lambda: once(event + b"\n"), silence)
    server.after = [pod_bytes("b", "101")]
    reasons: list[str] = []
    async with following(server, options=OPTIONS) as (reflector, sink):
        while "b" not in sink.versions():
            reasons.append(reflector.status().last_error or "")
            await elapse(0.005)
        assert reflector.status().loads == 1
        assert sink.history["b"] == ["add 101"]
    assert any("the watch ended within a line" in reason for reason in reasons)


@pytest.mark.virtual_time
@pytest.mark.parametrize("end", LINE_ENDS)
async def test_a_watch_list_ends_with_its_bookmark(end: bytes) -> None:
    all_of_it = line("ADDED", "a", "90") + b"\n" + bookmark("100", ends_initial_events=True) + end
    server = answering(lambda: once(all_of_it), silence)
    async with following(server) as (reflector, sink):
        await until(lambda: reflector.status().loads == 1, timeout_seconds=5.0)
        assert sink.versions() == {"a": "90"}
        assert server.requests == []  # nothing was listed


@pytest.mark.virtual_time
async def test_an_event_over_the_limit_is_applied_by_its_metadata() -> None:
    event = line("ADDED", "b", "101").replace(b'"spec":', b'"data":"%s","spec":' % (b"x" * 5000))
    options = ReflectorOptions(use_watch_list=False, max_object_bytes=4096)
    server = answering(lambda: once(event[:20], event[20:]), silence)
    async with following(server, options=options) as (_, sink):
        await until(lambda: "b" in sink.versions(), timeout_seconds=5.0)
        assert sink.objects["b"].problem


@pytest.mark.parametrize("end", LINE_ENDS)
async def test_an_expired_watch_over_http_is_listed_again_at_once(end: bytes) -> None:
    with APIServer() as server:
        put(server, "a")
        expired = b'{"type":"ERROR","object":%s}' % status_bytes(410, "Expired", "too old")
        server.faults.add(Fault(verb="watch", body=expired + end))
        async with reflecting(server) as running:
            await running.until_watching(loads=2)
            await running.until_equal()
            assert running.reflector.status().outcomes.get("errors:410") == 1
