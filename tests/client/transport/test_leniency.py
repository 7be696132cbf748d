"""Servers with unusual HTTP framing: what can be listed can be watched as well.

aiohttp reads lists and WatchResponse reads watches, so each shape of a response is read by both,
and by aiohttp as a watch, with the same outcome.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import zlib
from typing import TYPE_CHECKING, Literal

import pytest

from pyinformer.errors import InformerError, ProtocolError
from tests.client.transport.serving import CHUNKED, always, chunk, connected, serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.client.transport.serving import Request

EVENTS = [b"one event\n", b"another event\n", b"x" * 70_000 + b"\n"]
LF_HEAD = CHUNKED.replace(b"\r\n", b"\n")
OTHER_HEAD = CHUNKED[:-2]
END = chunk(b"")
WAYS = [
    pytest.param("direct", True, id="watch"),
    pytest.param("aiohttp", True, id="watch-by-aiohttp"),
    pytest.param("direct", False, id="list"),
]


def with_header(header: bytes) -> bytes:
    return OTHER_HEAD + header + b"\r\n\r\n"


def bare_size(data: bytes) -> bytes:
    return b"%x\n%s\r\n" % (len(data), data)


def bare_end(data: bytes) -> bytes:
    return b"%x\r\n%s\n" % (len(data), data)


def spaced_size(data: bytes) -> bytes:
    return b"%x \r\n%s\r\n" % (len(data), data)


async def read(url: str, client: Literal["direct", "aiohttp"], *, watch: bool) -> bytes:
    """Read a response to its end, or raise its error."""
    received = b""
    async with (
        connected(url, http_client=client) as connection,
        connection.stream("/a", watch=watch) as body,
    ):
        while data := await body.read():
            received += data
    return received


@pytest.mark.parametrize(("client", "watch"), WAYS)
@pytest.mark.parametrize(
    ("head", "frame"),
    [
        pytest.param(LF_HEAD, chunk, id="head-with-line-feeds-alone"),
        pytest.param(CHUNKED.replace(b"\r\n", b"\n", 1), chunk, id="head-with-both-line-ends"),
        pytest.param(with_header(b"X-Long: a\r\n  b\r\n\tc"), chunk, id="folded-header"),
        pytest.param(
            CHUNKED.replace(b"Encoding: ", b"Encoding:\r\n "), chunk, id="folded-transfer-encoding"
        ),
        pytest.param(CHUNKED, bare_end, id="chunk-that-ends-with-a-line-feed-alone"),
        pytest.param(CHUNKED, spaced_size, id="space-behind-the-size-of-a-chunk"),
        pytest.param(LF_HEAD, bare_end, id="line-feeds-alone-in-head-and-chunks"),
    ],
)
async def test_unusual_but_clear_http_is_read_in_lists_and_watches(
    head: bytes,
    frame: Callable[[bytes], bytes],
    client: Literal["direct", "aiohttp"],
    watch: bool,
) -> None:
    answer = head + b"".join(map(frame, EVENTS)) + END
    async with serving(always(answer)) as server:
        assert await read(server.url, client, watch=watch) == b"".join(EVENTS)


@pytest.mark.parametrize(("client", "watch"), WAYS)
@pytest.mark.parametrize(
    ("head", "frame", "words"),
    [
        pytest.param(CHUNKED, bare_size, "after chunk size", id="line-feed-behind-a-chunk-size"),
        pytest.param(
            with_header(b"Content-Length: 4"), chunk, "Content-Length", id="two-lengths-of-a-body"
        ),
        pytest.param(with_header(b"no colon"), chunk, "header token", id="header-without-a-colon"),
        pytest.param(
            CHUNKED.replace(b"\r\n", b"\r"), chunk, "Expected LF", id="carriage-returns-alone"
        ),
    ],
)
async def test_ambiguous_http_is_refused_in_lists_and_watches(
    head: bytes,
    frame: Callable[[bytes], bytes],
    words: str,
    client: Literal["direct", "aiohttp"],
    watch: bool,
) -> None:
    answer = head + b"".join(map(frame, EVENTS)) + END
    async with serving(always(answer)) as server:
        with pytest.raises(ProtocolError, match=f"the answer is not HTTP: .*{words}"):
            await read(server.url, client, watch=watch)


async def test_a_chunk_that_ends_with_a_line_feed_alone_is_not_held_back() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + bare_end(EVENTS[0]))
        await asyncio.Event().wait()

    async with (
        serving(answer) as server,
        connected(server.url) as connection,
        connection.stream("/a", watch=True) as body,
        asyncio.timeout(100),
    ):
        assert await body.read() == EVENTS[0]


def flushed(events: list[bytes]) -> list[bytes]:
    """Compress events into one stream, and flush after each."""
    compressor = zlib.compressobj(wbits=31)
    return [compressor.compress(one) + compressor.flush(zlib.Z_SYNC_FLUSH) for one in events]


def one_by_one(events: list[bytes]) -> list[bytes]:
    return [gzip.compress(one) for one in events]


@pytest.mark.parametrize(("client", "watch"), WAYS)
@pytest.mark.parametrize("compress", [flushed, one_by_one])
async def test_a_watch_compressed_without_request_is_read_event_by_event(
    compress: Callable[[list[bytes]], list[bytes]],
    client: Literal["direct", "aiohttp"],
    watch: bool,
) -> None:
    was_read = [asyncio.Event() for _ in EVENTS]

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(with_header(b"Content-Encoding: gzip"))
        for part, event in zip(compress(EVENTS), was_read, strict=True):
            writer.write(chunk(part))
            await event.wait()
        writer.write(END)

    async with (
        serving(answer) as server,
        connected(server.url, http_client=client) as connection,
        connection.stream("/a", watch=watch) as body,
        asyncio.timeout(100),
    ):
        received = b""
        for event, expected in zip(was_read, EVENTS, strict=True):
            wanted = len(received) + len(expected)
            while len(received) < wanted:
                received += await body.read()
            event.set()
        assert received == b"".join(EVENTS)


async def test_a_connection_remembers_that_watches_are_compressed_and_warns_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    body_of_all = chunk(gzip.compress(b"".join(EVENTS)))
    answer = with_header(b"Content-Encoding: gzip") + body_of_all + END
    async with serving(always(answer)) as server, connected(server.url) as connection:
        for _ in range(3):
            async with connection.stream("/a", watch=True) as body:
                assert await body.read()
        assert len(server.requests) == 4
        async with connection.stream("/b", watch=True) as body:
            assert await body.read()
        assert len(server.requests) == 6, "of another path nothing is known"

    warnings = [one for one in caplog.records if one.name == "pyinformer.client.transport"]
    assert [one.levelno for one in warnings] == [logging.WARNING]
    assert "Content-Encoding: gzip, which was not requested" in warnings[0].getMessage()


@pytest.mark.parametrize("encoding", [b"", b" ", b"Identity"])
async def test_a_header_that_names_no_compression_changes_nothing(
    encoding: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answer = with_header(b"Content-Encoding: " + encoding) + chunk(EVENTS[0]) + END
    async with serving(always(answer)) as server, connected(server.url) as connection:
        for _ in range(2):
            async with connection.stream("/a", watch=True) as body:
                assert await body.read() == EVENTS[0]
        assert len(server.requests) == 2
    assert not [one for one in caplog.records if one.name == "pyinformer.client.transport"]


@pytest.mark.parametrize(("client", "watch"), WAYS)
@pytest.mark.parametrize("encoding", [b"gzip", b"br"])
async def test_a_body_that_cannot_be_decompressed_is_an_error_that_names_the_encoding(
    encoding: bytes, client: Literal["direct", "aiohttp"], watch: bool
) -> None:
    answer = with_header(b"Content-Encoding: " + encoding) + chunk(EVENTS[0]) + END
    async with serving(always(answer)) as server:
        words = "(?s)content-encoding: (gzip|brotli)"
        with pytest.raises(InformerError, match=words):
            await read(server.url, client, watch=watch)
