"""A guarded write is checked after each wait on its way out, and last where it meets the socket."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from pyinformer.blocking import run_in_thread
from pyinformer.client.cluster import Cluster, WriteOptions, connect
from pyinformer.client.transport import find_config
from pyinformer.controller import Controller
from pyinformer.controller.sources import Request
from pyinformer.errors import APIStatusError, FencedError, TooManyRequestsError, TransportError
from pyinformer.testing import APIServer, Fault, World
from tests.guards import Guard, guarded
from tests.leaderelection.electing import Line
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.objects import KubeObject


def _map(name: str, *, size: int = 1) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"a": "x" * size},
    }


def _writes(server: APIServer) -> list[str]:
    return [one.method for one in server.requests if one.method != "GET"]


async def test_the_guard_is_checked_after_each_wait_of_a_request() -> None:
    """Whatever check is the first to refuse, the server receives nothing."""
    with APIServer() as server:
        async with connect(server=server.url) as cluster:
            await cluster.create(_map("warm"))
            server.clear_requests()
            with guarded(Guard()) as guard:
                await cluster.create(_map("counted"))
            assert guard.checks >= 4  # turn, the request itself, login, socket
            assert guard.refusals == 0
            assert _writes(server) == ["POST"]
            server.clear_requests()
            for passes in range(guard.checks):
                refusing = Guard(passes=passes)
                with guarded(refusing), pytest.raises(FencedError):
                    await cluster.create(_map(f"refused-{passes}"))
                assert refusing.refusals == 1
            assert _writes(server) == []
            await cluster.create(_map("by-others"))


async def test_reads_are_not_guarded() -> None:
    with APIServer() as server:
        async with connect(server=server.url) as cluster:
            await cluster.create(_map("a"))
            with guarded(Guard(passes=0)):
                assert (await cluster.get("v1", "configmaps", "default/a")).metadata.name == "a"


def test_a_write_that_waits_for_its_turn_is_refused_after_it() -> None:
    options = WriteOptions(writes_per_second=0.5)

    async def scenario(line: Line, cluster: Cluster) -> None:
        guard = Guard(announces=False)
        with guarded(guard):
            await cluster.create(_map("a"))
            waiting = asyncio.create_task(cluster.create(_map("b")))
            await until(lambda: cluster.write_statistics().waiting == 1)
            guard.shut()
            with pytest.raises(FencedError):
                await waiting
        assert line.count("POST") == 1

    _in_virtual_time(scenario, options)


def test_a_write_that_waits_after_a_429_is_refused() -> None:
    async def scenario(line: Line, cluster: Cluster) -> None:
        async def refuse(method: str) -> None:
            if method == "POST":
                raise TooManyRequestsError(
                    status=429, reason="TooManyRequests", request=method, retry_after_seconds=1.0
                )

        line.before = refuse
        guard = Guard(announces=False)
        with guarded(guard):
            waiting = asyncio.create_task(cluster.create(_map("a")))
            await until(lambda: cluster.write_statistics().waiting == 1)
            guard.shut()
            with pytest.raises(FencedError):
                await waiting
        assert line.count("POST") == 1  # the one that was answered with 429

    _in_virtual_time(scenario, WriteOptions())


def _in_virtual_time(
    scenario: Callable[[Line, Cluster], Awaitable[None]], options: WriteOptions
) -> None:
    """Run a scenario in which a wait ends only when nothing else is left to do."""
    with World(virtual_time=True) as world:
        line = Line(world.cluster.connection)
        cluster = Cluster(world.cluster.config, write_options=options, connection=line)
        world.run(lambda: scenario(line, cluster))


async def test_a_request_is_cut_off_when_the_term_ends() -> None:
    async def serve(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"}"))
        arrived.set()
        with suppress(ConnectionResetError):
            await reader.read()
        is_closed.set()

    received: list[bytes] = []
    arrived, is_closed = asyncio.Event(), asyncio.Event()
    async with _listening(serve) as port:
        cluster = _cluster_at(f"http://127.0.0.1:{port}")
        async with cluster:
            guard = Guard()
            with guarded(guard):
                writing = asyncio.create_task(
                    cluster.connection.request("POST", "/api/v1/x", body=b"{}")
                )
                await arrived.wait()
                guard.shut()
                with pytest.raises(FencedError, match="may have carried out") as caught:
                    await writing
            assert caught.value.may_have_left
        await is_closed.wait()


async def test_a_request_of_another_thread_is_cut_off_in_its_own_loop() -> None:
    """The elector runs in one loop; a blocking cluster has its own, in another thread."""

    async def serve(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        arrived.set()
        await reader.read()

    async def write(port: int) -> None:
        with guarded(guard):
            async with _cluster_at(f"http://127.0.0.1:{port}") as cluster:
                await cluster.connection.request("POST", "/api/v1/x", body=b"{}")

    guard, arrived = Guard(), asyncio.Event()
    async with _listening(serve) as port:
        writing = asyncio.create_task(asyncio.to_thread(asyncio.run, write(port), debug=True))
        await arrived.wait()
        guard.shut()
        with pytest.raises(FencedError, match="may have carried out"):
            await writing


async def test_unsent_bytes_of_a_guarded_write_are_never_sent() -> None:
    """A peer that reads slowly gets a part of the body, and not its end."""
    body = b"x" * ((1 << 20) - 1)
    read_on = asyncio.Event()
    received: list[int] = []
    is_done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        first = await reader.read(1000)
        begun.set()
        await read_on.wait()
        count = len(first)
        try:
            while piece := await reader.read(1 << 20):
                count += len(piece)
        except ConnectionResetError:
            pass
        received.append(count)
        is_done.set()

    begun = asyncio.Event()
    async with _listening(serve) as port, _cluster_at(f"http://127.0.0.1:{port}") as cluster:
        guard = Guard()
        with guarded(guard):
            writing = asyncio.create_task(
                cluster.connection.request("POST", "/api/v1/x", body=body)
            )
            await begun.wait()
            guard.shut()
            with pytest.raises(FencedError):
                await writing
        read_on.set()
        await is_done.wait()
    assert received[0] < len(body)


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_process_that_was_stopped_sends_no_more_of_a_body(scheme: str) -> None:
    """It continues with a socket that takes the rest before the timer of the term's end fires."""
    body = b"x" * (16 << 20)  # more than the kernel takes
    begun, read_on = asyncio.Event(), asyncio.Event()
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.read(1000))
        begun.set()
        await read_on.wait()
        while len(received) < len(body) and (piece := await reader.read(1 << 20)):
            received.extend(piece)

    tls = None
    if scheme == "https":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    guard = Guard(announces=False)
    async with (
        _listening(serve, tls=tls) as port,
        _cluster_at(f"{scheme}://127.0.0.1:{port}") as cluster,
    ):
        with guarded(guard):
            writing = asyncio.create_task(
                cluster.connection.request("POST", "/api/v1/x", body=body)
            )
            await begun.wait()
            guard.shut()
            read_on.set()
            with pytest.raises(FencedError, match="may have carried out"):
                await writing
    assert len(received) < len(body)


