"""Connection: pools that do not starve, deadlines, typed errors, no leaks."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
import sys
from contextlib import AsyncExitStack
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

from pyinformer.client.transport import ClusterConfig, StaticCredentials
from pyinformer.errors import (
    APIStatusError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidArgumentError,
    InvalidError,
    LifecycleError,
    NotFoundError,
    ProtocolError,
    RequestTimeoutError,
    ResourceExpiredError,
    ResourceVersionTooLargeError,
    ServerError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
)
from tests.client.transport.serving import (
    CHUNKED,
    always,
    chunk,
    connected,
    response,
    serving,
    silence,
)
from tests.waiting import settle

if TYPE_CHECKING:
    from tests.client.transport.serving import Request

pytestmark = pytest.mark.every_loop

EVENTS = [b'{"type":"ADDED","object":{"n":%d}}\n' % i for i in range(3)]
STREAM = CHUNKED + b"".join(map(chunk, EVENTS)) + b"0\r\n\r\n"


async def watch_and_write(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer a watch with one event and then silence, everything else with an object."""
    if "watch=true" in request.target:
        writer.write(CHUNKED + chunk(EVENTS[0]))
        await asyncio.Event().wait()
    writer.write(response(b'{"kind":"Pod"}'))


async def test_a_stream_delivers_the_body_and_then_always_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        serving(always(STREAM)) as server,
        connected(server.url) as connection,
        connection.stream("/api/v1/pods", [("watch", "true")], watch=True) as body,
    ):
        data = b""
        while part := await body.read():
            data += part

        assert data == b"".join(EVENTS)
        assert [await body.read() for _ in range(10)] == [b""] * 10
        # The loop in debug mode warns of a busy machine, too.
        warnings = [record for record in caplog.records if record.levelname == "WARNING"]
        assert not [w for w in warnings if not w.getMessage().startswith("Executing ")]


@pytest.mark.covers(
    "client-go rest: TestNewRequestSetsAccept",
    "kube-client src: decodes_percent_escapes_before_basic_auth_encoding",
)
async def test_every_request_has_user_agent_and_accept_headers() -> None:
    async with serving(always(response())) as server, connected(server.url) as connection:
        async with connection.stream("/a", [("x", "é &="), ("y", "a,b")], watch=True):
            pass
        await connection.request("PUT", "/b", body=b"{}")

    watch, put = server.requests
    assert watch.target == "/a?x=%C3%A9+%26%3D&y=a%2Cb"
    assert watch.headers["accept-encoding"] == put.headers["accept-encoding"] == "identity"
    assert watch.headers["accept"] == "application/json"
    assert watch.headers["user-agent"].startswith("pyinformer/")
    assert (put.method, put.body) == ("PUT", b"{}")
    assert put.headers["content-type"] == "application/json"


@pytest.mark.covers(
    "client-go rest: TestRequestPreservesBaseTrailingSlash", "kube-client src: normal_host"
)
async def test_a_server_behind_a_path_prefix_is_requested_below_it() -> None:
    async with (
        serving(always(response())) as server,
        connected(f"{server.url}/k8s/clusters/c-1/") as connection,
    ):
        await connection.request("GET", "/api/v1/pods")

    assert server.requests[0].target == "/k8s/clusters/c-1/api/v1/pods"


async def test_a_put_goes_through_beside_150_open_watches() -> None:
    async with (
        serving(watch_and_write) as server,
        connected(server.url) as connection,
        AsyncExitStack() as watches,
    ):
        for _ in range(150):
            stream = connection.stream("/api/v1/pods", [("watch", "true")], watch=True)
            body = await watches.enter_async_context(stream)
            assert await body.read() == EVENTS[0]

        answer = await connection.request("PUT", "/api/v1/pods/a", body=b"{}")

        assert answer == b'{"kind":"Pod"}'
        assert server.open_connections == 151


