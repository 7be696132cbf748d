"""Servers that accept a watch-list and do not know what one is: gateways, aggregated APIs.

Every server here lists correctly. The times are virtual, and the settings are the defaults.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest
from msgspec import json

from pyinformer.cache.reflector import (
    ReflectorOptions,
    RequestBudget,
    RequestBudgetOptions,
    WatchListMemory,
)
from pyinformer.errors import status_error_class
from pyinformer.objects import GroupVersionResource
from tests.cache.reflector.samples import bookmark, line, pod_bytes, status_bytes
from tests.cache.reflector.scripted import Pieces, ScriptedServer, following, silence
from tests.virtual_time import elapse
from tests.waiting import until

pytestmark = pytest.mark.virtual_time

NAMES = [f"p{number}" for number in range(5)]
PODS = [json.decode(pod_bytes(name, "40", name)) for name in NAMES]
ADDED = b"".join(line("ADDED", name, "40", name) + b"\n" for name in NAMES)
END = bookmark("100", ends_initial_events=True) + b"\n"
SECRETS = GroupVersionResource("", "v1", "secrets")
METRICS = GroupVersionResource("metrics.k8s.io", "v1beta1", "pods")


def then(*pieces: bytes) -> Callable[[], Pieces]:
    """Return a watch-list that sends these pieces and nothing more."""

    async def stream() -> Pieces:
        for piece in pieces:
            yield piece
        async for piece in silence():
            yield piece

    return stream


def every(
    seconds: float, make: Callable[[int], bytes], *, first: bytes = ADDED
) -> Callable[[], Pieces]:
    """Return a watch-list that sends one piece at each interval."""

    async def stream() -> Pieces:
        yield first
        for number in itertools.count(101):
            await elapse(seconds)
            yield make(number)

    return stream


def modified(number: int) -> bytes:
    return line("MODIFIED", "p0", str(number), "p0") + b"\n"


def deleted(number: int) -> bytes:
    return line("DELETED", f"d{number}", str(number)) + b"\n"


def created(number: int) -> bytes:
    return line("ADDED", f"c{number}", str(number)) + b"\n"


def letter(number: int) -> bytes:
    del number
    return b"a"


def keep_alive(number: int) -> bytes:
    del number
    return b"\n"


NOT_WATCH_LISTS = {
    "quiet": then(ADDED),
    "nothing": then(),
    "changes-every-2-s": every(2.0, modified),
    "changes-at-100-per-second": every(0.01, modified),
    "deletions": every(1.0, deleted),
    "creations": every(0.5, created),
    "creations-at-100-per-second": every(0.01, created),
    "bookmark-without-a-version": then(ADDED, bookmark("") + b"\n"),
    "bookmark-that-is-not-the-end": then(ADDED, bookmark("90") + b"\n"),
    "trickle": every(0.5, letter),
    "trickle-in-a-line": every(0.5, letter, first=ADDED + b'{"type":"ADDED","obj'),
    "keep-alives": every(0.5, keep_alive),
    "only-the-end": then(END),
}
each = pytest.mark.parametrize(
    "stream", [pytest.param(stream, id=name) for name, stream in NOT_WATCH_LISTS.items()]
)


@each
async def test_a_server_that_knows_no_watch_lists_is_listed_within_ten_seconds(
    stream: Callable[[], Pieces],
) -> None:
    server = ScriptedServer(stream, PODS)
    async with following(server) as (reflector, sink):
        await until(lambda: reflector.status().loads)
        assert asyncio.get_running_loop().time() < 10.0
        assert sorted(sink.versions()) == NAMES
        assert server.requests[0] == "watch-list"
        assert "list" in server.requests


@each
async def test_a_connection_remembers_that_its_server_knows_no_watch_lists(
    stream: Callable[[], Pieces],
) -> None:
    memory = WatchListMemory()
    async with following(ScriptedServer(stream, PODS), memory=memory) as (reflector, _):
        await until(lambda: reflector.status().loads)
    again = ScriptedServer(stream, PODS)
    async with following(again, memory=memory, resource=SECRETS) as (reflector, _):
        await until(lambda: reflector.status().loads)
        assert again.requests[0] == "list"


async def test_informers_that_wait_for_their_turn_learn_what_another_has_found() -> None:
    memory, budget = WatchListMemory(), RequestBudget(RequestBudgetOptions(max_lists=1))
    first, second = (ScriptedServer(then(ADDED), PODS) for _ in range(2))
    async with (
        following(first, memory=memory, budget=budget) as (one, _),
        following(second, memory=memory, budget=budget) as (other, _),
    ):
        await until(lambda: one.status().loads and other.status().loads)
        assert first.requests[0] == "watch-list"
        assert second.requests[0] == "list"


async def test_a_watch_list_without_an_answer_becomes_a_list_within_ten_seconds() -> None:
    """A gateway that buffers responses answers when the watch ends."""
    memory = WatchListMemory()
    server = ScriptedServer(then(ADDED + END), PODS, is_mute=True)
    async with following(server, memory=memory) as (reflector, sink):
        await until(lambda: reflector.status().loads)
        assert asyncio.get_running_loop().time() < 10.0
        assert sorted(sink.versions()) == NAMES
    again = ScriptedServer(then(ADDED + END), PODS)
    async with following(again, memory=memory, resource=SECRETS) as (reflector, _):
        await until(lambda: reflector.status().loads)
        assert again.requests[0] == "list"


async def test_a_server_that_answers_nothing_is_not_taken_for_one_without_watch_lists() -> None:
    refused = status_error_class(503)(status=503)
    server = ScriptedServer(then(ADDED + END), PODS, is_mute=True, refused=refused)
    async with following(server) as (reflector, _):
        await elapse(60.0)
        assert reflector.status().attempts == 0
        assert server.requests.count("watch-list") == 1
        assert "list" not in server.requests


async def test_an_end_without_a_version_is_not_believed() -> None:
    server = ScriptedServer(then(ADDED, bookmark("", ends_initial_events=True) + b"\n"), PODS)
    async with following(server) as (reflector, sink):
        await until(lambda: reflector.status().loads)
        assert asyncio.get_running_loop().time() < 10.0
        assert sorted(sink.versions()) == NAMES


async def is_accepted(server: ScriptedServer) -> bool:
    """Load everything, and return whether a watch-list did it."""
    async with following(server) as (reflector, _):
        await until(lambda: reflector.status().loads)
        return "list" not in server.requests


def lasting(seconds: float, *pieces: bytes) -> Callable[[], Pieces]:
    """Return a watch-list whose pieces have an interval."""

    async def stream() -> Pieces:
        for piece in pieces:
            yield piece
            await elapse(seconds)
        async for piece in silence():
            yield piece

    return stream


async def test_a_large_load_may_take_a_minute() -> None:
    """Its keys are in the order of their versions, as those of live creations would be."""
    rows = [line("ADDED", f"p{number:02}", str(number)) + b"\n" for number in range(1, 61)]
    assert await is_accepted(ScriptedServer(lasting(1.0, *rows, END), PODS))


async def test_a_large_object_may_arrive_slowly() -> None:
    row = line("ADDED", "p1", "40")
    filled = row[:-2] + b',"data":"' + b"a" * (1 << 20) + b'"}}\n'
    pieces = [filled[start : start + (20 << 10)] for start in range(0, len(filled), 20 << 10)]
    assert await is_accepted(ScriptedServer(lasting(1.0, *pieces, END), PODS))


async def test_changes_before_the_end_are_what_the_first_servers_send() -> None:
    """Up to Kubernetes 1.30 the end came with the next timer, up to 1.25 s later."""
    assert await is_accepted(ScriptedServer(lasting(1.25, ADDED + modified(99), END), PODS))


async def test_a_slow_server_is_not_taken_for_one_without_watch_lists() -> None:
    memory = WatchListMemory()
    slow = ScriptedServer(lasting(8.0, ADDED, END), PODS, list_seconds=8.0)
    async with following(slow, memory=memory) as (reflector, _):
        await until(lambda: reflector.status().loads)
        assert slow.requests[0] == "watch-list"
    again = ScriptedServer(then(ADDED + END), PODS)
    async with following(again, memory=memory) as (reflector, _):
        await until(lambda: reflector.status().loads)
        assert again.requests[0] == "watch-list"


async def test_an_aggregated_api_does_not_spoil_the_resources_of_the_api_server() -> None:
    memory = WatchListMemory()
    aggregated = ScriptedServer(every(2.0, modified), PODS)
    async with following(aggregated, memory=memory, resource=METRICS) as (reflector, _):
        await until(lambda: reflector.status().loads)
    again = ScriptedServer(then(ADDED + END), PODS)
    async with following(again, memory=memory, resource=METRICS) as (reflector, _):
        await until(lambda: reflector.status().loads)
        assert again.requests[0] == "list"
    core = ScriptedServer(then(ADDED + END), PODS)
    async with following(core, memory=memory) as (reflector, _):
        await until(lambda: reflector.status().loads)
        assert core.requests[0] == "watch-list"


async def test_an_empty_watch_list_is_believed_when_a_list_is_empty_too() -> None:
    server = ScriptedServer(then(END))
    assert await is_accepted(server)
    assert server.requests == ["watch-list", "look"]


@pytest.mark.parametrize("status", [403, 404, 405])
async def test_an_empty_watch_list_is_believed_where_lists_are_refused(status: int) -> None:
    refused = status_error_class(status)(status=status)
    assert await is_accepted(ScriptedServer(then(END), PODS, refused=refused))


async def test_an_empty_watch_list_is_not_believed_while_lists_fail() -> None:
    server = ScriptedServer(then(END), PODS, refused=status_error_class(503)(status=503))
    async with following(server) as (reflector, sink):
        await until(lambda: server.requests.count("look") > 1)
        assert not reflector.status().loads
        server.refused = None
        await until(lambda: reflector.status().loads)
        assert sorted(sink.versions()) == NAMES


async def test_an_empty_watch_list_stays_open_while_an_overloaded_server_refuses_its_list() -> None:
    """Else both have to be admitted in a row, which takes minutes."""
    throttled = status_error_class(429)(status=429, retry_after_seconds=1.0)
    server = ScriptedServer(then(END), refused=throttled)
    async with following(server) as (reflector, _):
        await until(lambda: server.requests.count("look") == 5)
        server.refused = None
        await until(lambda: reflector.status().loads)
        assert server.requests == ["watch-list", *["look"] * 6]


async def test_an_empty_watch_list_is_believed_in_the_end_where_lists_alone_are_throttled() -> None:
    throttled = status_error_class(429)(status=429, retry_after_seconds=0.01)
    server = ScriptedServer(then(END), refused=throttled)
    async with following(server) as (reflector, sink):
        await until(lambda: reflector.status().loads)
        assert server.requests == ["watch-list", *["look"] * 11]
        assert not sink.versions()


async def test_an_object_that_is_created_meanwhile_does_not_spoil_watch_lists() -> None:
    memory = WatchListMemory()
    new = [json.decode(pod_bytes("new", "101", "new"))]
    async with following(ScriptedServer(then(END), new, "102"), memory=memory) as (reflector, sink):
        await until(lambda: reflector.status().loads)
        assert sorted(sink.versions()) == ["new"]
    again = ScriptedServer(then(ADDED + END), PODS)
    async with following(again, memory=memory) as (reflector, _):
        await until(lambda: reflector.status().loads)
        assert again.requests[0] == "watch-list"


def expiring(*loads: bytes) -> Callable[[], Pieces]:
    """Return watch-lists that end with `410 Gone`, one after the other."""
    left = list(loads)

    async def stream() -> Pieces:
        yield left.pop(0)
        if not left:
            async for piece in silence():
                yield piece
        yield b'{"type":"ERROR","object":%s}\n' % status_bytes(410, "Expired")

    return stream


async def test_a_running_informer_deletes_nothing_for_an_empty_watch_list() -> None:
    server = ScriptedServer(expiring(ADDED + END, END), PODS)
    async with following(server) as (reflector, sink):
        await until(lambda: reflector.status().loads > 1)
        assert sorted(sink.versions()) == NAMES
        assert all(len(history) == 1 for history in sink.history.values())


async def test_a_running_informer_deletes_what_a_list_lacks_as_well() -> None:
    server = ScriptedServer(expiring(ADDED + END, END))
    async with following(server) as (reflector, sink):
        await until(lambda: reflector.status().loads > 1)
        assert not sink.versions()
        assert "list" in server.requests  # confirmed as any list that lacks everything


async def test_a_list_that_lacks_the_few_objects_of_a_cache_is_confirmed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A proxy answers one list of nothing."""
    server = ScriptedServer(then(), PODS)
    async with following(server, options=ReflectorOptions(use_watch_list=False)) as (one, sink):
        await until(lambda: one.status().loads)
        server.answers_nothing = 1
        one.request_relist("a test")
        await until(lambda: one.status().loads > 1)
        assert sorted(sink.versions()) == NAMES
        assert all(len(history) == 1 for history in sink.history.values())
        server.pods = []
        caplog.clear()
        one.request_relist("a test")
        await until(lambda: one.status().loads > 2)
        assert not sink.versions()
        assert not [record for record in caplog.records if record.levelname == "ERROR"]
