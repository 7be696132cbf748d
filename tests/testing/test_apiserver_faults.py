"""The fault script of the embedded API server: every kind of faulty answer."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from pyinformer.errors import InvalidArgumentError, LifecycleError
from pyinformer.testing import APIServer, Fault, FaultScript, RequestRecord
from tests.testing.wire import ALL_PODS, WATCH_LIST, Wire, pod


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        yield running


@pytest.fixture
def wire(server: APIServer) -> Iterator[Wire]:
    with Wire(server.url) as client:
        yield client


def _request(verb: str = "list", resource: str = "pods", namespace: str = "") -> RequestRecord:
    return RequestRecord(
        method="GET",
        path="/",
        query={},
        verb=verb,
        resource=resource,
        namespace=namespace,
        name="",
        headers={},
        arrived_at=0.0,
    )


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "Unauthorized"), (429, "TooManyRequests"), (500, "InternalError"), (503, None)],
)
def test_any_status_with_retry_after(
    server: APIServer, wire: Wire, status: int, reason: str | None
) -> None:
    server.faults.add(Fault(status=status, retry_after_seconds=7, message="says the test"))
    refused = wire.get(ALL_PODS)
    assert refused.status == status
    assert refused.headers["retry-after"] == "7"
    assert refused.json["details"]["retryAfterSeconds"] == 7
    assert refused.json["reason"] == (reason or "ServiceUnavailable")
    assert refused.json["message"] == "says the test"
    assert wire.get(ALL_PODS).status == 200, "by default a fault affects one request"


def test_a_watch_can_be_refused_with_any_status(server: APIServer, wire: Wire) -> None:
    server.faults.add(Fault(verb="watch", status=410, reason="Gone"))
    assert wire.get(ALL_PODS).status == 200
    refused = wire.get(ALL_PODS, watch="1")
    assert (refused.status, refused.json["reason"]) == (410, "Gone")


def test_a_body_that_is_not_json(server: APIServer, wire: Wire) -> None:
    server.faults.add(Fault(status=502, body=b"<html>", content_type="text/html"))
    answer = wire.get(ALL_PODS)
    assert (answer.status, answer.body) == (502, b"<html>")
    assert answer.headers["content-type"] == "text/html"


def test_a_body_alone_replaces_a_good_answer(server: APIServer, wire: Wire) -> None:
    server.faults.add(Fault(body=b'{"kind":"Status"}'))
    answer = wire.get(ALL_PODS)
    assert (answer.status, answer.body) == (200, b'{"kind":"Status"}')


def test_frames_are_injected_before_the_events(server: APIServer, wire: Wire) -> None:
    server.create(pod("a"))
    server.faults.add(Fault(verb="watch", frames=(b'{"type":"NEW"}\n', b"no json\n")))
    with wire.watch(ALL_PODS) as stream:
        assert stream.line() == b'{"type":"NEW"}\n'
        assert stream.line() == b"no json\n"
        assert stream.named(1) == [("ADDED", "a")]


def _whole_watch(wire: Wire) -> bytes:
    with wire.watch(ALL_PODS, timeoutSeconds=1) as stream:
        return stream.rest()


def test_a_stream_is_cut_at_every_byte_exactly_there(server: APIServer, wire: Wire) -> None:
    server.create(pod("a"))
    whole = _whole_watch(wire)
    for count in range(len(whole)):
        server.faults.add(Fault(cut_after_bytes=count, cut="end"))
        with wire.watch(ALL_PODS) as stream:
            assert stream.rest() == whole[:count]


def test_a_reset_delivers_the_bytes_before_it(server: APIServer, wire: Wire) -> None:
    server.create(pod("a"))
    server.faults.add(Fault(cut_after_bytes=17, cut="reset"))
    with wire.watch(ALL_PODS) as stream:
        assert stream.read(17) == b'{"type":"ADDED","'
        with pytest.raises(ConnectionResetError):
            stream.read(1)


def test_a_close_ends_the_connection_within_the_body(server: APIServer, wire: Wire) -> None:
    server.create(pod("a"))
    server.faults.add(Fault(cut_after_bytes=17, cut="close"))
    with wire.watch(ALL_PODS) as stream, pytest.raises(http.client.IncompleteRead) as caught:
        stream.rest()
    assert caught.value.partial == b'{"type":"ADDED","'


def test_a_list_of_megabytes_is_cut_exactly_there(server: APIServer) -> None:
    for number in range(50):
        server.create(pod(f"p{number}", annotations={"x": "y" * 100_000}))
    server.faults.add(Fault(cut_after_bytes=4_000_000, cut="close"))
    with Wire(server.url) as wire, pytest.raises(http.client.IncompleteRead) as caught:
        wire.get(ALL_PODS)
    assert len(caught.value.partial) == 4_000_000


def test_a_single_object_is_cut_too(server: APIServer, wire: Wire) -> None:
    server.create(pod("a"))
    server.faults.add(Fault(verb="get", cut_after_bytes=5, cut="end"))
    assert wire.get("/api/v1/namespaces/default/pods/a").body == b'{"kin'


def test_a_connection_is_cut_instead_of_an_answer(server: APIServer, wire: Wire) -> None:
    server.faults.add(Fault(refuse=True))
    with pytest.raises((ConnectionResetError, http.client.RemoteDisconnected)):
        wire.get(ALL_PODS)


def test_a_stream_stalls_until_it_is_released(server: APIServer, wire: Wire) -> None:
    server.create(pod("a"))
    server.faults.add(Fault(verb="watch", stall_after_bytes=10))
    with wire.watch(ALL_PODS) as stream:
        assert stream.read(10) == b'{"type":"A'
        server.faults.wait_for_held()
        server.create(pod("b"))
        assert server.faults.release() == 1
        assert stream.line().startswith(b'DDED","object":')
        assert stream.named(1) == [("ADDED", "b")]
        assert server.faults.held == 0


def test_a_stall_ends_with_its_client(server: APIServer, wire: Wire) -> None:
    server.faults.add(Fault(verb="watch", stall_after_bytes=0))
    with wire.watch(ALL_PODS):
        server.faults.wait_for_held()
    server.wait_for_watches(0)
    assert server.faults.held == 0
    with pytest.raises(TimeoutError, match="0 responses are held, not 1"):
        server.faults.wait_for_held(timeout_seconds=0.01)


def test_a_request_hangs_until_it_is_released(server: APIServer, wire: Wire) -> None:
    server.faults.add(Fault(hang=True))
    statuses: list[int] = []
    asking = threading.Thread(target=lambda: statuses.append(wire.get(ALL_PODS).status))
    asking.start()
    server.faults.wait_for_held()
    assert statuses == []
    server.faults.release()
    asking.join(100)
    assert statuses == [200]


def test_a_delay_comes_before_a_right_answer(server: APIServer, wire: Wire) -> None:
    server.faults.add(Fault(delay_seconds=0.2))
    first = wire.get(ALL_PODS)
    arrived = server.requests[0].arrived_at
    wire.get(ALL_PODS)
    assert first.status == 200
    assert server.requests[1].arrived_at - arrived >= 0.2


def test_an_expired_watch_list_can_be_an_error_event(server: APIServer, wire: Wire) -> None:
    error = b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n'
    server.faults.add(Fault(verb="watch", body=error))
    with wire.watch(ALL_PODS, **WATCH_LIST) as stream:
        assert stream.rest() == error


@pytest.mark.parametrize(
    ("fault", "applies"),
    [
        (Fault(), True),
        (Fault(verb="list"), True),
        (Fault(verb="watch"), False),
        (Fault(resource="pods"), True),
        (Fault(resource="deployments.apps"), False),
        (Fault(namespace=""), True),
        (Fault(namespace="default"), False),
        (Fault(match=lambda request: request.path == "/"), True),
        (Fault(match=lambda request: request.path == "/x"), False),
    ],
)
def test_a_fault_applies_to_requests_that_match(fault: Fault, applies: bool) -> None:
    script = FaultScript()
    script.add(fault)
    assert (script.pick(_request()) is not None) is applies


def _strikes(script: FaultScript, requests: int) -> list[Any]:
    return [script.pick(_request()) for _ in range(requests)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"cut": "nope"},
        {"probability": 1.5},
        {"skip": -1},
        {"times": -1},
        {"delay_seconds": -0.1},
        {"retry_after_seconds": -1},
    ],
)
def test_a_fault_that_cannot_be_is_refused_where_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        Fault(**wrong)


def test_stopping_ends_what_stalls_and_hangs() -> None:
    server = APIServer()
    server.faults.add(Fault(verb="watch", stall_after_bytes=0), Fault(verb="watch", hang=True))
    with server, Wire(server.url) as wire, wire.watch(ALL_PODS) as stalling:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port or 0)) as hanging:
            hanging.sendall(f"GET {ALL_PODS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            server.faults.wait_for_held(2)
            server.stop()
            assert hanging.recv(1) == b""
        assert stalling.line() == b""
    assert server.faults.held == 0


def test_a_match_cannot_change_connections_from_within(server: APIServer, wire: Wire) -> None:
    caught: list[BaseException] = []

    def match(request: RequestRecord) -> bool:
        try:
            server.drop_connections()
        except LifecycleError as error:
            caught.append(error)
        return False

    server.faults.add(Fault(match=match))
    assert wire.get(ALL_PODS).status == 200
    assert "server's own thread" in str(caught[0])


def test_a_fault_skips_requests_and_counts() -> None:
    script = FaultScript()
    script.add(Fault(status=500, skip=2, times=2))
    struck = [fault is not None for fault in _strikes(script, 6)]
    assert struck == [False, False, True, True, False, False]
    assert script.struck == 2


def test_the_first_matching_fault_applies() -> None:
    script = FaultScript()
    script.add(Fault(status=500), Fault(status=503, times=None))
    assert [fault.status for fault in _strikes(script, 3)] == [500, 503, 503]
    script.clear()
    assert _strikes(script, 1) == [None]


def test_random_faults_are_determined_by_the_seed() -> None:
    def play(seed: int) -> list[Any]:
        script = FaultScript(seed)
        script.add(Fault(probability=0.5, times=None, cut_after_bytes=(0, 1000)))
        return [fault and fault.cut_after_bytes for fault in _strikes(script, 50)]

    assert play(1) == play(1)
    assert play(1) != play(2)
    cuts = [cut for cut in play(1) if cut is not None]
    assert 10 < len(cuts) < 40
    assert all(0 <= cut <= 1000 for cut in cuts)
