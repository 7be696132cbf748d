"""WatchTransport on a real socket: when it reads, and that nothing is lost or reordered."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest
import trustme
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from hypothesis import given, settings
from hypothesis import strategies as st

from pyinformer.client.transport.http._watch_response import WatchResponse
from pyinformer.client.transport.http._watch_transport import RECEIVE_BYTES, WatchTransport
from pyinformer.errors import TransportError
from tests.client.transport.serving import CHUNKED, chunk
from tests.virtual_time import VirtualTimeLoop, elapse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SPACING: Final = 0.002
_AUTHORITY: Final = trustme.CA()


def _client_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    _AUTHORITY.configure_trust(context)
    return context


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _AUTHORITY.issue_cert("server").configure_cert(context)
    return context


_CLIENT, _SERVER = _client_context(), _server_context()


class Peer:
    """The server's end: it speaks TLS where it is asked to, and sends at once."""

    def __init__(
        self, sock: socket.socket, *, tls: bool, context: ssl.SSLContext = _SERVER
    ) -> None:
        self.sock = sock
        self.sock.setblocking(False)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = (
            context.wrap_bio(self._incoming, self._outgoing, server_side=True) if tls else None
        )

    async def shake_hands(self) -> None:
        while self.tls is not None:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                loop = asyncio.get_running_loop()
                self._incoming.write(await loop.sock_recv(self.sock, 65536))
            else:
                await self._flush()
                return

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def send(self, data: bytes) -> None:
        """Send bytes; under TLS each call is at least one record."""
        if self.tls is not None:
            self.tls.write(data)
            data = self._outgoing.read()
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def send_each(self, pieces: list[bytes]) -> None:
        """Send each piece as a record of its own, if there is TLS, and all at once."""
        if self.tls is not None:
            for piece in pieces:
                self.tls.write(piece)
            await self._flush()
        else:
            await self.send(b"".join(pieces))

    async def end_encryption(self) -> None:
        """Send the alert that ends the encrypted stream; the connection stays open."""
        assert self.tls is not None
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        await self._flush()

    async def received(self, size: int) -> bytes:
        """Wait for so many bytes from the client."""
        found = b""
        while len(found) < size:
            data = await asyncio.get_running_loop().sock_recv(self.sock, 1 << 20)
            assert data, "the client closed it"
            if self.tls is not None:
                self._incoming.write(data)
                data = self._decrypted()
            found += data
        return found

    def _decrypted(self) -> bytes:
        assert self.tls is not None
        found = b""
        while True:
            try:
                found += self.tls.read(1 << 20)
            except ssl.SSLWantReadError:
                return found


class Watch:
    """A response, its transport, and what a reader got of it in which iteration of the loop."""

    def __init__(self, sock: socket.socket, *, tls: bool) -> None:
        sock.setblocking(False)
        self.is_lost = False
        self.response = WatchResponse("http://a/b", self._on_closed)
        self.transport = WatchTransport(
            sock,
            self.response,
            memoryview(bytearray(RECEIVE_BYTES)),
            context=_CLIENT if tls else None,
            server_name="server" if tls else None,
        )
        self.turns: list[tuple[float, int]] = []
        self.body = bytearray()
        self._pieces = 0

    def _on_closed(self, _: WatchResponse) -> None:
        self.is_lost = True

    def take(self, data: bytes | bytearray, start: int, stop: int) -> None:
        self.body += data[start:stop]
        self._pieces += 1

    def on_turn(self) -> bool:
        if self._pieces:
            self.turns.append((asyncio.get_running_loop().time(), self._pieces))
        self._pieces = 0
        return True

    async def deliver(self, spacing_seconds: float) -> None:
        await self.response.deliver(self.take, self.on_turn, spacing_seconds=spacing_seconds)


@contextmanager
def _sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@contextmanager
def _tcp_sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as ours,
        listening.accept()[0] as theirs,
    ):
        yield ours, theirs


async def opened(ours: socket.socket, theirs: socket.socket, *, tls: bool) -> tuple[Watch, Peer]:
    """Connect both ends, and send the head of the response, long ago."""
    watch, peer = await connected(ours, theirs, tls=tls)
    await elapse(1)
    return watch, peer


async def connected(
    ours: socket.socket, theirs: socket.socket, *, tls: bool, context: ssl.SSLContext = _SERVER
) -> tuple[Watch, Peer]:
    """Connect both ends, and send the head of the response."""
    watch, peer = Watch(ours, tls=tls), Peer(theirs, tls=tls, context=context)
    async with asyncio.TaskGroup() as both:
        both.create_task(watch.transport.open())
        both.create_task(peer.shake_hands())
    await peer.send(CHUNKED)
    await watch.response.head()
    return watch, peer


