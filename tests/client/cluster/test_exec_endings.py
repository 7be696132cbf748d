"""A command in a container that does not come to its end: what ends it, and what is closed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import pytest
from aiohttp import WSCloseCode, web

import pyinformer
from pyinformer.client import ClusterConfig, WriteOptions
from pyinformer.client.transport import Connection, ConnectionTimeouts
from pyinformer.errors import (
    FencedError,
    LifecycleError,
    OutputLimitError,
    ProtocolError,
    RequestTimeoutError,
    TransportError,
)
from tests.client.cluster.exec_serving import (
    COMMAND,
    exec_serving,
    exited,
    message,
    result_of,
    running,
    sends,
    stays,
)
from tests.guards import Guard, guarded
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from tests.client.cluster.exec_serving import ExecServer


async def test_output_beyond_the_bound_ends_the_conversation() -> None:
    async def script(socket: web.WebSocketResponse, _: ExecServer) -> None:
        with suppress(ConnectionError):
            while True:
                await socket.send_bytes(message(1, "x" * 1000))

    async with running(script) as (cluster, server):
        with pytest.raises(OutputLimitError, match=r"longer than 5000 bytes.*max_bytes") as caught:
            await cluster.exec("shop/web", ["yes"], max_bytes=5000)
        assert (caught.value.what, caught.value.limit_bytes) == ("exec in shop/web", 5000)
        await server.wait_closed()
    assert len((await result_of(message(1, "x" * 9), exited(0), max_bytes=9)).stdout) == 9
    with pytest.raises(OutputLimitError):
        await result_of(message(1, "x" * 5), message(2, "x" * 5), exited(0), max_bytes=9)


async def test_an_end_without_an_exit_code_is_an_error_that_says_what_is_unknown() -> None:
    with pytest.raises(TransportError, match=r"before it reported the exit code; 4 bytes.*may"):
        await result_of(message(1, "some"))


async def test_a_lost_connection_is_an_error() -> None:
    async def script(socket: web.WebSocketResponse, server: ExecServer) -> None:
        await socket.send_bytes(message(1, "some"))
        transport = server.requests[0].transport
        assert transport is not None
        transport.abort()

    async with running(script) as (cluster, _):
        with pytest.raises(TransportError, match="may still run in the container"):
            await cluster.exec("shop/web", COMMAND)


async def test_a_closing_code_is_the_end_as_well() -> None:
    async def script(socket: web.WebSocketResponse, _: ExecServer) -> None:
        await socket.close(code=WSCloseCode.INTERNAL_ERROR)

    async with running(script) as (cluster, _):
        with pytest.raises(TransportError, match="exit code"):
            await cluster.exec("shop/web", COMMAND)


async def test_a_text_message_is_not_of_the_protocol() -> None:
    async def script(socket: web.WebSocketResponse, _: ExecServer) -> None:
        await socket.send_str("\x01text")

    async with running(script) as (cluster, _):
        with pytest.raises(ProtocolError, match="text"):
            await cluster.exec("shop/web", COMMAND)


async def test_a_peer_that_answers_no_pings_is_given_up() -> None:
    async with exec_serving(stays, reads=False) as server:
        config = ClusterConfig(server=server.url)
        connection = Connection(config, timeouts=ConnectionTimeouts(pong_seconds=0.3))
        async with pyinformer.Cluster(config, connection=connection) as cluster:
            with pytest.raises(RequestTimeoutError, match=r"no answer within 0\.3 s; 0 bytes"):
                await cluster.exec("shop/web", COMMAND, timeout_seconds=None)


async def test_a_command_that_takes_too_long_is_given_up() -> None:
    async with running(stays) as (cluster, server):
        with pytest.raises(RequestTimeoutError, match=r"not end within 0\.2 s; 0 bytes") as caught:
            await cluster.exec("shop/web", COMMAND, timeout_seconds=0.2)
        assert caught.value.waited_seconds == 0.2
        await server.wait_closed()


async def test_no_command_leaves_after_the_end_of_the_term() -> None:
    async with running(stays) as (cluster, server):
        with guarded(Guard()) as guard:
            guard.shut()
            with pytest.raises(FencedError) as caught:
                await cluster.exec("shop/web", COMMAND)
        assert not caught.value.may_have_left
        for passes in range(1, 4):  # the term ends between two checks of one request
            with guarded(Guard(passes=passes, announces=False)), pytest.raises(FencedError):
                await cluster.exec("shop/web", COMMAND)
    assert not server.requests
    assert guard.refusals == 1


async def test_a_command_is_cut_off_at_the_end_of_the_term() -> None:
    async with running(stays) as (cluster, server):
        with guarded(Guard()) as guard:

            async def shut() -> None:
                await until(lambda: server.open)
                guard.shut()

            async with anyio.create_task_group() as group:
                group.start_soon(shut)
                with pytest.raises(FencedError, match="the server may have carried out") as caught:
                    await cluster.exec("shop/web", COMMAND, timeout_seconds=None)
        assert caught.value.may_have_left
        await server.wait_closed()
    assert guard.refusals == 1


async def test_commands_have_the_rate_of_writes() -> None:
    options = WriteOptions(writes_per_second=1.0)
    async with (
        exec_serving(sends(exited(0))) as server,
        pyinformer.connect(server=server.url, write_options=options) as cluster,
    ):
        for _ in range(2):
            await cluster.exec("shop/web", COMMAND)
        with pytest.raises(RequestTimeoutError, match=r"not end within 0\.1 s"):
            await cluster.exec("shop/web", COMMAND, timeout_seconds=0.1)
    assert len(server.requests) == 2


def _by_scope(scope: anyio.CancelScope, _: asyncio.Task[None]) -> None:
    scope.cancel()


def _by_task(_: anyio.CancelScope, task: asyncio.Task[None]) -> None:
    task.cancel()


@pytest.mark.parametrize("stdin", [None, b"x" * (8 << 20)], ids=["no-input", "input"])
@pytest.mark.parametrize("cancel", [_by_scope, _by_task])
@pytest.mark.parametrize("moment", ["running", "opening"])
async def test_a_cancelled_command_closes_its_connection(
    cancel: Callable[[anyio.CancelScope, asyncio.Task[None]], None],
    moment: str,
    stdin: bytes | None,
) -> None:
    """What is left open fails the test: a socket, a task, a conversation at the server."""
    is_blocked = stdin is not None  # the server reads nothing, so the input does not leave
    async with exec_serving(stays, reads=not is_blocked) as server:
        async with pyinformer.connect(server=server.url) as cluster:
            scope = anyio.CancelScope()

            async def run() -> None:
                with scope:
                    await cluster.exec("shop/web", COMMAND, stdin=stdin, timeout_seconds=None)

            task = asyncio.create_task(run())
            if moment == "running":
                await until(lambda: server.open)
            else:
                await asyncio.sleep(0)
            cancel(scope, task)
            await asyncio.wait({task})
            assert task.cancelled() == (cancel is _by_task)
        if not is_blocked:  # what does not read does not see the end either
            await server.wait_closed()


async def test_a_cluster_that_is_closed_ends_its_commands() -> None:
    async with exec_serving(stays) as server:
        cluster = pyinformer.Cluster(ClusterConfig(server=server.url))

        async def close() -> None:
            await until(lambda: server.open)
            await cluster.aclose()

        async with anyio.create_task_group() as group:
            group.start_soon(close)
            with pytest.raises(TransportError):
                await cluster.exec("shop/web", COMMAND, timeout_seconds=None)
        with pytest.raises(LifecycleError):
            await cluster.exec("shop/web", COMMAND)
        await server.wait_closed()


async def test_a_cluster_that_is_closed_while_a_command_is_opened_ends_it() -> None:
    closing: list[asyncio.Task[None]] = []

    def close(_: web.Request) -> None:
        """Close the client's side before the server answers."""
        closing.append(asyncio.create_task(cluster.aclose()))

    async with exec_serving(stays, refuse=close) as server:
        cluster = pyinformer.Cluster(ClusterConfig(server=server.url))
        with pytest.raises(TransportError):
            await cluster.exec("shop/web", COMMAND, timeout_seconds=None)
        await asyncio.gather(*closing)
        await server.wait_closed()
