"""WatchResponse without a socket: the same body from bytes that are cut anywhere."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.client.transport.http._watch_response import WatchResponse
from pyinformer.errors import ProtocolError, TransportError
from tests.client.transport.serving import CHUNKED, chunk

if TYPE_CHECKING:
    from collections.abc import Callable


class Wires(asyncio.Transport):
    """A transport that sends nothing, and records the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False
        self.is_paused = False

    def abort(self) -> None:
        """Record the call."""
        self.is_aborted = True

    def pause_reading(self) -> None:
        """Record the call."""
        self.is_paused = True

    def resume_reading(self) -> None:
        """Record the call."""
        self.is_paused = False


class Reader:
    """A response and its reader; each piece takes a given time."""

    def __init__(self, *, piece_seconds: float = 0.0) -> None:
        self.now, self.piece_seconds = 0.0, piece_seconds
        self.response = WatchResponse("http://a/b", lambda _: None, now=lambda: self.now)
        self.wires = Wires()
        self.response.connection_made(self.wires)
        self.taken: list[bytes] = []
        self.turns = 0
        self.goes_on = True

    def take(self, data: bytes | bytearray, start: int, stop: int) -> None:
        self.now += self.piece_seconds
        self.taken.append(bytes(data[start:stop]))

    def on_turn(self) -> bool:
        self.turns += 1
        return self.goes_on

    async def deliver(self) -> None:
        await self.response.deliver(self.take, self.on_turn)

    def arrive(self, data: bytes) -> None:
        """Receive bytes, as many at a time as there is room for."""
        while data:
            data = self.read_once(data)

    def read_once(self, data: bytes) -> bytes:
        """Receive as much as there is room for, and return the rest."""
        if data:
            room = self.response.get_buffer(-1)
            assert len(room)
            size = min(len(room), len(data))
            room[:size] = data[:size]
            self.response.buffer_updated(size)
            data = data[size:]
        return data


async def reading(reader: Reader) -> asyncio.Task[None]:
    task = asyncio.ensure_future(reader.deliver())
    await asyncio.sleep(0)
    return task


async def test_a_reader_that_closes_the_response_gets_what_had_arrived_and_its_end() -> None:
    reader = Reader()
    take = reader.take

    def close(data: bytes | bytearray, start: int, stop: int) -> None:
        take(data, start, stop)
        reader.response.close()

    reader.take = close  # type: ignore[method-assign]
    task = await reading(reader)
    reader.arrive(CHUNKED + chunk(b"one") + chunk(b"two") + b"5\r\nab")

    with pytest.raises(TransportError, match="the client closed it"):
        await task
    assert reader.taken == [b"one", b"two"]


_FRAMES: dict[str, Callable[[bytes], bytes]] = {
    "usual": chunk,
    "upper-case": lambda content: b"%X\r\n%s\r\n" % (len(content), content),
    "zeros": lambda content: b"00%x\r\n%s\r\n" % (len(content), content),
    "extension": lambda content: b"%x;a=b\r\n%s\r\n" % (len(content), content),
}


@pytest.mark.covers("apimachinery pkg/watch: TestStreamWatcher")
@given(
    parts=st.lists(
        st.tuples(st.sampled_from(["usual"] * 6 + [*_FRAMES]), st.binary(min_size=1, max_size=50)),
        max_size=8,
    ),
    end=st.sampled_from([b"0\r\n\r\n", b"0\r\nX-Trailer: 1\r\n\r\n", b"000\r\n\r\n"]),
    cuts=st.lists(st.integers(0, 600), max_size=12),
    read_by=st.sampled_from(["deliver", "pieces"]),
)
def test_the_body_is_the_same_however_it_is_framed_and_cut(
    parts: list[tuple[str, bytes]], end: bytes, cuts: list[int], read_by: str
) -> None:
    data = CHUNKED + b"".join(_FRAMES[frame](content) for frame, content in parts) + end
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})

    async def run() -> bytes:
        reader = Reader()
        task = await reading(reader) if read_by == "deliver" else None
        for first, last in itertools.pairwise(places):
            reader.arrive(data[first:last])
        if task is not None:
            await task
        while arrived := await reader.response.read():
            reader.taken.append(arrived)
        return b"".join(reader.taken)

    assert asyncio.run(run()) == b"".join(content for _, content in parts)