def _start() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.virtual_time
async def test_no_event_of_an_idle_watch_is_delayed(tls: bool) -> None:
    with _sockets() as pair:
        watch, peer = await opened(*pair, tls=tls)
        reader = asyncio.ensure_future(watch.deliver(_SPACING))
        sent = []
        for _ in range(20):
            await elapse(1.25 * _SPACING)
            await peer.send(chunk(b"event"))
            sent.append((_start(), 1))
        await elapse(1)
        watch.transport.abort()
        await asyncio.wait([reader])
    assert watch.turns == sent


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.virtual_time
async def test_events_of_a_busy_watch_are_read_together_and_in_time(tls: bool) -> None:
    with _sockets() as pair:
        watch, peer = await opened(*pair, tls=tls)
        reader = asyncio.ensure_future(watch.deliver(_SPACING))
        began = _start()
        for _ in range(16):  # every quarter of the spacing
            await peer.send(chunk(b"event"))
            await elapse(_SPACING / 4)
        await elapse(1)
        busy, watch.turns = watch.turns, []
        await peer.send(chunk(b"later"))
        again = _start()
        await elapse(1)
        watch.transport.abort()
        await asyncio.wait([reader])

    assert sum(count for _, count in busy) == 16
    assert len(busy) <= 2 + 16 // 4 + 1  # two events show that it is busy
    assert busy[:2] == [(began, 1), (began + _SPACING / 4, 1)]  # the second may be the last
    for number in range(16):
        sent_at = began + number * _SPACING / 4
        read_at = next(at for at, count in _sums(busy) if count > number)
        assert read_at - sent_at <= _SPACING * 1.01
    assert watch.turns == [(again, 1)]


def _sums(turns: list[tuple[float, int]]) -> Iterator[tuple[float, int]]:
    total = 0
    for at, count in turns:
        total += count
        yield at, total


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.virtual_time
async def test_without_a_spacing_each_event_is_read_as_it_arrives(tls: bool) -> None:
    with _sockets() as pair:
        watch, peer = await opened(*pair, tls=tls)
        reader = asyncio.ensure_future(watch.deliver(0.0))
        sent = []
        for _ in range(16):
            await peer.send(chunk(b"event"))
            sent.append((_start(), 1))
            await elapse(_SPACING / 4)
        watch.transport.abort()
        await asyncio.wait([reader])
    assert watch.turns == sent


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.virtual_time
async def test_a_server_that_waits_for_its_reader_never_waits_for_a_timer(tls: bool) -> None:
    """While a read brings much there is more behind it: 4 MiB take less than two spacings."""
    event, count = chunk(b"x" * 8_000), 524
    small = 4
    with _sockets() as pair:
        watch, peer = await opened(*pair, tls=tls)
        reader = asyncio.ensure_future(watch.deliver(_SPACING))
        for _ in range(small):
            await peer.send(chunk(b"event"))  # the watch is busy
            await elapse(_SPACING / 8)
        began = _start()
        await peer.send(event * count)
        while sum(count for _, count in watch.turns) < small + count:
            await elapse(_SPACING / 10)
        watch.transport.abort()
        await asyncio.wait([reader])
    assert watch.turns[-1][0] - began <= 2 * _SPACING


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.virtual_time
async def test_the_end_of_a_busy_watch_is_seen_after_its_last_event(tls: bool) -> None:
    with _sockets() as pair:
        watch, peer = await opened(*pair, tls=tls)
        reader = asyncio.ensure_future(watch.deliver(_SPACING))
        for _ in range(4):
            await peer.send(chunk(b"event"))
            await elapse(_SPACING / 4)
        await peer.send(chunk(b"last"))
        peer.sock.close()
        with pytest.raises(TransportError, match="the server closed it"):
            await reader
        await elapse(1)
        assert watch.is_lost
    assert watch.body == b"event" * 4 + b"last"


@pytest.mark.parametrize("spacing_seconds", [0.0, _SPACING])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.every_loop
async def test_a_reset_that_arrives_with_the_last_event_is_seen(
    tls: bool, spacing_seconds: float
) -> None:
    with _tcp_sockets() as (ours, theirs):
        watch, peer = await connected(ours, theirs, tls=tls)
        reader = asyncio.ensure_future(watch.deliver(spacing_seconds))
        await asyncio.sleep(0)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await peer.send(chunk(b"last"))  # the loop looks at no socket before the reset
        theirs.close()
        with pytest.raises(TransportError, match="reset by peer"):
            await asyncio.wait_for(reader, 60)
    assert watch.is_lost
    assert watch.body == b"last"


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.virtual_time
async def test_bytes_that_the_socket_does_not_take_at_once_are_sent_later(tls: bool) -> None:
    request = b"x" * (4 << 20)
    with _sockets() as pair:
        watch, peer = await opened(*pair, tls=tls)
        watch.response.send(request[:1000])
        watch.response.send(request[1000:])
        watch.response.send(b"end")
        assert await peer.received(len(request) + 3) == request + b"end"
        await elapse(1)
        assert not asyncio.get_running_loop().remove_writer(pair[0].fileno())
        watch.transport.abort()