async def test_an_exhausted_pool_is_reported_and_recovers() -> None:
    async with (
        serving(always(CHUNKED + chunk(b"{"))) as server,
        connected(server.url, max_request_connections=2, acquire_seconds=0.05) as connection,
    ):
        async with connection.stream("/a", watch=False), connection.stream("/a", watch=False):
            with pytest.raises(
                RequestTimeoutError, match="exhausted: all of the 2 connections"
            ) as caught:
                await connection.request("GET", "/api/v1/pods")
            assert caught.value.waited_seconds == 0.05
            assert caught.value.url == f"{server.url}/api/v1/pods"
        async with connection.stream("/a", watch=False) as body:
            assert await body.read() == b"{"


async def test_writes_that_wait_leave_connections_for_reads() -> None:
    """As for a webhook that does not answer."""
    release = asyncio.Event()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "POST":
            await release.wait()
        writer.write(response(b'{"kind":"Pod"}'))

    async with (
        serving(answer) as server,
        connected(server.url, max_request_connections=4, acquire_seconds=0.05) as connection,
        asyncio.TaskGroup() as writes,
    ):
        for _ in range(3):
            writes.create_task(connection.request("POST", "/api/v1/pods", body=b"{}"))
        await server.wait_until(lambda: server.open_connections == 3)
        assert await connection.request("GET", "/api/v1/pods/a") == b'{"kind":"Pod"}'
        with pytest.raises(RequestTimeoutError, match="all of the 3 connections that writes may"):
            await connection.request("POST", "/api/v1/pods", body=b"{}")
        release.set()


async def test_leaving_a_stream_closes_its_connection() -> None:
    async with serving(watch_and_write) as server, connected(server.url) as connection:
        async with connection.stream("/a", [("watch", "true")], watch=True) as body:
            await body.read()
        await server.wait_until(lambda: server.open_connections == 0)

        with pytest.raises(TransportError, match="lost"):
            await body.read()


async def test_requests_reuse_their_connection() -> None:
    async with serving(always(response())) as server, connected(server.url) as connection:
        for _ in range(5):
            await connection.request("PUT", "/a", body=b"{}")

        assert server.open_connections == 1


ERRORS = [
    pytest.param(400, BadRequestError, id="400"),
    pytest.param(401, UnauthorizedError, id="401"),
    pytest.param(403, ForbiddenError, id="403"),
    pytest.param(404, NotFoundError, id="404"),
    pytest.param(409, ConflictError, id="409"),
    pytest.param(410, ResourceExpiredError, id="410"),
    pytest.param(418, APIStatusError, id="418"),
    pytest.param(422, InvalidError, id="422"),
    pytest.param(429, TooManyRequestsError, id="429"),
    pytest.param(500, ServerError, id="500"),
    pytest.param(503, ServerError, id="503"),
    pytest.param(302, APIStatusError, id="302-is-not-followed"),
]
STATUS = b'{"kind":"Status","reason":"Why","message":"the server says","code":1}'


@pytest.mark.covers(
    "client-go rest: TestDoRequestSuccess",
    "kube-client src: test_watch_error_response_is_surfaced",
    "client-go rest: TestRequestWatch",
)
@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize(("status", "expected"), ERRORS)
async def test_a_refusal_is_the_error_of_its_status(
    status: int, expected: type[APIStatusError], watch: bool
) -> None:
    answer = always(response(STATUS, status=status, headers={"Location": "/elsewhere"}))
    async with serving(answer) as server, connected(server.url) as connection:
        with pytest.raises(expected) as caught:
            async with connection.stream("/a", watch=watch, what="list pods.v1"):
                pass
        with pytest.raises(expected, match="DELETE /b"):
            await connection.request("DELETE", "/b")

    assert type(caught.value) is expected
    words, _, needed = str(caught.value).partition("; ")
    assert words == f"list pods.v1: {status} Why: the server says"
    assert bool(needed) == (expected is ForbiddenError), "which right is missing"
    assert {request.target for request in server.requests} == {"/a", "/b"}