async def test_a_connection_that_carried_a_guarded_write_may_carry_others() -> None:
    with APIServer() as server:
        async with connect(server=server.url) as cluster:
            with guarded(Guard()) as guard:
                await cluster.create(_map("guarded"))
            guard.shut()
            await cluster.create(_map("not-guarded"))
            assert _writes(server) == ["POST", "POST"]


@pytest.mark.parametrize("announces", [True, False], ids=["the-end-is-announced", "it-is-not"])
async def test_a_connect_held_by_a_proxy_until_after_expiry_delivers_no_body(
    tmp_path: Path, announces: bool
) -> None:
    with APIServer(tls=True) as server:
        (tmp_path / "kubeconfig").write_text(server.kubeconfig())
        found = await find_config(tmp_path / "kubeconfig")
        async with _HeldProxy.running() as proxy:
            config = replace(found, proxy_url=f"http://127.0.0.1:{proxy.port}")
            async with Cluster(config) as cluster:
                guard = Guard(announces=announces)
                with guarded(guard):
                    writing = asyncio.create_task(
                        cluster.connection.request(
                            "POST", "/api/v1/namespaces/default/configmaps", body=b"{}"
                        )
                    )
                    await proxy.connecting.wait()
                    guard.shut()
                    proxy.go_on.set()
                    with pytest.raises(FencedError) as caught:
                        await writing
                assert not caught.value.may_have_left
                if not announces:  # the tunnel was made, and TLS spoken in it
                    assert proxy.tunnels == 1
        assert _writes(server) == []