@pytest.mark.virtual_time
async def test_an_abort_with_unsent_bytes_leaves_nothing_behind() -> None:
    with _sockets() as (ours, theirs):
        watch, _ = await opened(ours, theirs, tls=False)
        watch.response.send(b"x" * (4 << 20))
        number, loop = ours.fileno(), asyncio.get_running_loop()
        watch.transport.abort()
        assert not loop.remove_writer(number)
        assert not loop.remove_reader(number)
        await elapse(1)
        assert watch.is_lost
        assert ours.fileno() == -1
        watch.transport.write(b"more")  # of a closed connection: nothing happens


@pytest.mark.virtual_time
async def test_a_record_that_was_changed_on_the_way_ends_the_watch() -> None:
    with _sockets() as pair:
        watch, peer = await opened(*pair, tls=True)
        reader = asyncio.ensure_future(watch.deliver(_SPACING))
        await peer.send(chunk(b"event"))
        await elapse(1)
        peer.sock.send(b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(TransportError, match="the connection was lost"):
            await reader
    assert watch.body == b"event"


@pytest.mark.parametrize("count", [8, 9, 16, 24, 70])
@pytest.mark.parametrize("reads_early", [False, True], ids=["late", "early"])
@pytest.mark.virtual_time
async def test_what_fills_the_buffer_needs_no_further_bytes(count: int, reads_early: bool) -> None:
    """One read of the socket brings more than the response has room for, or ends in a record."""
    event = chunk(b"x" * 8_000)
    with _sockets() as pair:
        watch, peer = await opened(*pair, tls=True)
        reader = asyncio.ensure_future(watch.deliver(_SPACING)) if reads_early else None
        sending = asyncio.ensure_future(peer.send_each([event] * count))
        await elapse(1)
        reader = reader or asyncio.ensure_future(watch.deliver(_SPACING))
        await sending
        await elapse(1)
        watch.transport.abort()
        await asyncio.wait([reader])
    assert len(watch.body) == 8_000 * count


@pytest.mark.virtual_time
async def test_bytes_behind_the_end_of_the_encrypted_stream_are_not_read() -> None:
    with _sockets() as pair:
        watch, peer = await opened(*pair, tls=True)
        reader = asyncio.ensure_future(watch.deliver(_SPACING))
        await peer.send(chunk(b"event"))
        await peer.end_encryption()
        peer.sock.send(b"garbage")
        with pytest.raises(TransportError, match="the server closed it"):
            await reader
    assert watch.body == b"event"


@pytest.mark.virtual_time
async def test_what_was_decrypted_is_read_though_a_timer_finds_the_end_of_the_connection() -> None:
    """The reader comes back in the loop iteration in which a busy watch is read again."""
    loop = asyncio.get_running_loop()
    piece = b"x" * 16_000
    with _sockets() as pair:
        watch, peer = await opened(*pair, tls=True)
        watch.response.spacing_seconds = _SPACING
        for seconds in (0, 0, _SPACING, _SPACING, _SPACING):
            await peer.send(chunk(piece))
            await elapse(seconds)
        assert not watch.response.get_buffer(-1)  # the last one is longer than the room left
        peer.sock.close()
        found = bytearray()

        def read() -> None:
            with pytest.raises(StopIteration) as stopped:
                watch.response.read().send(None)
            found.extend(stopped.value.value)

        loop.call_at(loop.time() + _SPACING - 1e-10, read)
        await elapse(0.1)
        with pytest.raises(TransportError):
            while data := await watch.response.read():
                found.extend(data)
    assert found == 5 * piece


class _Records:
    """Encrypts records of TLS 1.3, since Python's ssl cannot send a KeyUpdate (RFC 8446, 5.2).

    Args:
        cipher: the name of the connection's cipher suite.
        secret: the traffic secret of the sender.
        sent: how many records were encrypted with it.
    """

    def __init__(self, cipher: str, secret: bytes, *, sent: int) -> None:
        self._hash = hashes.SHA384() if cipher.endswith("SHA384") else hashes.SHA256()
        self._cipher = ChaCha20Poly1305 if "CHACHA20" in cipher else AESGCM
        self._key_bytes = 16 if "AES_128" in cipher else 32
        self._secret = secret
        self._sent = sent

    def update(self) -> None:
        """Use the next secret (RFC 8446, 7.2)."""
        self._secret = self._expanded("traffic upd", self._hash.digest_size)
        self._sent = 0

    def record(self, content: bytes, content_type: int) -> bytes:
        key, base = self._expanded("key", self._key_bytes), self._expanded("iv", 12)
        nonce = int.from_bytes(base) ^ self._sent
        self._sent += 1
        plain = content + bytes([content_type])
        head = struct.pack(">BHH", 23, 0x0303, len(plain) + 16)
        return head + self._cipher(key).encrypt(nonce.to_bytes(12), plain, head)

    def _expanded(self, label: str, size: int) -> bytes:
        name = f"tls13 {label}".encode()
        info = struct.pack(">HB", size, len(name)) + name + b"\0"
        return HKDFExpand(self._hash, size, info).derive(self._secret)


@pytest.mark.virtual_time
async def test_a_watch_continues_with_the_new_keys_that_its_server_asks_for(tmp_path: Path) -> None:
    """OpenSSL answers with its own KeyUpdate before the next request."""
    context, secrets = _server_context(), tmp_path / "secrets"
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # the first record with this secret is the head of the response
    context.keylog_filename = str(secrets)
    with _sockets() as pair:
        watch, peer = await connected(*pair, tls=True, context=context)
        reader = asyncio.ensure_future(watch.deliver(_SPACING))
        assert peer.tls is not None
        cipher = peer.tls.cipher()
        assert cipher is not None
        found = dict(
            line.split()[::2] for line in secrets.read_text().splitlines() if line[0] != "#"
        )
        records = _Records(cipher[0], bytes.fromhex(found["SERVER_TRAFFIC_SECRET_0"]), sent=1)
        peer.sock.send(records.record(b"\x18\0\0\1\1", 22))  # KeyUpdate, update_requested
        records.update()
        await elapse(1)
        peer.sock.send(records.record(chunk(b"event"), 23))
        await elapse(1)
        assert watch.body == b"event"
        watch.response.send(b"request")
        assert await peer.received(7) == b"request"
        watch.transport.abort()
        await asyncio.wait([reader])


class _LoopOfWindows(asyncio.SelectorEventLoop):
    """Lacks what the default loop of Windows lacks."""

    def add_reader(self, *_: object) -> None:
        raise NotImplementedError

    def remove_reader(self, *_: object) -> bool:
        raise NotImplementedError


def test_a_loop_that_cannot_watch_sockets_says_so_before_anything_is_sent() -> None:
    loop = _LoopOfWindows()

    async def attempt() -> None:
        with _sockets() as (ours, _):
            Watch(ours, tls=False)

    try:
        with pytest.raises(NotImplementedError):
            loop.run_until_complete(attempt())
    finally:
        loop.close()


_STEPS = st.lists(
    st.one_of(
        st.integers(1, 40_000).map(lambda size: ("send", size)),
        st.sampled_from([0.0, 0.0005, 0.002, 0.1]).map(lambda seconds: ("wait", seconds)),
        st.sampled_from([("pause", 0), ("resume", 0), ("leave", 0), ("read", 0)]),
    ),
    max_size=30,
)


@given(steps=_STEPS, tls=st.booleans(), spacing=st.sampled_from([0.0, _SPACING, 0.05]))
@settings(max_examples=60)
def test_the_body_arrives_whole_and_in_order_whatever_happens_between(
    steps: list[tuple[str, float]], tls: bool, spacing: float
) -> None:
    """The reader leaves and comes back, reads are paused, records come in any size."""

    async def run() -> None:
        with _sockets() as pair:
            watch, peer = await opened(*pair, tls=tls)
            sent = bytearray()
            reader: asyncio.Future[None] | None = None
            for number, (step, amount) in enumerate(steps):
                if step == "send":
                    piece = bytes([number + 1]) * int(amount)
                    sent += piece
                    sending = asyncio.ensure_future(peer.send(chunk(piece)))
                    await elapse(0)
                    await asyncio.wait([sending], timeout=0 if reader is None else 10)
                    if not sending.done():  # no reader makes room for it
                        reader = reader or asyncio.ensure_future(watch.deliver(spacing))
                        await sending
                elif step == "wait":
                    await elapse(amount)
                elif step == "pause":
                    watch.transport.pause_reading()
                    await elapse(0)
                    watch.transport.resume_reading()
                elif step == "leave" and reader is not None:
                    reader.cancel()
                    await asyncio.wait([reader])
                    reader = None
                elif step == "read" and reader is None:
                    reader = asyncio.ensure_future(watch.deliver(spacing))
            reader = reader or asyncio.ensure_future(watch.deliver(spacing))
            await peer.send(chunk(b""))
            await reader
            watch.transport.abort()
            await elapse(0)
        assert watch.body == sent

    loop = VirtualTimeLoop()
    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