@pytest.mark.parametrize(
    "strange",
    [b"zz\r\n", b"-1\r\nx\r\n", b"0x1\r\nx\r\n", b"1_0\r\n", b"1\r\nxx\r\n", b"+1\r\nx\r\n"],
)
async def test_a_malformed_chunk_is_an_error_behind_the_good_ones(strange: bytes) -> None:
    reader = Reader()
    task = await reading(reader)
    reader.arrive(CHUNKED + chunk(b"good\n") + strange.ljust(12, b"#"))

    with pytest.raises(ProtocolError, match="the answer is not HTTP"):
        await task
    assert b"".join(reader.taken).startswith(b"good\n")
    assert reader.wires.is_aborted


@pytest.mark.covers("apimachinery pkg/watch: TestStreamWatcher")
async def test_a_partial_chunk_is_delivered_before_the_error() -> None:
    reader = Reader()
    task = await reading(reader)
    reader.arrive(CHUNKED + chunk(b"good\n") + b"6\r\nha")
    assert reader.taken == [b"good\n"]
    reader.response.connection_lost(None)

    with pytest.raises(TransportError, match="the connection was lost"):
        await task
    assert reader.taken == [b"good\n", b"ha"]


async def test_the_readers_own_error_ends_the_reading_and_the_connection() -> None:
    reader = Reader()

    def refuse(data: bytes | bytearray, start: int, stop: int) -> None:
        reader.take(data, start, stop)
        raise LookupError("not mine")

    task = asyncio.ensure_future(reader.response.deliver(refuse, reader.on_turn))
    await asyncio.sleep(0)
    reader.arrive(CHUNKED + chunk(b"one\n") + chunk(b"two\n"))

    with pytest.raises(LookupError, match="not mine"):
        await task
    assert reader.taken == [b"one\n"]
    assert reader.wires.is_aborted
    with pytest.raises(TransportError, match="the client closed it"):
        await reader.response.read()


async def test_a_reader_that_stops_leaves_the_rest_to_the_next() -> None:
    reader = Reader()
    task = await reading(reader)
    reader.goes_on = False
    reader.arrive(CHUNKED + chunk(b"one\n") + chunk(b"two\n") + b"6\r\nth")
    await task
    assert reader.taken == [b"one\n", b"two\n"]  # all that arrived together

    reader.arrive(b"ree\n\r\n" + chunk(b"four\n"))
    assert reader.taken == [b"one\n", b"two\n"]
    assert await reader.response.read() == b"three\nfour\n"


async def test_a_cancelled_delivery_takes_nothing_more() -> None:
    reader = Reader()
    task = await reading(reader)
    reader.arrive(CHUNKED + chunk(b"one\n"))
    task.cancel()
    await asyncio.wait({task})
    reader.arrive(chunk(b"two\n"))

    assert reader.taken == [b"one\n"]
    again = await reading(reader)
    assert reader.taken == [b"one\n", b"two\n"]
    again.cancel()
    await asyncio.wait({again})


async def test_a_loop_turn_ends_when_all_buffered_bytes_were_taken() -> None:
    reader = Reader()
    task = await reading(reader)
    assert reader.turns == 0
    reader.arrive(CHUNKED + chunk(b"one\n") + chunk(b"two\n"))
    reader.arrive(chunk(b"three\n"))
    assert reader.turns == 2
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize("cut", range(1, len(CHUNKED)))
async def test_a_head_is_read_wherever_it_was_cut(cut: int) -> None:
    reader = Reader()
    data = CHUNKED + chunk(b"one\n")
    reader.arrive(data[:cut])
    reader.arrive(data[cut:])
    await reader.response.head()

    assert reader.response.status == 200
    assert await reader.response.read() == b"one\n"


