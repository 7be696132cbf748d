"""Answers of servers and proxies that public reports describe; docs/reference/field-reports.md."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import pytest
from msgspec import json

from pyinformer.errors import APIStatusError, ForbiddenError, TransportError
from tests.client.transport.serving import CHUNKED, always, chunk, connected, response, serving
from tests.waiting import settle

if TYPE_CHECKING:
    from tests.client.transport.serving import Request

OBJECT = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}'
TIMEOUT_408 = (
    b"HTTP/1.0 408 Request Time-out\r\nConnection: close\r\nContent-Type: text/html\r\n\r\n"
    b"<html><body><h1>408 Request Time-out</h1></body></html>\n"
)
FAILURE = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403}


@pytest.mark.parametrize("closes", [False, True])
async def test_bytes_on_an_idle_connection_answer_no_later_request(closes: bool) -> None:
    idle: list[asyncio.StreamWriter] = []

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(OBJECT))
        await writer.drain()
        idle.append(writer)

    async with serving(answer) as server, connected(server.url) as connection:
        assert await connection.request("GET", "/first") == OBJECT
        (writer,) = idle
        writer.write(TIMEOUT_408)
        if closes:
            writer.close()
        await settle()  # the bytes have arrived
        assert await connection.request("DELETE", "/second") == OBJECT
        assert [one.target for one in server.requests] == ["/first", "/second"]


async def test_a_failure_in_a_response_of_success_is_a_failure() -> None:
    body = json.encode({**FAILURE, "reason": "Forbidden", "message": "the backend refused"})
    async with serving(always(response(body))) as server, connected(server.url) as connection:
        for method in ("GET", "POST", "PATCH", "DELETE"):
            with pytest.raises(ForbiddenError, match="403 Forbidden: the backend refused"):
                await connection.request(method, "/a")


async def test_a_failure_in_a_response_of_success_without_a_code_is_a_server_error() -> None:
    body = json.encode({"kind": "Status", "status": "Failure", "message": "no"})
    async with serving(always(response(body))) as server, connected(server.url) as connection:
        with pytest.raises(APIStatusError, match="500: no"):
            await connection.request("DELETE", "/a")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(json.encode({"kind": "Status", "status": "Success"}), id="success"),
        pytest.param(json.encode({"kind": "Pod", "status": "Failure"}), id="other-kind"),
        pytest.param(b'"Status" "Failure"', id="no-object"),
    ],
)
async def test_other_bodies_with_the_words_of_a_failure_are_returned(body: bytes) -> None:
    async with serving(always(response(body))) as server, connected(server.url) as connection:
        assert await connection.request("DELETE", "/a") == body


async def test_a_deletion_that_was_accepted_is_a_success() -> None:
    body = json.encode({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 202})
    answer = response(body, status=202)
    async with serving(always(answer)) as server, connected(server.url) as connection:
        assert await connection.request("DELETE", "/a") == body


async def test_headers_of_tens_of_kilobytes_are_read() -> None:
    headers = {"Content-Security-Policy": "x" * 60_000} | {f"X-{n}": "y" for n in range(300)}
    answer = response(OBJECT, headers=headers)
    async with serving(always(answer)) as server, connected(server.url) as connection:
        assert await connection.request("GET", "/a") == OBJECT
        async with connection.stream("/a", watch=False) as body:
            assert await body.read() == OBJECT


async def test_a_redirect_names_where_it_leads_and_is_not_followed() -> None:
    to = {"Location": "https://user:secret@secure.example:6443/api/v1?token=secret"}
    answer = response(b"", status=301, headers=to)
    async with serving(always(answer)) as server, connected(server.url) as connection:
        with pytest.raises(APIStatusError) as raised:
            await connection.request("DELETE", "/a")
        assert "redirected to https://secure.example:6443, which is not followed" in str(
            raised.value
        )
        assert "secret" not in str(raised.value)
        with pytest.raises(APIStatusError, match=r"redirected to https://secure\.example:6443"):
            async with connection.stream("/a", watch=True):
                pass
        assert [one.method for one in server.requests] == ["DELETE", "GET"]


async def test_a_cookie_of_a_load_balancer_is_not_sent_back() -> None:
    answer = response(OBJECT, headers={"Set-Cookie": "SERVERID=dead; Path=/"})
    async with serving(always(answer)) as server, connected(server.url) as connection:
        for _ in range(2):
            await connection.request("GET", "/a")
        assert not any("cookie" in one.headers for one in server.requests)


@pytest.mark.parametrize("cut", [0, 7])
async def test_a_body_of_http_1_0_ends_with_its_connection(cut: int) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + OBJECT[: len(OBJECT) - cut])
        writer.close()

    async with serving(answer) as server, connected(server.url) as connection:
        found = await connection.request("GET", "/a")
        assert found == OBJECT[: len(OBJECT) - cut]  # the decoder refuses what is cut off


async def test_a_body_that_was_compressed_without_request_is_read() -> None:
    packed = response(gzip.compress(OBJECT), headers={"Content-Encoding": "gzip"})
    async with serving(always(packed)) as server, connected(server.url) as connection:
        assert await connection.request("GET", "/a") == OBJECT


async def test_text_that_a_proxy_appends_to_a_watch_comes_after_its_events() -> None:
    event = b'{"type":"ADDED","object":{"n":1}}\n'
    answer = CHUNKED + chunk(event) + chunk(b"upstream request timeout") + chunk(b"")
    found = b""
    async with (
        serving(always(answer)) as server,
        connected(server.url) as connection,
        connection.stream("/a", watch=True) as body,
    ):
        while part := await body.read():
            found += part
    assert found == event + b"upstream request timeout"


async def test_an_open_connection_that_was_told_408_at_once_is_a_status_error() -> None:
    async with serving(always(TIMEOUT_408)) as server, connected(server.url) as connection:
        with pytest.raises((APIStatusError, TransportError), match="408"):
            await connection.request("GET", "/a", timeout_seconds=100)
