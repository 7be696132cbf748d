"""A command in a container: its output and exit code, or an error that says what is known."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trustme
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

import pyinformer
from pyinformer.client import ClusterConfig, ExecResult
from pyinformer.client.transport import RenewingCredentials
from pyinformer.client.transport.config import Login
from pyinformer.errors import (
    APIStatusError,
    BadRequestError,
    ForbiddenError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    ProtocolError,
    ServerError,
    TLSVerificationError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
)
from pyinformer.telemetry import MetricsRegistry
from pyinformer.testing import World
from tests.client.cluster.exec_serving import (
    COMMAND,
    V4,
    V5,
    exec_serving,
    exited,
    message,
    refusal,
    report,
    result_of,
    running,
    sends,
    stays,
)
from tests.telemetry.metrics.reading import totals
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.client.cluster.exec_serving import ExecServer


@pytest.mark.parametrize("protocol", [V5, V4])
async def test_a_command_returns_its_output_and_its_exit_code(protocol: str) -> None:
    script = sends(message(1), message(1, "one\n"), message(2, "oh"), message(1, "two"), exited(3))
    async with running(script, protocols=[protocol]) as (cluster, server):
        found = await cluster.exec("shop/web", COMMAND, container="db")
    assert found == ExecResult(3, b"one\ntwo", b"oh")
    assert (found.exit_code, found.stdout, found.stderr) == (3, "one\ntwo", "oh")
    (request,) = server.requests
    assert (request.method, request.path) == ("GET", "/api/v1/namespaces/shop/pods/web/exec")
    assert list(request.query.items()) == [
        ("command", "pg_ctl"),
        ("command", "status"),
        ("container", "db"),
        ("stdout", "true"),
        ("stderr", "true"),
    ]
    assert request.headers["Sec-WebSocket-Protocol"] == f"{V5},{V4}"


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=5)), max_size=20))
async def test_the_pieces_in_which_output_arrives_do_not_matter(
    pieces: list[tuple[int, bytes]],
) -> None:
    found = await result_of(*(message(*piece) for piece in pieces), exited(0))
    assert found.stdout_bytes == b"".join(data for channel, data in pieces if channel == 1)
    assert found.stderr_bytes == b"".join(data for channel, data in pieces if channel == 2)


async def test_a_character_that_is_split_between_messages_is_one_character() -> None:
    text = "grün 🐘".encode()
    found = await result_of(*(message(1, bytes((one,))) for one in text), exited(0))
    assert found.stdout == "grün 🐘"
    assert (await result_of(message(2, b"\xff\xe4"), exited(0))).stderr == "\ufffd\ufffd"


async def test_the_output_is_not_in_the_repr_of_a_result() -> None:
    found = await result_of(message(1, "password"), exited(0))
    assert repr(found) == "<ExecResult exit code 0, 8 and 0 bytes>"


async def test_output_after_the_report_is_kept_and_unknown_channels_are_ignored() -> None:
    messages = (message(9, "?"), b"", message(255, b"\x01"), exited(0), message(1, "late"))
    assert await result_of(*messages) == ExecResult(0, b"late")


async def test_a_server_that_does_not_close_does_not_hold_up_the_result() -> None:
    async def script(socket: web.WebSocketResponse, _: ExecServer) -> None:
        await socket.send_bytes(exited(0))
        await asyncio.Event().wait()

    async with running(script) as (cluster, server):
        for seconds in (100, 0.5):  # the second passes while the end is waited for
            found = await cluster.exec("shop/web", COMMAND, timeout_seconds=seconds)
            assert found == ExecResult(0)
        await server.wait_closed()


async def test_a_report_may_arrive_in_pieces() -> None:
    text = exited(7)[1:]
    pieces = (message(3, text[:9]), message(3, text[9:40]), message(3), message(3, text[40:]))
    assert (await result_of(*pieces)).exit_code == 7


@pytest.mark.parametrize("stdin", ["grün\n" * 50_000, "grün\n".encode() * 50_000, "", b""])
async def test_the_input_is_sent_and_ended(stdin: str | bytes) -> None:
    expected = stdin.encode() if isinstance(stdin, str) else stdin

    async def script(socket: web.WebSocketResponse, server: ExecServer) -> None:
        await until(lambda: message(255, b"\x00") in server.received)
        await socket.send_bytes(exited(0))

    async with running(script) as (cluster, server):
        await cluster.exec("shop/web", ["psql"], stdin=stdin)
    *chunks, end = server.received
    assert end == message(255, b"\x00")
    assert {chunk[0] for chunk in chunks} <= {0}
    assert b"".join(chunk[1:] for chunk in chunks) == expected
    assert server.requests[0].query["stdin"] == "true"


async def test_nothing_is_run_with_an_input_that_the_server_cannot_end() -> None:
    async with running(stays, protocols=[V4]) as (cluster, server):
        with pytest.raises(ForbiddenError):
            await cluster.exec("shop/web", ["psql"], stdin="select 1")
    assert server.requests[0].headers["Sec-WebSocket-Protocol"] == V5
    assert not server.received


async def test_a_command_may_end_before_it_has_read_its_input() -> None:
    stdin = b"x" * (8 << 20)
    async with running(sends(exited(1)), reads=False) as (cluster, _):
        assert (await cluster.exec("shop/web", ["head"], stdin=stdin)).exit_code == 1


async def test_a_command_that_was_not_started_is_the_error_of_its_server() -> None:
    text = 'exec: "pg_ctl": executable file not found in $PATH'
    status = {"status": "Failure", "reason": "InternalError", "message": text, "code": 500}
    with pytest.raises(ServerError, match=r"exec in shop/web: 500 InternalError: .*not found"):
        await result_of(report(status))


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({}, id="empty"),
        pytest.param({"status": "Failure", "reason": "NonZeroExitCode"}, id="no-details"),
        pytest.param(
            {
                "status": "Failure",
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": "x"}, 5]},
            },
            id="no-number",
        ),
        pytest.param(
            {
                "status": "Failure",
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": "0"}]},
            },
            id="a-failure-with-the-code-of-success",
        ),
    ],
)
async def test_a_report_that_says_nothing_is_an_error(status: object) -> None:
    with pytest.raises(ProtocolError, match="no exit code"):
        await result_of(report(status))


async def test_a_report_is_bounded() -> None:
    with pytest.raises(ProtocolError, match="too long"):
        await result_of(*[message(3, "x" * 30_000)] * 4)


@pytest.mark.parametrize("status", [400, 403, 404, 500])
async def test_a_refusal_is_the_error_of_its_status(status: int) -> None:
    kind = {400: BadRequestError, 403: ForbiddenError, 404: NotFoundError, 500: ServerError}[status]
    text = "container db is not valid for pod web"
    async with running(stays, refuse=lambda _: refusal(status, "Why", text)) as (cluster, server):
        with pytest.raises(kind, match=f"{status} Why: {text}") as caught:
            await cluster.exec("shop/web", COMMAND)
    assert caught.value.request == "GET /api/v1/namespaces/shop/pods/web/exec"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ('pods "web" is forbidden: User "a" cannot get resource "pods/exec"', "get"),
        ('pods "web" is forbidden: ', "create"),
    ],
)
async def test_a_missing_right_is_named(text: str, verb: str) -> None:
    answer = refusal(403, "Forbidden", text)
    async with running(stays, refuse=lambda _: answer) as (cluster, _):
        with pytest.raises(ForbiddenError) as caught:
            await cluster.exec("shop/web", COMMAND)
    assert caught.value.needed == (
        f'"{verb}" is missing; needs: apiGroups: [""], resources: ["pods/exec"], verbs: ["create",'
        ' "get"] in namespace shop'
    )


async def test_a_busy_server_is_asked_again_and_a_failing_one_is_not() -> None:
    answers = [refusal(429, "TooManyRequests", "later", **{"Retry-After": "0"}), None]
    async with running(sends(exited(0)), refuse=lambda _: answers.pop(0)) as (cluster, server):
        assert (await cluster.exec("shop/web", COMMAND)).exit_code == 0
        assert len(server.requests) == 2
        assert cluster.write_statistics().sent == 2
        answers += [refusal(503, "ServiceUnavailable", "later", **{"Retry-After": "0"})]
        with pytest.raises(ServerError):
            await cluster.exec("shop/web", COMMAND)
    assert len(server.requests) == 3


async def test_a_429_within_the_conversation_is_not_sent_again() -> None:
    status = {"status": "Failure", "reason": "TooManyRequests", "message": "later", "code": 429}
    async with running(sends(report(status))) as (cluster, server):
        with pytest.raises(TooManyRequestsError):
            await cluster.exec("shop/web", COMMAND)
    assert len(server.requests) == 1


async def test_a_login_that_has_ended_is_renewed() -> None:
    logins = iter(["old", "new"])

    async def log_in() -> Login:
        return Login({"Authorization": f"Bearer {next(logins)}"})

    def refuse(request: web.Request) -> web.Response | None:
        is_new = request.headers["Authorization"] == "Bearer new"
        return None if is_new else refusal(401, "Unauthorized", "no")

    async with exec_serving(sends(exited(0)), refuse=refuse) as server:
        config = ClusterConfig(server=server.url, credentials=RenewingCredentials(log_in))
        async with pyinformer.connect(config=config) as cluster:
            assert (await cluster.exec("shop/web", COMMAND)).exit_code == 0
    assert len(server.requests) == 2


async def test_a_login_that_is_refused_again_is_an_error() -> None:
    async with running(stays, refuse=lambda _: refusal(401, "Unauthorized", "no")) as (cluster, _):
        with pytest.raises(UnauthorizedError):
            await cluster.exec("shop/web", COMMAND)


@asynccontextmanager
async def tunnelling() -> AsyncIterator[tuple[str, list[str]]]:
    """Run a proxy that opens tunnels, and keep what it is asked for."""
    wanted: list[str] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        target = head.split(b" ")[1].decode()
        wanted.append(target)
        host, _, port = target.partition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        async with anyio.create_task_group() as group:
            group.start_soon(copy, reader, back)
            group.start_soon(copy, there, writer)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", wanted
    finally:
        listener.close()


@pytest.mark.parametrize("through_proxy", [False, True])
async def test_a_command_passes_tls_and_the_tunnel_of_a_proxy(*, through_proxy: bool) -> None:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("kubernetes").configure_cert(tls)
    script = sends(message(1, "out"), exited(0))
    async with exec_serving(script, tls=tls) as server, tunnelling() as (proxy, wanted):
        config = ClusterConfig(
            server=server.url,
            ca_data=authority.cert_pem.bytes().decode(),
            tls_server_name="kubernetes",
            proxy_url=proxy if through_proxy else None,
        )
        async with pyinformer.connect(config=config) as cluster:
            assert (await cluster.exec("shop/web", COMMAND)).stdout == "out"
        async with pyinformer.connect(config=replace(config, tls_server_name="b")) as cluster:
            with pytest.raises(TLSVerificationError):
                await cluster.exec("shop/web", COMMAND)
        address = server.url.removeprefix("https://")
        assert wanted == ([address] * 2 if through_proxy else [])
        await server.wait_closed()


async def test_a_redirect_is_not_followed() -> None:
    """It could take the login elsewhere."""
    async with exec_serving(stays) as other:
        away = web.Response(status=302, headers={"Location": f"{other.url}/"})
        async with running(stays, refuse=lambda _: away) as (cluster, _):
            with pytest.raises(APIStatusError, match=r"302: redirected to .*not followed"):
                await cluster.exec("shop/web", COMMAND)
    assert not other.requests


async def test_an_answer_without_a_conversation_is_an_error() -> None:
    async with running(stays, refuse=lambda _: web.json_response({})) as (cluster, _):
        with pytest.raises(ProtocolError, match=r"did not upgrade .*a proxy in between"):
            await cluster.exec("shop/web", COMMAND)


async def test_a_server_that_agrees_on_no_protocol_is_an_error() -> None:
    async def answer(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.close()
        return socket

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    try:
        async with pyinformer.connect(server=f"http://127.0.0.1:{port}") as cluster:
            with pytest.raises(ProtocolError, match="did not upgrade"):
                await cluster.exec("shop/web", COMMAND)
    finally:
        await runner.cleanup()


async def test_a_server_that_is_not_there_was_not_asked() -> None:
    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises(TransportError, match="cannot connect") as caught:
            await cluster.exec("shop/web", COMMAND)
    assert caught.value.is_unreachable
    assert "may" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"pod": "web"}, InvalidArgumentError, "pod: must be 'namespace/name', got 'web'"),
        ({"pod": "a/b/c"}, InvalidArgumentError, "key"),
        ({"pod": 5}, InvalidTypeError, "pod: must be a Pod or 'namespace/name', got int"),
        ({"command": "ls -l"}, InvalidTypeError, r"list of words.*\['sh', '-c', 'the line'\]"),
        ({"command": b"ls"}, InvalidTypeError, "list of words"),
        ({"command": []}, InvalidArgumentError, "must begin with the name of a program"),
        ({"command": [""]}, InvalidArgumentError, "must begin with the name of a program"),
        ({"command": ["ls", 5]}, InvalidTypeError, "command: must be a text"),
        ({"command": ["a\0b"]}, InvalidArgumentError, "null character"),
        ({"command": ["\ud800"]}, InvalidArgumentError, "command"),
        ({"container": 5}, InvalidTypeError, "container"),
        ({"stdin": 5}, InvalidTypeError, "stdin: must be bytes or text, got int"),
        ({"stdin": "\ud800"}, InvalidArgumentError, "stdin"),
        ({"timeout_seconds": 0}, InvalidArgumentError, "timeout_seconds"),
        ({"max_bytes": 0}, InvalidArgumentError, "max_bytes"),
    ],
)
async def test_wrong_arguments_are_refused(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises(error, match=text):
            await cluster.exec(**{"pod": "shop/web", "command": ["ls"], **options})


async def test_a_pod_may_be_given_as_an_object() -> None:
    async with running(sends(exited(0))) as (cluster, server):
        metadata = {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1"}
        with World() as world:
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
            await cluster.exec(world.kube_object(body), ["ls"])
            other = world.kube_object({**body, "kind": "ConfigMap"})
        with pytest.raises(InvalidArgumentError, match="must be a Pod, got a ConfigMap"):
            await cluster.exec(other, ["ls"])
    assert server.requests[0].path == "/api/v1/namespaces/shop/pods/web/exec"


async def test_warnings_and_figures_are_those_of_any_request() -> None:
    seen: list[tuple[str, str]] = []
    registry = MetricsRegistry()
    answer = refusal(404, "NotFound", "no", Warning='299 - "take care"')
    async with exec_serving(stays, refuse=lambda _: answer) as server:
        connecting = pyinformer.connect(
            server=server.url, metrics=registry, on_warning=lambda *what: seen.append(what)
        )
        async with connecting as cluster:
            with pytest.raises(NotFoundError):
                await cluster.exec("shop/web", COMMAND)
            counts = totals(registry, "rest_client_requests_total", "code", "method")
    assert seen == [("take care", "GET /api/v1/namespaces/shop/pods/web/exec")]
    assert counts == {("404", "GET"): 1}


async def test_a_command_fits_a_url_as_it_is() -> None:
    words = ["sh", "-c", "echo 'a b' \"$X\" && cat <x >y; # ?&=%\n\tü"]
    async with running(sends(exited(0))) as (cluster, server):
        await cluster.exec("shop/web", words)
    assert server.requests[0].query.getall("command") == words
    assert json.dumps(words)