@pytest.mark.covers(
    "client-go rest: TestDoRequestSuccess",
    "client-go rest: TestTransformResponse",
    "kube-client src: test_non_json_error_response_is_reconstructed",
)
@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"404 page not found\n", "404 page not found", id="text"),
        pytest.param(b"<html>\n<b>Bad</b>\n</html>", "<html> <b>Bad</b> </html>", id="html"),
        pytest.param(b"", "", id="empty"),
        pytest.param(b'{"error":"x"}', "", id="other-json"),
        pytest.param(b'["x"]', '["x"]', id="array"),
        pytest.param(b"\xff\xfe", "\ufffd\ufffd", id="binary"),
        pytest.param(b"x" * 200_000, "x" * 500, id="long"),
    ],
)
async def test_a_refusal_with_any_body_is_typed_by_its_status(body: bytes, message: str) -> None:
    answer = always(response(body, status=503, headers={"Content-Type": "text/html"}))
    async with serving(answer) as server, connected(server.url) as connection:
        with pytest.raises(ServerError) as caught:
            await connection.request("GET", "/a")

    assert caught.value.message == message


async def test_a_refusal_whose_body_is_cut_off_keeps_its_status() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(STATUS, status=410)[:-20])
        await writer.drain()
        writer.transport.abort()

    async with serving(answer) as server, connected(server.url) as connection:
        with pytest.raises(ResourceExpiredError):
            await connection.request("GET", "/a")


async def test_a_refusal_carries_retry_after_and_causes() -> None:
    body = b'{"code":504,"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}'
    answer = always(response(body, status=504, headers={"Retry-After": "7"}))
    async with serving(answer) as server, connected(server.url) as connection:
        with pytest.raises(ResourceVersionTooLargeError) as caught:
            await connection.request("GET", "/a")

    assert caught.value.retry_after_seconds == 7.0
    assert caught.value.causes == ("ResourceVersionTooLarge",)


@pytest.mark.covers("client-go rest: TestDoRequestNotCreated")
@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_a_success_may_have_any_status_of_its_class(status: int) -> None:
    body = b"" if status == HTTPStatus.NO_CONTENT else b'{"kind":"Pod"}'
    answer = always(response(body, status=status))
    async with serving(answer) as server, connected(server.url) as connection:
        assert await connection.request("POST", "/a", body=b"{}") == body


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/a/services/grafana:80/proxy/",
        "/api/v1/namespaces/a/pods/b/proxy",
        "/api/v1/nodes/n/proxy/logs/",
        "/apis/cluster.karmada.io/v1alpha1/clusters/c/proxy/docs",
    ],
)
async def test_a_web_page_of_a_proxied_service_is_read(path: str) -> None:
    page = b"<html>dashboard</html>"
    answer = always(response(page, headers={"Content-Type": "text/html; charset=utf-8"}))
    async with serving(answer) as server, connected(server.url) as connection:
        assert await connection.request("GET", path) == page
        for other in ("/api/v1/namespaces/proxy/pods", "/proxy/", "/api/v1/namespaces/a/pods/b"):
            with pytest.raises(ProtocolError, match="web page"):
                await connection.request("GET", other)


@pytest.mark.covers(
    "client-go rest: TestTransformResponse", "client-go rest: TestWatchNonDefaultContentType"
)
async def test_a_web_page_with_status_200_is_a_protocol_error() -> None:
    answer = always(response(b"<html>log in</html>", headers={"Content-Type": "text/html"}))
    async with serving(answer) as server, connected(server.url) as connection:
        with pytest.raises(ProtocolError, match="web page"):
            async with connection.stream("/a", watch=False):
                pass


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(
            response(b"<html>log in</html>", headers={"Content-Type": "text/html"}), id="web-page"
        ),
        pytest.param(response(b"x" * (1 + (64 << 20))), id="too-long"),
    ],
)
async def test_a_write_with_no_usable_answer_says_that_its_outcome_is_not_known(
    answer: bytes,
) -> None:
    async with serving(always(answer)) as server, connected(server.url) as connection:
        with pytest.raises(ProtocolError, match="carried out the POST is not known"):
            await connection.request("POST", "/a", body=b"{}")