async def test_informational_answers_are_not_read_without_end() -> None:
    reader = Reader()
    reader.arrive(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 16 + CHUNKED)
    await reader.response.head()
    assert reader.response.status == 200

    flooded = Reader()
    flooded.arrive(b"HTTP/1.1 100 Continue\r\n\r\n" * 17)
    with pytest.raises(ProtocolError, match="over 16 informational answers"):
        await flooded.response.head()
    assert flooded.wires.is_aborted


async def test_waiting_for_a_head_can_be_cancelled_while_bytes_arrive() -> None:
    """A cancel scope does not cancel a task whose wait has just ended; here every wait has."""
    reader, loop, turns = Reader(), asyncio.get_running_loop(), 0

    def arrive() -> None:
        nonlocal turns
        turns += 1
        reader.arrive(b"HTTP/1.1 200 OK\r\nX: " if turns == 1 else b"a")
        if turns < 1000:
            loop.call_soon(arrive)

    async with anyio.create_task_group() as group:
        group.start_soon(reader.response.head)
        await anyio.lowlevel.checkpoint()
        arrive()
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert turns < 100
    reader.response.close()


async def test_a_long_chunk_gets_room_and_small_reads_give_it_back() -> None:
    reader = Reader()
    task = await reading(reader)
    at_first = len(reader.response.get_buffer(-1))
    reader.arrive(CHUNKED + chunk(b"x" * 300_000) + chunk(b"y"))
    assert reader.taken == [b"x" * 300_000, b"y"]
    assert len(reader.response.get_buffer(-1)) > 300_000
    for _ in range(100):
        reader.arrive(chunk(b"z"))

    assert len(reader.response.get_buffer(-1)) == at_first
    task.cancel()
    await asyncio.wait({task})


async def test_a_chunk_beyond_every_buffer_comes_in_parts() -> None:
    reader = Reader()
    task = await reading(reader)
    reader.arrive(CHUNKED + chunk(b"x" * 3_000_000) + chunk(b"y") + chunk(b""))
    await task

    assert b"".join(reader.taken) == b"x" * 3_000_000 + b"y"


async def test_without_a_reader_the_socket_is_paused_until_it_is_read() -> None:
    reader = Reader()
    reader.arrive(CHUNKED + chunk(b"one\n"))
    room = len(reader.response.get_buffer(-1))
    reader.arrive(chunk(b"x" * (room - 8))[:room])
    assert reader.wires.is_paused

    task = await reading(reader)
    assert not reader.wires.is_paused
    assert reader.taken[0] == b"one\n"
    task.cancel()
    await asyncio.wait({task})


async def test_a_buffer_grows_only_while_a_full_one_is_a_short_turn() -> None:
    events = chunk(b"x" * 1_000) * 2_000
    quick, slow = Reader(piece_seconds=0.000_002), Reader(piece_seconds=0.000_200)
    room: dict[Reader, int] = {}
    for reader in (quick, slow):
        task = await reading(reader)
        reader.arrive(CHUNKED + events)
        room[reader] = len(reader.response.get_buffer(-1))
        task.cancel()
        assert len(reader.taken) == 2_000

    assert room[quick] > 256 << 10
    assert room[slow] <= 64 << 10


async def test_a_buffer_that_became_a_long_turn_shrinks() -> None:
    reader = Reader(piece_seconds=0.000_002)
    task = await reading(reader)
    reader.arrive(CHUNKED + chunk(b"x" * 1_000) * 2_000)
    reader.piece_seconds = 0.001
    reader.arrive(chunk(b"x" * 1_000) * 2_000)

    assert len(reader.response.get_buffer(-1)) <= 64 << 10
    task.cancel()


async def test_a_buffer_that_shrinks_keeps_room_behind_an_incomplete_chunk() -> None:
    """A long turn shrinks a full buffer, although most of it is the beginning of a large object."""
    reader = Reader(piece_seconds=0.001)
    task = await reading(reader)
    reader.arrive(CHUNKED + chunk(b"x" * 300_000))  # it grows

    reader.arrive(chunk(b"y" * 1_000) * 60 + chunk(b"z" * 480_000))

    assert [len(piece) for piece in reader.taken] == [300_000, *[1_000] * 60, 480_000]
    task.cancel()
    await asyncio.wait({task})


