"""The fault proxy, byte by byte: the witness is a plain socket."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from pyinformer.errors import InvalidArgumentError, LifecycleError
from pyinformer.testing import APIServer, FaultProxy, ServerAddress
from tests.testing.wire import ALL_PODS, Wire, pod
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator

MANY = b"0123456789" * 50


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it receives; counts the connections that ended."""

    ended = threading.Semaphore(0)

    def handle(self) -> None:
        """Serve one connection until it ends."""
        with contextlib.suppress(OSError):
            while data := self.request.recv(65536):
                self.request.sendall(data)
        self.ended.release()


class EchoServer(socketserver.ThreadingTCPServer):
    """The server behind the proxy."""

    daemon_threads = True
    block_on_close = False


@pytest.fixture
def echo() -> Iterator[ServerAddress]:
    with EchoServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield ServerAddress(url=f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(echo: ServerAddress) -> Iterator[FaultProxy]:
    with FaultProxy(echo) as running:
        yield running


def connected(proxy: FaultProxy) -> socket.socket:
    """Return a connection through the proxy that has passed a byte both ways."""
    client = socket.create_connection(("127.0.0.1", proxy.port), timeout=100)
    client.sendall(b"!")
    assert client.recv(1) == b"!"
    return client


def received(client: socket.socket, count: int) -> bytes:
    """Read so many bytes."""
    data = b""
    while len(data) < count and (piece := client.recv(count - len(data))):
        data += piece
    return data


def test_bytes_pass_both_ways_and_are_counted(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        client.sendall(MANY)

        assert received(client, len(MANY)) == MANY
        assert (proxy.connections, proxy.passed, proxy.open, proxy.cuts) == (1, 1, 1, 0)
    assert poll(lambda: proxy.open == 0, timeout_seconds=100)


def test_what_a_server_sent_before_it_closed_arrives() -> None:
    """Every byte that the server sends before it closes its half passes."""
    size = 3_000_000
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def send_all() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.sendall(b"x" * size)

        thread = threading.Thread(target=send_all)
        thread.start()
        with (
            FaultProxy(ServerAddress(url=f"http://127.0.0.1:{port}")) as proxy,
            socket.create_connection(("127.0.0.1", proxy.port), timeout=100) as client,
        ):
            assert len(received(client, size + 1)) == size
        thread.join()


def test_a_cut_with_reset_is_seen_as_such(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        proxy.cut()

        with pytest.raises(ConnectionResetError):
            client.recv(1)
    assert proxy.cuts == 1


def test_a_cut_without_reset_ends_the_stream(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        proxy.cut(reset=False)

        assert client.recv(1) == b""


@pytest.mark.parametrize("count", [1, 7, 499])
def test_a_connection_breaks_after_exactly_so_many_bytes(proxy: FaultProxy, count: int) -> None:
    with connected(proxy) as client:
        proxy.cut_after(count)
        client.sendall(MANY)

        assert received(client, len(MANY)) == MANY[:count]
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=100) as later:
        later.sendall(MANY)
        assert received(later, len(MANY)) == MANY[:count]
    assert proxy.cuts == 2


def test_only_open_connections_break_later_if_asked_so(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        proxy.cut_open_after(3)
        client.sendall(MANY)
        assert received(client, 4) == MANY[:3]
    with connected(proxy) as later:
        later.sendall(MANY)
        assert received(later, len(MANY)) == MANY


def test_refused_connections_are_reset_until_they_are_accepted(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        proxy.refuse()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with (
        pytest.raises(ConnectionError),
        socket.create_connection(("127.0.0.1", proxy.port), timeout=100) as refused,
    ):
        refused.sendall(b"!")
        raise ConnectionError if not refused.recv(1) else AssertionError
    proxy.accept()
    connected(proxy).close()
    assert (proxy.connections, proxy.passed) == (3, 2)


def test_connections_that_are_being_opened_are_refused_too(proxy: FaultProxy) -> None:
    with contextlib.ExitStack() as clients:
        for _ in range(100):
            clients.enter_context(socket.create_connection(("127.0.0.1", proxy.port), timeout=100))
        proxy.refuse()
        assert poll(lambda: proxy.connections == 100, timeout_seconds=100)
        assert poll(lambda: proxy.open == 0, timeout_seconds=5)


@pytest.mark.parametrize("new", [True, False])
def test_a_stall_holds_answers_and_passes_requests(proxy: FaultProxy, new: bool) -> None:
    with connected(proxy) as client:
        proxy.stall(new=new)
        client.sendall(MANY)
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=100) as later:
            later.sendall(b"?")
            later.settimeout(0.2 if new else 100)
            if new:
                with pytest.raises(TimeoutError):
                    later.recv(1)
            else:
                assert later.recv(1) == b"?"

        proxy.resume()
        client.settimeout(100)
        assert received(client, len(MANY)) == MANY


def test_the_client_does_not_notice_a_half_open_connection(proxy: FaultProxy) -> None:
    while Echo.ended.acquire(blocking=False):
        pass
    with connected(proxy) as client:
        proxy.half_open()

        assert Echo.ended.acquire(timeout=100), "the server's half has ended"
        client.sendall(MANY)
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.heal()
        connected(proxy).close()
        with pytest.raises(TimeoutError):
            client.recv(1)
    assert poll(lambda: proxy.open == 0, timeout_seconds=100), "the client's end is seen"


def test_a_half_open_connection_is_cut_with_the_others(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        proxy.half_open()
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_dripping_link_takes_its_time(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        proxy.drip(bytes_per_second=1000)
        begun = monotonic()
        client.sendall(MANY)

        assert len(client.recv(65536)) <= 50
        assert len(received(client, 450)) >= 400
        assert monotonic() - begun > 0.4
        proxy.heal()


def test_a_delayed_piece_arrives_later(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        proxy.delay(0.25)
        begun = monotonic()
        client.sendall(b"?")

        assert client.recv(1) == b"?"
        assert monotonic() - begun >= 0.5, "both ways"


def test_split_writes_arrive_whole_and_in_order(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        proxy.split(3)
        client.sendall(MANY)

        assert received(client, len(MANY)) == MANY


def test_joined_writes_arrive_together(proxy: FaultProxy) -> None:
    with connected(proxy) as client:
        proxy.join(0.2)
        begun = monotonic()
        for digit in (b"1", b"2", b"3"):
            client.sendall(digit)

        assert received(client, 3) == b"123"
        assert monotonic() - begun >= 0.4, "both ways"


def test_connections_go_to_the_ports_in_turn_and_pass_over_dead_ones(echo: ServerAddress) -> None:
    port = int(echo.url.rpartition(":")[2])
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))  # so that no other process listens there
        closed = dead.getsockname()[1]
        with FaultProxy(echo, ports=(closed, port)) as proxy:
            for _ in range(2):
                connected(proxy).close()
            proxy.use_ports([closed])
            with (
                pytest.raises(ConnectionResetError),  # perhaps before the connect has returned
                socket.create_connection(("127.0.0.1", proxy.port), timeout=100) as client,
            ):
                client.recv(1)
            assert (proxy.connections, proxy.passed) == (3, 2)


def test_it_passes_tls_through_and_shows_the_servers_address() -> None:
    with APIServer(tls=True) as server, FaultProxy(server) as proxy:
        assert proxy.url == f"https://127.0.0.1:{proxy.port}"
        assert proxy.ca_file == server.ca_file
        assert proxy.token == server.token
        assert proxy.requests == ()
        assert proxy.url in proxy.kubeconfig()


def test_it_can_be_in_front_of_another_proxy(echo: ServerAddress) -> None:
    with FaultProxy(echo) as inner, FaultProxy(inner) as outer:
        connected(outer).close()
        assert inner.passed == outer.passed == 1


def test_faults_and_life_of_a_proxy_that_does_not_run_are_refused(echo: ServerAddress) -> None:
    proxy = FaultProxy(echo)
    with pytest.raises(LifecycleError, match="does not run"):
        proxy.refuse()
    with proxy, pytest.raises(LifecycleError, match="already runs"):
        proxy.start()
    proxy.stop()


def test_a_taken_port_is_the_callers_to_see(echo: ServerAddress) -> None:
    with FaultProxy(echo) as first, pytest.raises(OSError, match=str(first.port)):
        FaultProxy(echo, port=first.port).start()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda proxy: proxy.split(0), "size"),
        (lambda proxy: proxy.cut_after(0), "size"),
        (lambda proxy: proxy.drip(bytes_per_second=0), "bytes_per_second"),
        (lambda proxy: proxy.delay(-1.0), "seconds"),
        (lambda proxy: proxy.expire_token(), "reads_requests"),
        (lambda proxy: proxy.renew_certificate(), "reads_requests"),
    ],
)
def test_wrong_arguments_are_named(proxy: FaultProxy, call: object, name: str) -> None:
    assert callable(call)
    with pytest.raises(InvalidArgumentError, match=name):
        call(proxy)


def test_a_kept_alive_client_works_through_it() -> None:
    with APIServer() as server, FaultProxy(server) as proxy, Wire(proxy.url) as wire:
        server.create(pod())
        assert [wire.get(ALL_PODS).names for _ in range(3)] == [["a"]] * 3
        assert proxy.connections == 1
