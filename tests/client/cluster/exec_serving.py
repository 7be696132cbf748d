"""A scripted API server that runs commands: what it sends over the WebSocket is the test's."""

from __future__ import annotations

import asyncio
import contextlib
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

import pyinformer
from tests.waiting import until

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from pyinformer import Cluster
    from pyinformer.client import ExecResult

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
COMMAND = ["pg_ctl", "status"]
SUCCESS = {"metadata": {}, "status": "Success"}


@dataclass
class ExecServer:
    """The server of one test."""

    url: str = ""
    requests: list[web.Request] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)
    """The messages of clients."""
    open: int = 0
    """How many conversations there are."""

    async def wait_closed(self) -> None:
        """Wait until the server has seen the end of every conversation."""
        await until(lambda: not self.open)


if TYPE_CHECKING:
    Script = Callable[[web.WebSocketResponse, ExecServer], Awaitable[None]]
    Refuse = Callable[[web.Request], web.Response | None]


def message(channel: int, data: bytes | str = b"") -> bytes:
    """Return a message of a channel."""
    return bytes((channel,)) + (data.encode() if isinstance(data, str) else data)


def report(status: Any) -> bytes:
    """Return the report of a command's end."""
    return message(3, json.dumps(status))


def exited(code: int) -> bytes:
    """Return the report of an exit code, as a kubelet writes it."""
    if not code:
        return report(SUCCESS)
    text = f"command terminated with non-zero exit code: command terminated with exit code {code}"
    causes = [{"reason": "ExitCode", "message": str(code)}]
    failure = {"metadata": {}, "status": "Failure", "message": text, "reason": "NonZeroExitCode"}
    return report({**failure, "details": {"causes": causes}})


def sends(*messages: bytes) -> Script:
    """Send messages and end the conversation."""

    async def script(socket: web.WebSocketResponse, _: ExecServer) -> None:
        for one in messages:
            await socket.send_bytes(one)

    return script


async def stays(_: web.WebSocketResponse, __: ExecServer) -> None:
    """Send nothing, and keep the conversation open."""
    await asyncio.Event().wait()


def refusal(status: int, reason: str, text: str, **headers: str) -> web.Response:
    """Return a refusal, as an API server words it."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": text,
        "reason": reason,
        "code": status,
    }
    return web.json_response(body, status=status, headers=headers)


@asynccontextmanager
async def exec_serving(
    script: Script,
    *,
    protocols: Sequence[str] = (V5, V4),
    refuse: Refuse = lambda _: None,
    tls: ssl.SSLContext | None = None,
    reads: bool = True,
) -> AsyncIterator[ExecServer]:
    """Run a server until the block is left.

    Args:
        script: what it sends in each conversation.
        protocols: what it speaks.
        refuse: returns the answer to a request without a conversation; None for a conversation.
        tls: its certificate.
        reads: whether it reads what a client sends, and so answers its pings.
    """
    server = ExecServer()

    async def read(socket: web.WebSocketResponse) -> None:
        while (one := await socket.receive()).type is WSMsgType.BINARY:
            server.received.append(one.data)

    async def serve(request: web.Request) -> web.StreamResponse:
        server.requests.append(request)
        answer = refuse(request)
        if answer is not None:
            return answer
        offered = request.headers.get("Sec-WebSocket-Protocol", "").split(",")
        if not set(offered) & set(protocols):
            return web.Response(status=403)
        socket = web.WebSocketResponse(protocols=protocols)
        await socket.prepare(request)
        server.open += 1
        reading = asyncio.create_task(read(socket)) if reads else None
        try:
            await script(socket, server)
        finally:
            server.open -= 1
            with contextlib.suppress(ConnectionError):
                await socket.close()
            if reading is not None:
                reading.cancel()
                await asyncio.wait({reading})
        return socket

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", serve)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"{'https' if tls else 'http'}://{host}:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running(script: Script, /, **options: Any) -> AsyncIterator[tuple[Cluster, ExecServer]]:
    """Run a scripted server, and connect to it."""
    async with (
        exec_serving(script, **options) as server,
        pyinformer.connect(server=server.url) as cluster,
    ):
        yield cluster, server


async def result_of(*messages: bytes, **options: Any) -> ExecResult:
    """Run a command that sends these messages."""
    async with running(sends(*messages)) as (cluster, _):
        return await cluster.exec("shop/web", COMMAND, **options)