@pytest.mark.covers("kube-client src: watch_nested_non_eof_io_error_is_read_events")
@pytest.mark.parametrize("how", ["abort", "close"])
@pytest.mark.parametrize("cut", range(len(CHUNKED), len(STREAM), 7))
@pytest.mark.exhaustive
async def test_a_body_cut_at_any_byte_is_a_transport_error(cut: int, how: str) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM[:cut])
        await writer.drain()
        if how == "abort":
            writer.transport.abort()
        else:
            writer.close()

    data = b""
    async with serving(answer) as server, connected(server.url) as connection:
        with pytest.raises(TransportError, match="the connection was lost") as caught:
            async with connection.stream("/a", watch=True) as body:
                while part := await body.read():
                    data += part

    assert b"".join(EVENTS).startswith(data)
    assert caught.value.url == f"{server.url}/a"


@pytest.mark.parametrize("cut", [0, 5, len(CHUNKED) - 1])
async def test_headers_cut_off_are_a_transport_error(cut: int) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM[:cut])
        writer.close()

    async with serving(answer) as server, connected(server.url) as connection:
        with pytest.raises(TransportError):
            await connection.request("PUT", "/a", body=b"{}")


async def test_an_answer_that_is_not_http_is_a_protocol_error() -> None:
    async with (
        serving(always(b"SSH-2.0-OpenSSH\r\n\r\n")) as server,
        connected(server.url) as connection,
    ):
        with pytest.raises(ProtocolError, match="not HTTP"):
            await connection.request("GET", "/a")


async def test_an_answer_that_is_not_http_is_quoted_in_part() -> None:
    garbage = always(b"\x00" * 8_000 + b"\r\n\r\n")
    async with serving(garbage) as server, connected(server.url) as connection:
        with pytest.raises(ProtocolError, match="not HTTP") as caught:
            await connection.request("GET", "/a")
    assert len(str(caught.value)) < 1_000


async def test_a_refused_connection_names_the_host() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        async with connected(f"http://127.0.0.1:{port}") as connection:
            with pytest.raises(TransportError, match=f"cannot connect to 127.0.0.1:{port}: ") as e:
                await connection.request("GET", "/a")

    assert e.value.is_unreachable
    assert not isinstance(e.value, TimeoutError)


async def test_a_refused_connection_to_the_proxy_names_the_proxy() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        proxy = f"http://u:s3cret@127.0.0.1:{port}"
        config = ClusterConfig(server="http://host.invalid", proxy_url=proxy)
        async with connected("", config=config) as connection:
            with pytest.raises(TransportError, match=f"the proxy 127.0.0.1:{port}: ") as lost:
                await connection.request("GET", "/a")
    assert "s3cret" not in str(lost.value)


async def test_an_unknown_host_is_named() -> None:
    async with connected("http://no-such-host.invalid") as connection:
        with pytest.raises(TransportError, match=r"cannot resolve .*no-such-host\.invalid"):
            await connection.request("GET", "/a")


@pytest.mark.covers("client-go rest: TestRestClientTimeout")
async def test_a_silent_server_is_a_timeout_in_every_phase() -> None:
    async with (
        serving(silence) as server,
        connected(server.url, headers_seconds=0.3) as connection,
    ):
        with pytest.raises(RequestTimeoutError, match=r"no answer within 0\.3 s"):
            async with connection.stream("/a", watch=True):
                pass
        with pytest.raises(RequestTimeoutError, match=r"no answer within 0\.2 s") as caught:
            await connection.request("GET", "/a", timeout_seconds=0.2)
        await server.wait_until(lambda: server.open_connections == 0)

    assert caught.value.waited_seconds == 0.2


async def test_a_tls_handshake_that_is_never_answered_is_a_timeout() -> None:
    async with (
        serving(silence) as server,
        connected(server.url.replace("http:", "https:"), connect_seconds=0.05) as connection,
    ):
        with pytest.raises(RequestTimeoutError, match="no connection within"):
            await connection.request("GET", "/a")