class _HeldProxy:
    """A proxy that answers a CONNECT when the test releases it, and then is a tunnel."""

    def __init__(self) -> None:
        self.port = 0
        self.tunnels = 0
        self.connecting, self.go_on = asyncio.Event(), asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[_HeldProxy]:
        """Run one."""
        proxy = cls()
        async with _listening(proxy._serve) as proxy.port:
            yield proxy

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        host, _, port = head.split()[1].decode().rpartition(":")
        self.connecting.set()
        await self.go_on.wait()
        beyond_reader, beyond_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        self.tunnels += 1
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, beyond_writer))
                group.create_task(_copy(beyond_reader, writer))
        finally:
            beyond_writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()
    except ConnectionError:
        writer.transport.abort()


@asynccontextmanager
async def _listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any],
    *,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Listen on a free port, and end the connections with the block."""
    tasks: set[asyncio.Task[None]] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(one(reader, writer)))

    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # of its connections, too
    listener = await asyncio.start_server(connected, sock=listening, ssl=tls)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _cluster_at(url: str) -> Cluster:
    from pyinformer.client.transport import ClusterConfig

    return Cluster(ClusterConfig(server=url, source="test", verify_tls=False))


async def test_writes_are_recorded_with_their_object_and_version() -> None:
    with APIServer() as server:
        async with connect(server=server.url) as cluster:
            with guarded(Guard()) as guard:
                made = await cluster.create(_map("a"))
                await cluster.create(_map("dry"), dry_run=True)
                await cluster.delete("v1", "configmaps", "default/a")
                server.faults.add(Fault(verb="create", refuse=True))
                with pytest.raises(TransportError):
                    await cluster.create(_map("lost"))
            version = made.metadata.resource_version
            assert guard.written[0] == ("configmaps.v1", version)
            assert guard.written[1:] == [("configmaps.v1", ""), ("configmaps.v1", "")]


@pytest.mark.parametrize("start", ["to_thread", "thread", "executor"])
async def test_a_thread_that_is_given_the_context_is_guarded(start: str) -> None:
    def refused() -> None:
        with pytest.raises(FencedError):
            cluster.create(_map("a"))
        ended.append(start)

    ended: list[str] = []
    with (
        APIServer() as server,
        run_in_thread() as runner,
        runner.connect(server=server.url) as cluster,
    ):
        with guarded(Guard(passes=0)):
            context = copy_context()
        if start == "thread":
            thread = Thread(target=context.run, args=(refused,))
            thread.start()
            await asyncio.to_thread(thread.join)
        elif start == "executor":
            await asyncio.get_running_loop().run_in_executor(None, context.run, refused)
        else:
            with guarded(Guard(passes=0)):
                await asyncio.to_thread(refused)
        assert ended == [start]
        assert _writes(server) == []


@pytest.mark.parametrize(
    ("status", "written"),
    [
        pytest.param(403, [], id="refused"),
        pytest.param(500, [("configmaps.v1", "")], id="etcd-timed-out"),
        pytest.param(503, [("configmaps.v1", "")], id="proxy-lost-the-server"),
        pytest.param(504, [("configmaps.v1", "")], id="server-timed-out"),
    ],
)
async def test_a_write_that_a_server_error_answers_may_have_been_carried_out(
    status: int, written: list[tuple[str, str]]
) -> None:
    """Otherwise a successor leads while its cache may lack what was stored."""
    with APIServer() as server:
        server.faults.add(Fault(verb="create", status=status))
        async with connect(server=server.url) as cluster:
            with guarded(Guard()) as guard, pytest.raises(APIStatusError):
                await cluster.create(_map("a"))
    assert guard.written == written


def test_a_dispatch_is_refused_and_its_function_is_not_called() -> None:
    called: list[str] = []

    async def reconcile(request: Request, _obj: KubeObject | None) -> None:
        called.append(request.key)

    with World([_map("a")]) as world:
        maps = world.factory.informer("v1", "configmaps", namespaces="default")
        controller = Controller("maps", reconcile, maps)

        async def dispatch() -> None:
            with guarded(Guard(passes=0)):
                outcome = await controller.reconcile_once("default/a")
            assert isinstance(outcome.error, FencedError)
            assert outcome.kind == "terminal"

        world.run(dispatch)
        assert called == []


def test_a_temporarily_closed_guard_requeues_the_reconcile() -> None:
    async def reconcile(_request: Request, _obj: KubeObject | None) -> None:
        raise FencedError(lease="ops/db", reason="clocks", has_ended=False)

    with World([_map("a")]) as world:
        maps = world.factory.informer("v1", "configmaps", namespaces="default")
        outcome = world.reconcile(Controller("maps", reconcile, maps), "default/a")
        assert outcome.kind == "error"
        assert outcome.after_seconds is not None