async def test_small_reads_of_a_long_chunk_keep_room_behind_it() -> None:
    """Over a slow network, a large object comes in many small reads."""
    reader = Reader()
    task = await reading(reader)
    reader.arrive(CHUNKED)
    data = chunk(b"x" * 200_000)
    for place in range(0, len(data), 1_400):
        reader.arrive(data[place : place + 1_400])

    assert reader.taken == [b"x" * 200_000]
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize("piece_seconds", [0.000_010, 0.000_200, 0.001])
async def test_a_loop_that_reads_on_gives_others_their_turn(piece_seconds: float) -> None:
    """As libuv: it reads again as long as the buffer gets full, and runs nothing else meanwhile."""
    reader = Reader(piece_seconds=piece_seconds)
    task = await reading(reader)
    rest, turns = CHUNKED + chunk(b"x" * 1_000) * 5_000, list[float]()
    while rest:
        began = reader.now
        while rest and not reader.wires.is_paused:
            rest = reader.read_once(rest)
        turns.append(reader.now - began)
        await asyncio.sleep(0)
        assert not reader.wires.is_paused, "the next turn reads on"

    assert len(reader.taken) == 5_000
    a_buffer = 64 * piece_seconds  # the content of the smallest buffer is processed as a whole
    assert max(turns[1:]) <= 0.010 + a_buffer, "the first turn shows that the loop reads on"
    task.cancel()
    await asyncio.wait({task})


async def test_a_loop_that_reads_once_in_a_turn_is_never_paused() -> None:
    reader = Reader(piece_seconds=0.001)
    task = await reading(reader)
    rest = CHUNKED + chunk(b"x" * 1_000) * 1_000
    while rest:
        rest = reader.read_once(rest)
        assert not reader.wires.is_paused
        await asyncio.sleep(0)

    assert len(reader.taken) == 1_000
    task.cancel()
    await asyncio.wait({task})


class Panic(BaseException):
    """A BaseException, such as a panic of an extension or a stray cancellation."""


@pytest.mark.parametrize("error", [Panic, asyncio.CancelledError])
async def test_an_exception_of_the_reader_ends_the_reading_and_nothing_is_repeated(
    error: type[BaseException],
) -> None:
    reader = Reader()

    def take(data: bytes | bytearray, start: int, stop: int) -> None:
        reader.take(data, start, stop)
        if len(reader.taken) == 2:
            raise error

    async def deliver() -> None:
        with pytest.raises(error):
            await reader.response.deliver(take, reader.on_turn)

    task = asyncio.ensure_future(deliver())
    await asyncio.sleep(0)
    reader.arrive(CHUNKED + chunk(b"1") + chunk(b"2") + chunk(b"3"))
    reader.response.connection_lost(None)
    await task

    assert reader.taken == [b"1", b"2"]
    assert reader.wires.is_aborted


async def test_bytes_after_the_end_of_a_response_are_dropped() -> None:
    reader = Reader()
    task = await reading(reader)
    other = b"HTTP/1.1 500 Oops\r\nContent-Length: 5\r\n\r\nwrong"
    reader.arrive(CHUNKED + chunk(b"right") + chunk(b"") + other)
    await task

    assert reader.taken == [b"right"]
    assert reader.response.status == 200
    assert await reader.response.read() == b""


async def test_a_transport_of_any_class_is_used() -> None:
    """Transports of uvloop do not derive from asyncio.Transport."""

    class Foreign(asyncio.BaseTransport):
        def __init__(self) -> None:
            super().__init__()
            self.sent = b""

        def write(self, data: bytes) -> None:
            self.sent += data

    foreign = Foreign()
    response = WatchResponse("http://a/b", lambda _: None)
    response.connection_made(foreign)
    response.send(b"GET / HTTP/1.1")

    assert foreign.sent == b"GET / HTTP/1.1"