async def test_a_list_that_falls_silent_is_a_timeout() -> None:
    async with (
        serving(watch_and_write) as server,
        connected(server.url, idle_seconds=0.05) as connection,
        connection.stream("/a", [("watch", "true")], watch=False) as body,
    ):
        assert await body.read() == EVENTS[0]
        with pytest.raises(RequestTimeoutError):
            await body.read()


async def test_a_list_may_take_its_time_to_begin() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        ready = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, ready.set)
        await ready.wait()
        writer.write(response(b"{}"))

    async with (
        serving(answer) as server,
        connected(server.url, idle_seconds=0.02) as connection,
        connection.stream("/a", watch=False) as body,
    ):
        assert await body.read() == b"{}"


async def test_a_watch_may_be_silent_and_ends_at_its_deadline() -> None:
    async with (
        serving(watch_and_write) as server,
        connected(server.url, idle_seconds=0.01) as connection,
    ):
        stream = connection.stream("/a", [("watch", "true")], watch=True, deadline_seconds=0.1)
        async with stream as body:
            assert await body.read() == EVENTS[0]
            with pytest.raises(RequestTimeoutError, match=r"still open 0\.1 s after it began"):
                await body.read()
            with pytest.raises(RequestTimeoutError):
                await body.read()


async def test_the_deadline_of_a_stream_that_was_left_does_nothing() -> None:
    passed = asyncio.Event()
    async with serving(watch_and_write) as server, connected(server.url) as connection:
        stream = connection.stream("/a", [("watch", "true")], watch=True, deadline_seconds=0.05)
        async with stream as body:
            pass
        asyncio.get_running_loop().call_later(0.1, passed.set)
        await passed.wait()
        with pytest.raises(TransportError) as caught:
            await body.read()

    assert not isinstance(caught.value, RequestTimeoutError)


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
async def test_a_timeout_of_zero_is_refused_at_the_call(seconds: float) -> None:
    async with connected("http://127.0.0.1:1") as connection:
        with pytest.raises(InvalidArgumentError, match="timeout_seconds"):
            await connection.request("GET", "/a", timeout_seconds=seconds)


class Rotating:
    """Credentials that are new after each refusal."""

    def __init__(self) -> None:
        self.generation = 0

    async def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.generation}"}

    def invalidate(self) -> None:
        self.generation += 1


@pytest.mark.covers("kube-client src: valid_token")
async def test_a_401_is_tried_once_more_with_fresh_credentials() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        good = request.headers["authorization"] == "Bearer 1"
        writer.write(response(b"{}", status=200 if good else 401))

    credentials = Rotating()
    async with (
        serving(answer) as server,
        connected(server.url, credentials=credentials) as connection,
    ):
        assert await connection.request("GET", "/a") == b"{}"
        credentials.generation = 5
        with pytest.raises(UnauthorizedError):
            await connection.request("GET", "/a")

    assert len(server.requests) == 4


@pytest.mark.parametrize("status", [200, 301, 401, 403, 429, 500])
async def test_any_answer_to_a_probe_proves_a_server_and_no_credentials_are_sent(
    status: int,
) -> None:
    credentials = Rotating()
    async with (
        serving(always(response(b"ok", status=status))) as server,
        connected(server.url, credentials=credentials) as connection,
    ):
        assert await connection.probe(5.0)
        assert await connection.probe(5.0)
        await server.wait_until(lambda: not server.open_connections)
    assert [one.target for one in server.requests] == ["/livez", "/livez"]
    assert not any("authorization" in one.headers for one in server.requests)
    assert credentials.generation == 0, "nothing is renewed"


async def test_a_server_that_is_silent_gone_or_not_http_does_not_answer() -> None:
    async with serving(silence) as server, connected(server.url) as connection:
        assert not await connection.probe(0.05)
    async with connected(server.url) as connection:
        assert not await connection.probe(5.0)
    async with serving(always(b"nonsense\r\n\r\n")) as server, connected(server.url) as connection:
        assert not await connection.probe(5.0)
        await connection.aclose()
        assert not await connection.probe(5.0)


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_gateway_error_of_a_load_balancer_is_not_an_answer_to_a_probe(status: int) -> None:
    async with (
        serving(always(response(b"no backend", status=status))) as server,
        connected(server.url) as connection,
    ):
        assert not await connection.probe(5.0)
        await server.wait_until(lambda: not server.open_connections)


