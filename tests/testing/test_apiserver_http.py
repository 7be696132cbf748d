"""The embedded server takes the requests that Go's HTTP server takes: old clients, long heads."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import pytest

from pyinformer.testing import APIServer
from tests.testing.wire import ALL_PODS, Wire, pod

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONG = 100_000  # characters; Go reads heads of a megabyte


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as server:
        yield server


def answer_to(server: APIServer, request: str) -> tuple[str, bytes]:
    """Send a request; return the first line of its answer and the body, which the close ends."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(request.encode())
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    return head.split(b"\r\n")[0].decode(), body


@pytest.mark.parametrize("query", ["", "?limit=1"])
def test_a_client_of_http_1_0_gets_a_whole_list_and_the_end(server: APIServer, query: str) -> None:
    server.create(pod("a"))

    line, body = answer_to(server, f"GET {ALL_PODS}{query} HTTP/1.0\r\n\r\n")

    assert line.endswith(" 200 OK")
    assert [one["metadata"]["name"] for one in json.loads(body)["items"]] == ["a"]


def test_a_client_of_http_1_0_gets_the_events_of_a_watch(server: APIServer) -> None:
    server.create(pod("a"))
    request = f"GET {ALL_PODS}?watch=1&resourceVersion=0&timeoutSeconds=1 HTTP/1.0\r\n\r\n"

    line, body = answer_to(server, request)

    assert line.endswith(" 200 OK")
    assert [json.loads(one)["type"] for one in body.splitlines()] == ["ADDED"]


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        pytest.param(
            f"?labelSelector={quote('app in (' + 'a,' * (_LONG // 2) + 'b)')}", {}, id="url"
        ),
        pytest.param("", {"Authorization": f"Bearer {'t' * _LONG}"}, id="token"),
        pytest.param("", {f"X-{number}": "a" for number in range(1000)}, id="many"),
    ],
)
def test_a_head_may_be_as_long_as_go_reads(
    server: APIServer, path: str, headers: dict[str, str]
) -> None:
    with Wire(server.url) as wire:
        assert wire.request("GET", f"{ALL_PODS}{path}", headers=headers).status == 200
