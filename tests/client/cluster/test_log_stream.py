"""A log as a stream of lines: bounded whatever the server sends, and never silently incomplete."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyinformer
from pyinformer.errors import (
    APIStatusError,
    ForbiddenError,
    InvalidArgumentError,
    LifecycleError,
    RequestTimeoutError,
    TransportError,
)
from tests.client.transport.serving import (
    CHUNKED,
    Request,
    Server,
    always,
    chunk,
    cluster_with,
    response,
    serving,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer import Cluster
    from tests.client.transport.serving import Answer

_LIMIT = 8


@asynccontextmanager
async def logging(answer: Answer, **timeouts: float) -> AsyncIterator[tuple[Cluster, Server]]:
    """Run a server with a log, and connect to it."""
    async with (
        serving(answer) as server,
        cluster_with(server.url, **timeouts) as cluster,
    ):
        yield cluster, server


def text(*pieces: bytes, ends: bool = True) -> Answer:
    """Send a log in chunks; without an end, keep the connection open."""

    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED.replace(b"application/json", b"text/plain"))
        for piece in pieces:
            writer.write(chunk(piece))
        if ends:
            writer.write(chunk(b""))
        else:
            await writer.drain()
            await asyncio.Event().wait()

    return answer


@dataclass
class Log:
    """What was read of a log."""

    lines: list[str]
    line_count: int
    cut_count: int


async def read(*pieces: bytes) -> Log:
    """Read a log that arrives in pieces."""
    async with (
        logging(text(*filter(None, pieces))) as (cluster, _),
        cluster.logs("shop/web", max_line_bytes=_LIMIT) as lines,
    ):
        found = [line async for line in lines]
        return Log(found, lines.line_count, lines.cut_line_count)


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        pytest.param(b"", [], id="empty"),
        pytest.param(b"a\n\nb\n", ["a", "", "b"], id="an-empty-line"),
        pytest.param(b"a\nb", ["a", "b"], id="no-last-line-end"),
        pytest.param(b"a\r\nb\rc\n", ["a", "b\rc"], id="of-a-terminal"),
        pytest.param(b"\xff\xe4\xc3\xa4\n", ["\ufffd\ufffdä"], id="not-utf-8"),
        pytest.param(b"12345678\n1\n", ["12345678", "1"], id="as-long-as-allowed"),
        pytest.param(b"123456789\n1\n", ["12345678 [cut at 8 bytes]", "1"], id="too-long"),
        pytest.param(b"x" * 99, ["xxxxxxxx [cut at 8 bytes]"], id="endless"),
        pytest.param(b"a\x00b\n", ["a\x00b"], id="a-null-byte"),
        pytest.param(b"42\nnull\n[]\n{}\n", ["42", "null", "[]", "{}"], id="like-json"),
    ],
)
async def test_a_log_is_split_into_lines(log: bytes, lines: list[str]) -> None:
    assert (await read(log)).lines == lines
    assert (await read(*(log[place : place + 1] for place in range(len(log))))).lines == lines


@given(st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"x", b"\n"))))
async def test_neither_the_pieces_nor_the_lengths_of_lines_change_what_is_kept(
    pieces: list[bytes],
) -> None:
    found = await read(*filter(None, pieces))
    log = b"".join(pieces)
    assert found == await read(log)
    expected = log.count(b"\n") + bool(log.rpartition(b"\n")[2])
    assert len(found.lines) == found.line_count == expected
    assert found.cut_count == sum(len(line) > _LIMIT for line in log.split(b"\n"))


async def test_the_rest_of_a_line_that_is_cut_takes_no_memory() -> None:
    piece = b"x" * 65_536

    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED.replace(b"application/json", b"text/plain"))
        for _number in range(256):
            writer.write(chunk(piece))
            await writer.drain()
        writer.write(chunk(b""))

    async with logging(answer) as (cluster, _):
        tracemalloc.start()
        try:
            async with cluster.logs("shop/web", max_line_bytes=_LIMIT) as lines:
                assert [line async for line in lines] == ["xxxxxxxx [cut at 8 bytes]"]
            assert tracemalloc.get_traced_memory()[1] < 64 * len(piece)
        finally:
            tracemalloc.stop()


@pytest.mark.covers("kube-client src: log_path", "client-go rest: TestRequestWatch")
@pytest.mark.parametrize("follow", [False, True])
async def test_the_options_become_the_query_and_the_stream_ends_with_the_log(
    *, follow: bool
) -> None:
    async with logging(text(b"a\n", b"b\n")) as (cluster, server):
        async with cluster.logs(
            "shop/web",
            container="main",
            follow=follow,
            previous=True,
            since_seconds=1.5,
            timestamps=True,
            tail_lines=0,
            limit_bytes=9,
        ) as lines:
            assert [line async for line in lines] == ["a", "b"]
            assert lines.line_count == 2
            assert await lines.next_lines() == []
        assert server.requests[0].target == (
            "/api/v1/namespaces/shop/pods/web/log?container=main"
            + ("&follow=true" if follow else "")
            + "&previous=true&timestamps=true&sinceSeconds=2&tailLines=0&limitBytes=9"
        )


async def test_a_time_is_sent_in_utc() -> None:
    async with logging(text()) as (cluster, server):
        moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        async with cluster.logs("shop/web", since_time=moment) as lines:
            assert [line async for line in lines] == []
    assert server.requests[0].target.endswith("sinceTime=2026-01-02T03%3A04%3A05.000000Z")


async def test_an_endless_line_is_cut_and_ends_when_the_stream_is_left() -> None:
    async with logging(text(*[b"x" * 65_536] * 64, ends=False)) as (cluster, server):
        async with cluster.logs("shop/web", follow=True, max_line_bytes=10) as lines:
            assert await anext(lines) == "xxxxxxxxxx [cut at 10 bytes]"
            assert lines.cut_line_count == 1
        await server.wait_until(lambda: server.open_connections == 0)
        with pytest.raises(LifecycleError, match="closed"):
            await anext(lines)


async def test_a_server_waits_for_a_slow_reader() -> None:
    sent = 0
    stalled = asyncio.Event()

    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(CHUNKED)
        while True:
            writer.write(chunk(b"%s\n" % (b"x" * 999) * 100))
            sent += 1
            drained = asyncio.ensure_future(writer.drain())
            await asyncio.wait([drained], timeout=0.5)
            if not drained.done():
                stalled.set()
            await drained

    async with (
        logging(answer) as (cluster, _),
        cluster.logs("shop/web", follow=True) as lines,
    ):
        assert await anext(lines) == "x" * 999
        async with asyncio.timeout(100):
            await stalled.wait()
        before = sent
        while sent <= before + 10:  # and continues when lines are read
            assert await lines.next_lines()
        assert len(await lines.next_lines()) < 5_000


@pytest.mark.parametrize("follow", [False, True])
async def test_a_lost_connection_is_an_error_that_counts_the_lines(*, follow: bool) -> None:
    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"one\ntwo\nthr"))
        await writer.drain()
        writer.close()

    async with (
        logging(answer) as (cluster, _),
        cluster.logs("shop/web", follow=follow) as lines,
    ):
        found: list[str] = []
        with pytest.raises(TransportError, match="lines of the log were read") as caught:
            found.extend([line async for line in lines])
        assert f"; {lines.line_count} lines of the log" in str(caught.value)
        if follow:  # aiohttp drops what has arrived when a connection is lost
            assert lines.line_count == 2
            assert "3 bytes of a line that has not ended" in str(caught.value)
        with pytest.raises(TransportError):  # and the next call does not look like the end
            await anext(lines)


async def test_a_silent_log_is_an_error_unless_it_is_followed() -> None:
    async with logging(text(b"one\n", ends=False), idle_seconds=0.05) as (cluster, _):
        async with cluster.logs("shop/web") as lines:
            with pytest.raises(RequestTimeoutError) as caught:
                assert [line async for line in lines] == []
            assert f"; {lines.line_count} lines of the log" in str(caught.value)
            assert caught.value.waited_seconds == 0.05
        async with cluster.logs("shop/web", follow=True) as lines:
            assert await anext(lines) == "one"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(lines), 0.2)


async def test_a_cancelled_reader_loses_no_line() -> None:
    release = asyncio.Event()

    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"one\ntw"))
        await release.wait()
        writer.write(chunk(b"o\n") + chunk(b""))

    async with (
        logging(answer) as (cluster, _),
        cluster.logs("shop/web", follow=True) as lines,
    ):
        assert await anext(lines) == "one"
        waiting = asyncio.ensure_future(lines.next_lines())
        for _ in range(5):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        release.set()
        assert [line async for line in lines] == ["two"]


async def test_a_stream_that_is_cancelled_while_it_opens_leaves_no_connection() -> None:
    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with logging(answer) as (cluster, server):
        opening = asyncio.ensure_future(cluster.logs("shop/web", follow=True).__aenter__())
        await server.wait_until(lambda: len(server.requests) == 1)
        opening.cancel()
        await asyncio.wait([opening])
        assert opening.cancelled()
        await server.wait_until(lambda: server.open_connections == 0)


async def test_a_flood_of_lines_leaves_other_tasks_their_turns() -> None:
    async with logging(text(*[b"\n" * 50_000] * 2)) as (cluster, _):
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        async with cluster.logs("shop/web") as lines:
            assert len([line async for line in lines]) == 100_000
        counting.cancel()
        await asyncio.wait([counting])
        assert turns > 8


async def test_two_tasks_share_a_log() -> None:
    async with (
        logging(text(*[b"%d\n" % number for number in range(100)])) as (cluster, _),
        cluster.logs("shop/web") as lines,
    ):
        taken: list[str] = []

        async def take() -> None:
            taken.extend([line async for line in lines])

        await asyncio.gather(take(), take())
    assert sorted(map(int, taken)) == list(range(100))


async def test_a_stream_is_entered_once_and_before_it_is_read() -> None:
    async with logging(text(b"a\n")) as (cluster, _):
        lines = cluster.logs("shop/web")
        with pytest.raises(LifecycleError, match="enter the stream first"):
            await anext(lines)
        async with lines:
            pass
        await lines.aclose()
        with pytest.raises(LifecycleError, match="call logs"):
            await lines.__aenter__()


@pytest.mark.covers("client-go rest: TestRequestWatch")
async def test_a_busy_server_is_waited_for_and_a_refusal_names_the_right() -> None:
    busy = [response(b"", status=429, headers={"Retry-After": "0"}), response(b"a\n")]

    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(busy.pop(0))

    async with (
        logging(answer) as (cluster, _),
        cluster.logs("shop/web") as lines,
    ):
        assert [line async for line in lines] == ["a"]
    async with logging(always(response(b'{"kind":"Status"}', status=403))) as (cluster, _):
        with pytest.raises(ForbiddenError, match=r'"get" is missing.*pods/log'):
            await cluster.logs("shop/web", follow=True).__aenter__()
    async with logging(always(response(b"<html>", status=502))) as (cluster, _):
        with pytest.raises(APIStatusError):
            await cluster.logs("shop/web").__aenter__()


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("since_seconds", {"since_seconds": 0.0}),
        ("since_time", {"since_time": datetime(2026, 1, 1)}),  # noqa: DTZ001 - what is refused
        ("since_time", {"since_seconds": 1.0, "since_time": datetime(2026, 1, 1, tzinfo=UTC)}),
        ("since_time", {"since_time": "2026-01-01T00:00:00Z"}),
        ("tail_lines", {"tail_lines": -1}),
        ("limit_bytes", {"limit_bytes": 0}),
        ("max_line_bytes", {"max_line_bytes": 0}),
    ],
)
async def test_malformed_options_are_refused(argument: str, options: dict[str, object]) -> None:
    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises(InvalidArgumentError, match=argument):
            cluster.logs("shop/web", **options)  # type: ignore[arg-type]  # of any type
        with pytest.raises(InvalidArgumentError, match="namespace/name"):
            cluster.logs("web")