async def test_cancelling_a_probe_closes_its_connection() -> None:
    async with serving(silence) as server, connected(server.url) as connection:
        task = asyncio.create_task(connection.probe(60.0))
        await server.wait_until(lambda: bool(server.requests))
        await cancel(task)
        await server.wait_until(lambda: not server.open_connections)


@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
@pytest.mark.parametrize("watch", [False, True])
async def test_a_reader_that_waits_is_woken_when_the_connection_is_closed(
    http_client: str, *, watch: bool
) -> None:
    async with (
        serving(always(CHUNKED + chunk(b"a"))) as server,
        connected(server.url, http_client=http_client, idle_seconds=300.0) as connection,
        connection.stream("/a", watch=watch) as body,
    ):
        assert await body.read() == b"a"
        reader = asyncio.create_task(body.read())
        await settle()
        await connection.aclose()
        async with asyncio.timeout(60):
            with pytest.raises(TransportError, match="the connection was lost"):
                await reader


async def test_a_closed_connection_refuses_and_its_streams_fail() -> None:
    async with serving(watch_and_write) as server, connected(server.url) as connection:
        async with connection.stream("/a", [("watch", "true")], watch=True) as body:
            await body.read()
            await connection.aclose()
            with pytest.raises(TransportError):
                await body.read()
        with pytest.raises(LifecycleError):
            await connection.request("GET", "/a")


async def cancel(task: asyncio.Task[object]) -> None:
    """Cancel a task and check that it ends as cancelled."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.covers("client-go rest: TestRequestWatch", "client-go rest: TestTransportConcurrency")
async def test_cancelling_a_request_frees_its_place_and_its_connection() -> None:
    async with (
        serving(silence) as server,
        connected(server.url, max_request_connections=1) as connection,
    ):
        for asked in range(1, 4):
            task = asyncio.create_task(connection.request("GET", "/a"))
            await server.wait_until(lambda: len(server.requests) == asked)  # noqa: B023 - awaited here
            await cancel(task)
        await server.wait_until(lambda: server.open_connections == 0)


async def test_cancelling_a_waiter_for_a_connection_takes_none() -> None:
    async with (
        serving(watch_and_write) as server,
        connected(server.url, max_request_connections=1) as connection,
    ):
        async with connection.stream("/a", [("watch", "true")], watch=False):
            waiting = asyncio.create_task(connection.request("PUT", "/b"))
            await asyncio.sleep(0)
            await cancel(waiting)

        assert await connection.request("PUT", "/b") == b'{"kind":"Pod"}'


async def test_cancelling_a_stream_that_opens_frees_its_place() -> None:
    async def open_stream() -> None:
        async with connection.stream("/a", watch=False):
            pass

    async with (
        serving(silence) as server,
        connected(server.url, max_request_connections=1) as connection,
    ):
        for asked in range(1, 3):
            task = asyncio.create_task(open_stream())
            await server.wait_until(lambda: len(server.requests) == asked)  # noqa: B023 - awaited here
            await cancel(task)
        await server.wait_until(lambda: server.open_connections == 0)


async def test_cancelling_a_read_takes_nothing() -> None:
    go = asyncio.Event()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(EVENTS[0]))
        await go.wait()
        writer.write(chunk(EVENTS[1]) + b"0\r\n\r\n")

    async with (
        serving(answer) as server,
        connected(server.url) as connection,
        connection.stream("/a", watch=True) as body,
    ):
        assert await body.read() == EVENTS[0]
        waiting = asyncio.create_task(body.read())
        await asyncio.sleep(0)
        await cancel(waiting)
        go.set()
        assert await body.read() == EVENTS[1]
        assert await body.read() == b""


@pytest.mark.covers("client-go transport: TestTokenSourceTransportRoundTrip")
async def test_a_request_cancelled_while_credentials_are_made_sends_nothing() -> None:
    class Slow:
        async def headers(self) -> dict[str, str]:
            await asyncio.Event().wait()
            return {}

        def invalidate(self) -> None: ...

    async with (
        serving(silence) as server,
        connected(server.url, credentials=Slow(), headers_seconds=0.05) as connection,
    ):
        task = asyncio.create_task(connection.request("GET", "/a"))
        await asyncio.sleep(0)
        await cancel(task)
        with pytest.raises(RequestTimeoutError):
            await connection.request("GET", "/a")

    assert server.requests == []


async def test_closing_while_cancelled_closes() -> None:
    async with serving(always(response())) as server, connected(server.url) as connection:
        await connection.request("GET", "/a")
        task = asyncio.create_task(connection.aclose())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await server.wait_until(lambda: server.open_connections == 0)


@pytest.mark.covers(
    "client-go rest: TestConfigStringer", "kube-client src: authinfo_debug_does_not_output_password"
)
async def test_secrets_are_in_no_repr() -> None:
    async with connected("http://127.0.0.1:1", credentials=StaticCredentials.bearer("s3cret")) as c:
        assert "s3cret" not in repr(c) + repr(c.config) + repr(c.config.credentials)


@pytest.mark.covers("client-go rest: TestSetKubernetesDefaultsUserAgent")
async def test_the_user_agent_is_the_installed_version() -> None:
    async with serving(always(response())) as server, connected(server.url) as connection:
        await connection.request("GET", "/a")
        assert server.requests[0].headers["user-agent"] == f"pyinformer/{version('pyinformer')}"


class _SlowCredentials:
    """Credentials that are available once a test sets `may_return`."""

    def __init__(self) -> None:
        self.were_requested = asyncio.Event()
        self.may_return = asyncio.Event()

    async def headers(self) -> dict[str, str]:
        self.were_requested.set()
        await self.may_return.wait()
        return {}

    def invalidate(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_request_that_waits_for_credentials_is_not_sent_after_aclose(method: str) -> None:
    """Its connection would be closed by nothing."""
    credentials = _SlowCredentials()
    async with (
        serving(always(response())) as server,
        connected(server.url, credentials=credentials) as connection,
    ):
        task = asyncio.create_task(connection.request(method, "/a"))
        await credentials.were_requested.wait()
        await connection.aclose()
        credentials.may_return.set()
        with pytest.raises(LifecycleError, match="is closed"):
            await task
        assert not server.requests


async def test_a_write_for_which_the_process_had_no_descriptor_was_not_sent() -> None:
    async with serving(always(response())) as server, connected(server.url) as connection:
        async with connected(server.url) as earlier:
            await earlier.request("POST", "/a", body=b"{}")  # imports all that sends
        server.requests.clear()
        os.close(lowest_free := os.dup(0))
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
        try:
            with pytest.raises(TransportError) as refused:
                await connection.request("POST", "/a", body=b"{}")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert not server.requests

    host = server.url.removeprefix("http://")
    assert str(refused.value).endswith(f"cannot connect to {host}: Too many open files")


_WITHOUT_DESCRIPTORS = """
import asyncio, os, resource
import anyio.lowlevel
from pyinformer.errors import TransportError
from pyinformer.client.transport import ClusterConfig, Connection

async def send():
    connection = Connection(ClusterConfig(server="http://127.0.0.1:1"))
    await anyio.lowlevel.checkpoint()  # imports its own modules
    os.close(lowest_free := os.dup(0))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    try:
        await connection.request("POST", "/a", body=b"{}")
    except TransportError as error:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        print(error)
    await connection.aclose()

asyncio.run(send())
"""


def test_a_first_write_for_which_the_process_had_no_descriptor_was_not_sent() -> None:
    """It cannot even import what sends."""
    run = [sys.executable, "-c", _WITHOUT_DESCRIPTORS]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("cannot connect to 127.0.0.1:1: Too many open files\n")
