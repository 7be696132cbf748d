"""Watches of the embedded API server: events, history, bookmarks, watch-list, expiry, restarts."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from pyinformer.errors import InvalidArgumentError
from pyinformer.testing import APIServer
from tests.testing.wire import ALL_PODS, PODS, WATCH_LIST, Stream, Wire, pod

_END = {"k8s.io/initial-events-end": "true"}


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        yield running


@pytest.fixture
def wire(server: APIServer) -> Iterator[Wire]:
    with Wire(server.url) as client:
        yield client


def _now(server: APIServer, **query: Any) -> dict[str, Any]:
    return {"resourceVersion": server.resource_version, **query}


def _event(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "reason": "Test"}


def _error(stream: Stream) -> dict[str, Any]:
    kind, status = stream.event()
    assert (kind, status["kind"]) == ("ERROR", "Status")
    assert stream.rest() == b""
    return dict(status)


def test_a_watch_follows_from_its_resource_version(server: APIServer, wire: Wire) -> None:
    server.create(pod("before"))
    with wire.watch(ALL_PODS, **_now(server)) as stream:
        server.create(pod("a"))
        server.patch("v1", "pods", "a", {"metadata": {"labels": {"x": "1"}}})
        server.delete("v1", "pods", "a")
        assert stream.named(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


@pytest.mark.covers("client-go rest/watch: TestEncodeDecodeRoundTrip")
def test_a_watch_line_is_an_event_with_kind_and_api_version(server: APIServer, wire: Wire) -> None:
    with wire.watch(ALL_PODS, **_now(server)) as stream:
        server.create(pod("a"))
        line = stream.line()
        head = b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"'
        assert line.startswith(head)
        assert line.endswith(b"}}\n")


def test_a_custom_object_in_a_watch_has_sorted_keys(server: APIServer, wire: Wire) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    widget = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}}
    with wire.watch("/apis/example.com/v1/widgets", **_now(server)) as stream:
        server.create(widget)
        assert stream.line().startswith(
            b'{"type":"ADDED","object":{"apiVersion":"example.com/v1","kind":"Widget","metadata":{'
        )


def test_each_event_is_a_chunk_of_its_own(server: APIServer) -> None:
    address = urlsplit(server.url)
    start = server.resource_version
    for name in "abc":
        server.create(pod(name))
    with socket.create_connection((address.hostname, address.port or 0)) as raw:
        query = f"watch=1&resourceVersion={start}&timeoutSeconds=1"
        raw.sendall(f"GET {ALL_PODS}?{query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            received += raw.recv(65536)
    body = received.partition(b"\r\n\r\n")[2]
    for _ in "abc":
        size, _, body = body.partition(b"\r\n")
        chunk, body = body[: int(size, 16)], body[int(size, 16) + 2 :]
        assert json.loads(chunk)["type"] == "ADDED"
    assert body == b"0\r\n\r\n"


def test_a_delete_carries_the_last_state_under_its_own_resource_version(
    server: APIServer, wire: Wire
) -> None:
    created = server.create(pod("a", labels={"x": "last"}))
    with wire.watch(ALL_PODS, **_now(server)) as stream:
        server.delete("v1", "pods", "a")
        _, gone = stream.event()
    created["metadata"]["resourceVersion"] = server.resource_version
    assert gone == created


def test_a_namespaced_watch_sees_its_namespace_only(server: APIServer, wire: Wire) -> None:
    with wire.watch("/api/v1/namespaces/x/pods", **_now(server)) as stream:
        server.create(pod("a"))
        server.create(pod("b", namespace="x"))
        assert stream.named(1) == [("ADDED", "b")]


def test_objects_enter_and_leave_a_label_selector(server: APIServer, wire: Wire) -> None:
    def label(value: str | None) -> dict[str, Any]:
        return server.patch("v1", "pods", "a", {"metadata": {"labels": {"app": value}}})

    server.create(pod("a"))
    with wire.watch(ALL_PODS, labelSelector="app in (web,db)", **_now(server)) as stream:
        label("web")
        inside = label("db")
        left = label(None)
        label("other")
        server.delete("v1", "pods", "a")
        server.create(pod("a", labels={"app": "web"}))
        events = [stream.event() for _ in range(4)]
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    version = left["metadata"]["resourceVersion"]
    inside["metadata"]["resourceVersion"] = version
    assert events[2][1] == inside, "it leaves with its previous content and the event's version"


def test_objects_enter_and_leave_a_field_selector(server: APIServer, wire: Wire) -> None:
    server.create(pod("a"))
    with wire.watch(ALL_PODS, fieldSelector="status.phase=Running", **_now(server)) as stream:
        server.patch("v1", "pods", "a", {"status": {"phase": "Running"}})
        server.patch("v1", "pods", "a", {"status": {"phase": "Succeeded"}})
        assert stream.named(2) == [("ADDED", "a"), ("DELETED", "a")]


@pytest.mark.parametrize("version", ["", "0"])
def test_a_watch_without_a_version_begins_with_synthetic_adds(
    server: APIServer, wire: Wire, version: str
) -> None:
    for name in "ba":
        server.create(pod(name))
    query = {"resourceVersion": version} if version else {}
    with wire.watch(ALL_PODS, **query) as stream:
        server.create(pod("c"))
        assert stream.named(3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


def test_a_watch_ends_cleanly_at_its_timeout(server: APIServer, wire: Wire) -> None:
    with wire.watch(ALL_PODS, timeoutSeconds=1, **_now(server)) as stream:
        assert stream.rest() == b""


def test_a_connection_serves_many_requests(server: APIServer, wire: Wire) -> None:
    with wire.watch(ALL_PODS, timeoutSeconds=1, **_now(server)) as stream:
        stream.rest()
        connection = stream.connection
        connection.request("GET", ALL_PODS)
        assert connection.getresponse().read().startswith(b'{"kind":"PodList"')


@pytest.mark.parametrize("version", ["abc", "-1", "1.0"])
def test_a_resource_version_that_is_not_a_number_is_500(wire: Wire, version: str) -> None:
    refused = wire.get(ALL_PODS, watch="1", resourceVersion=version)
    assert (refused.status, refused.json["code"]) == (500, 500)
    assert f'Invalid value: "{version}"' in refused.json["message"]


def test_a_watch_at_a_future_resource_version_is_silent(server: APIServer, wire: Wire) -> None:
    future = int(server.resource_version) + 3
    query = {"resourceVersion": future, "allowWatchBookmarks": "true"}
    with wire.watch(ALL_PODS, **query) as stream:
        for name in "abc":
            server.create(pod(name))
        server.send_bookmarks()
        server.create(pod("d"))
        assert stream.event() == ("BOOKMARK", _bookmark(str(future)))
        assert stream.named(1) == [("ADDED", "d")]


def _bookmark(version: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": version}
    if annotations:
        metadata["annotations"] = annotations
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}


def test_a_position_behind_the_window_is_410_in_the_stream() -> None:
    with APIServer(watch_cache_size=3) as server, Wire(server.url) as wire:
        old = server.resource_version
        for name in "abcd":
            server.create(pod(name))
        oldest = int(old) + 1
        with wire.watch(ALL_PODS, resourceVersion=old) as stream:
            assert stream.status == 200
            status = _error(stream)
        assert (status["code"], status["reason"]) == (410, "Expired")
        assert status["message"] == f"too old resource version: {old} ({oldest})"
        with wire.watch(ALL_PODS, resourceVersion=oldest) as stream:
            assert stream.named(3) == [("ADDED", "b"), ("ADDED", "c"), ("ADDED", "d")]


def test_the_window_is_one_of_each_resource() -> None:
    with APIServer(watch_cache_size=2) as server, Wire(server.url) as wire:
        start = server.resource_version
        server.create(pod("a"))
        for name in "abcd":
            server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
        with wire.watch(ALL_PODS, resourceVersion=start) as stream:
            assert stream.named(1) == [("ADDED", "a")]


def test_a_position_behind_the_window_can_be_http_410() -> None:
    server = APIServer(expired_watch="status", watch_cache_size=1)
    with server, Wire(server.url) as wire:
        for name in "ab":
            server.create(pod(name))
        refused = wire.get(ALL_PODS, watch="1", resourceVersion="1")
        assert (refused.status, refused.json["reason"]) == (410, "Expired")


def test_compaction_forgets_the_window_but_not_the_present(server: APIServer, wire: Wire) -> None:
    old = server.resource_version
    server.create(pod("a"))
    server.compact()
    with wire.watch(ALL_PODS, resourceVersion=old) as stream:
        assert _error(stream)["code"] == 410
    with wire.watch(ALL_PODS, **_now(server)) as stream:
        server.create(pod("b"))
        assert stream.named(1) == [("ADDED", "b")]


def test_a_new_resource_is_not_behind_after_compaction(server: APIServer, wire: Wire) -> None:
    old = server.resource_version
    server.advance_resource_version()
    server.compact()
    with wire.watch("/api/v1/secrets", resourceVersion=old) as stream:
        assert _error(stream)["code"] == 410


def test_bookmarks_come_at_their_interval_if_requested() -> None:
    with APIServer(bookmark_interval_seconds=0.05) as server, Wire(server.url) as wire:
        asks = {"allowWatchBookmarks": "true", "timeoutSeconds": 1}
        with (
            wire.watch(ALL_PODS, **_now(server, **asks)) as asking,
            wire.watch(ALL_PODS, **_now(server, timeoutSeconds=1)) as silent,
        ):
            first = asking.event()
            server.advance_resource_version(5)
            assert first[0] == "BOOKMARK"
            versions = {
                json.loads(line)["object"]["metadata"]["resourceVersion"]
                for line in asking.rest().splitlines()
            }
            assert server.resource_version in versions
            assert silent.rest() == b""


def test_a_last_bookmark_comes_shortly_before_the_timeout() -> None:
    with APIServer(final_bookmark_lead_seconds=0.5) as server, Wire(server.url) as wire:
        query = _now(server, allowWatchBookmarks="true", timeoutSeconds=1)
        with wire.watch(ALL_PODS, **query) as stream:
            assert stream.event() == ("BOOKMARK", _bookmark(server.resource_version))
            assert stream.rest() == b""


def test_a_bookmark_never_overtakes_an_event(server: APIServer, wire: Wire) -> None:
    with wire.watch(ALL_PODS, **_now(server)) as stream:
        for number in range(200):
            server.create(pod(f"p{number}"))
            server.send_bookmarks()
        seen = 0
        for _ in range(400):
            kind, obj = stream.event()
            version = int(obj["metadata"]["resourceVersion"])
            assert version == seen if kind == "BOOKMARK" else version > seen
            seen = version


def test_events_get_no_periodic_bookmarks_but_the_end_bookmark() -> None:
    server = APIServer(bookmark_interval_seconds=0.05, final_bookmark_lead_seconds=0.5)
    with server, Wire(server.url) as wire:
        server.create(_event("e"))
        with wire.watch("/api/v1/events", timeoutSeconds=1, **WATCH_LIST) as stream:
            assert stream.named(1) == [("ADDED", "e")]
            kind, end = stream.event()
            assert (kind, end["metadata"]["annotations"]) == ("BOOKMARK", _END)
            assert stream.rest() == b""


def test_a_watch_list_sends_the_state_the_end_bookmark_and_then_events(
    server: APIServer, wire: Wire
) -> None:
    for name in "cab":
        server.create(pod(name))
    server.advance_resource_version(7)
    version = server.resource_version
    with wire.watch(ALL_PODS, **WATCH_LIST) as stream:
        assert stream.named(3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
        assert stream.event() == ("BOOKMARK", _bookmark(version, _END))
        server.delete("v1", "pods", "a")
        assert stream.named(1) == [("DELETED", "a")]


def test_the_end_bookmark_of_a_custom_resource_has_sorted_keys(
    server: APIServer, wire: Wire
) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    with wire.watch("/apis/example.com/v1/widgets", **WATCH_LIST) as stream:
        version = server.resource_version.encode()
        assert stream.line() == (
            b'{"type":"BOOKMARK","object":{"apiVersion":"example.com/v1","kind":"Widget",'
            b'"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},'
            b'"resourceVersion":"%s"}}}\n' % version
        )


def test_a_watch_list_obeys_selectors_and_namespaces(server: APIServer, wire: Wire) -> None:
    server.create(pod("a", labels={"app": "web"}))
    server.create(pod("b"))
    server.create(pod("c", namespace="other", labels={"app": "web"}))
    with wire.watch(PODS, labelSelector="app=web", **WATCH_LIST) as stream:
        assert stream.named(2) == [("ADDED", "a"), ("BOOKMARK", "")]


def test_a_watch_list_without_bookmarks_has_no_end(server: APIServer, wire: Wire) -> None:
    server.create(pod("a"))
    query = {**WATCH_LIST, "allowWatchBookmarks": "false", "timeoutSeconds": "1"}
    with wire.watch(ALL_PODS, **query) as stream:
        assert stream.named(1) == [("ADDED", "a")]
        assert stream.rest() == b""


def test_a_watch_list_at_a_version_shows_at_least_that(server: APIServer, wire: Wire) -> None:
    past = server.resource_version
    server.create(pod("a"))
    with wire.watch(ALL_PODS, **{**WATCH_LIST, "resourceVersion": past}) as stream:
        assert stream.named(2) == [("ADDED", "a"), ("BOOKMARK", "")]


def test_a_watch_list_at_a_future_version_is_an_error_event(server: APIServer, wire: Wire) -> None:
    future = int(server.resource_version) + 100_000
    with wire.watch(ALL_PODS, **{**WATCH_LIST, "resourceVersion": str(future)}) as stream:
        assert stream.status == 200
        status = _error(stream)
    assert (status["code"], status["reason"]) == (504, "Timeout")
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert status["details"]["retryAfterSeconds"] == 1


def test_initial_events_can_be_declined(server: APIServer, wire: Wire) -> None:
    server.create(pod("a"))
    query = {**WATCH_LIST, "sendInitialEvents": "false"}
    with wire.watch(ALL_PODS, **query) as stream:
        server.create(pod("b"))
        assert stream.named(1) == [("ADDED", "b")]


@pytest.mark.parametrize(
    "changed",
    [
        {"resourceVersionMatch": ""},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "Nope"},
        {"continue": "x"},
    ],
)
def test_a_watch_list_of_another_form_is_422(wire: Wire, changed: dict[str, str]) -> None:
    refused = wire.get(ALL_PODS, **{**WATCH_LIST, **changed})
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")
    assert refused.json["details"]["kind"] == "ListOptions"


def test_a_match_needs_send_initial_events(wire: Wire) -> None:
    assert wire.get(ALL_PODS, watch="1", resourceVersionMatch="NotOlderThan").status == 422


def test_watch_list_can_be_switched_off_and_on(server: APIServer, wire: Wire) -> None:
    server.watch_list = False
    refused = wire.get(ALL_PODS, **WATCH_LIST)
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")
    assert refused.json["details"]["causes"][0]["field"] == "sendInitialEvents"
    with wire.watch(ALL_PODS, timeoutSeconds=1, **_now(server)) as stream:
        assert stream.status == 200
    server.watch_list = True
    with wire.watch(ALL_PODS, **WATCH_LIST) as stream:
        assert stream.event()[0] == "BOOKMARK"


def test_events_of_one_lease_are_deleted_under_one_resource_version(
    server: APIServer, wire: Wire
) -> None:
    for name in "abcdef":
        server.create(_event(name))
    before = int(server.resource_version)
    with wire.watch("/api/v1/events", **_now(server)) as stream:
        assert server.expire_events() == 6
        events = [stream.event() for _ in range(6)]
    assert [kind for kind, _ in events] == ["DELETED"] * 6
    assert {obj["metadata"]["resourceVersion"] for _, obj in events} == {str(before + 1)}
    assert wire.get("/api/v1/events").json["items"] == []


def test_resuming_at_the_version_of_a_lease_delivers_no_more_of_it(
    server: APIServer, wire: Wire
) -> None:
    for name in "abc":
        server.create(_event(name))
    position = server.resource_version
    server.expire_events()
    end = server.resource_version
    with wire.watch("/api/v1/events", resourceVersion=position) as stream:
        assert stream.named(3) == [("DELETED", "a"), ("DELETED", "b"), ("DELETED", "c")]
    with wire.watch("/api/v1/events", resourceVersion=end, timeoutSeconds=1) as stream:
        assert stream.rest() == b""


def test_events_expire_by_themselves_after_their_ttl() -> None:
    with APIServer(event_ttl_seconds=0.2) as server, Wire(server.url) as wire:
        query = _now(server)
        server.create(_event("a"))
        server.create(_event("b"))
        server.create(pod("stays"))
        with wire.watch("/api/v1/events", **query) as stream:
            assert stream.named(2) == [("ADDED", "a"), ("ADDED", "b")]
            assert stream.named(2) == [("DELETED", "a"), ("DELETED", "b")]
        assert wire.get(ALL_PODS).names == ["stays"]


def test_an_event_that_is_written_again_lives_with_the_newer_lease(server: APIServer) -> None:
    server.create(_event("a"))
    server.delete("v1", "events", "a")
    assert server.expire_events() == 0
    server.create(_event("a"))
    server.patch("v1", "events", "a", {"count": 2})
    assert server.expire_events() == 1


def test_a_forgotten_position_of_events_is_an_error_of_its_own(
    server: APIServer, wire: Wire
) -> None:
    old = server.resource_version
    server.create(_event("a"))
    server.compact()
    with wire.watch("/api/v1/events", resourceVersion=old) as stream:
        assert _error(stream)["message"] == (
            "The resourceVersion for the provided watch is too old."
        )


@pytest.mark.parametrize("keep_history", [True, False])
def test_a_restart_cuts_streams_and_keeps_objects_and_port(
    server: APIServer, keep_history: bool
) -> None:
    url, old = server.url, server.resource_version
    server.create(pod("a"))
    with Wire(url) as wire, wire.watch(ALL_PODS, **_now(server)) as stream:
        server.restart(keep_history=keep_history)
        with pytest.raises(OSError, match="reset"):
            stream.line()
    assert server.url == url
    with Wire(url) as wire:
        assert wire.get(ALL_PODS).names == ["a"]
        with wire.watch(ALL_PODS, resourceVersion=old) as stream:
            if keep_history:
                assert stream.named(1) == [("ADDED", "a")]
            else:
                assert _error(stream)["code"] == 410


def test_a_restart_without_history_keeps_exact_lists(server: APIServer) -> None:
    server.create(pod("a"))
    past = server.resource_version
    server.create(pod("b"))
    server.restart(keep_history=False)
    with Wire(server.url) as wire:
        exact = wire.get(ALL_PODS, resourceVersion=past, resourceVersionMatch="Exact")
        assert exact.names == ["a"]


def test_restoring_a_backup_goes_back_in_objects_and_resource_version(
    server: APIServer,
) -> None:
    server.create(pod("a"))
    saved, version = server.save(), server.resource_version
    server.create(pod("b"))
    server.delete("v1", "pods", "a")
    server.restore(saved)
    assert server.resource_version == version
    with Wire(server.url) as wire:
        answer = wire.get(ALL_PODS)
        assert answer.names == ["a"]
        assert answer.json["metadata"]["resourceVersion"] == version


def test_a_bumped_restore_is_beyond_what_was_seen_and_forgets_it(server: APIServer) -> None:
    server.create(pod("a"))
    saved = server.save()
    server.create(pod("b"))
    seen = server.resource_version

    server.restore(saved, bump_revision=1000)

    assert int(server.resource_version) > int(seen) + 900
    with Wire(server.url) as wire:
        assert wire.get(ALL_PODS).names == ["a"]
        gone = wire.get(ALL_PODS, resourceVersion=seen, resourceVersionMatch="Exact")
        assert gone.status == 410
        with wire.watch(ALL_PODS, resourceVersion=seen) as stream:
            kind, status = stream.event()
            assert (kind, status["code"]) == ("ERROR", 410)
    with pytest.raises(InvalidArgumentError, match="bump_revision"):
        server.restore(saved, bump_revision=-1)


def test_emitted_events_reach_open_watches_and_no_object(server: APIServer, wire: Wire) -> None:
    wrong = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x", "resourceVersion": "1"}}
    with (
        wire.watch(ALL_PODS, **_now(server)) as everywhere,
        wire.watch(PODS, **_now(server)) as here,
        wire.watch("/api/v1/namespaces/other/pods", **_now(server)) as elsewhere,
    ):
        server.wait_for_watches(3)
        assert server.emit("v1", "pods", "DELETED", wrong, namespace="default") == 2
        assert server.emit_raw("v1", "pods", b"not json\n") == 3
        assert server.emit("v1", "nodes", "ADDED", {}) == 0
        for stream in (everywhere, here):
            assert stream.event() == ("DELETED", wrong)
            assert stream.line() == b"not json\n"
        assert elsewhere.line() == b"not json\n"
    assert server.list("v1", "pods") == []


def test_watches_can_be_ended_cleanly(server: APIServer, wire: Wire) -> None:
    with wire.watch(ALL_PODS, **_now(server)) as stream:
        server.create(pod("a"))
        server.end_watches()
        assert stream.named(1) == [("ADDED", "a")]
        assert stream.rest() == b""


def test_open_watches_are_counted_until_the_client_leaves(server: APIServer, wire: Wire) -> None:
    assert server.open_watches == 0
    with wire.watch(ALL_PODS, **_now(server)), wire.watch(PODS, **_now(server)):
        server.wait_for_watches(2)
        assert server.open_watches == 2
    server.wait_for_watches(0)
    with pytest.raises(TimeoutError, match="0 watches are open, not 1"):
        server.wait_for_watches(1, timeout_seconds=0.01)


def test_a_watch_that_lags_too_far_is_closed() -> None:
    server = APIServer(watch_buffer_events=10)
    with server, Wire(server.url) as wire, wire.watch(ALL_PODS, **_now(server)) as stream:
        server.wait_for_watches(1)
        with server._storage.lock:  # the server cannot take what is pending
            for number in range(50):
                server.create(pod(f"p{number}"))
        assert len(stream.rest().splitlines()) == 10


def test_several_watches_follow_thousands_of_changes(server: APIServer, wire: Wire) -> None:
    query = _now(server)
    with (
        wire.watch(ALL_PODS, **query) as first,
        wire.watch(ALL_PODS, **query) as second,
        wire.watch(ALL_PODS, labelSelector="n=0", **query) as third,
    ):
        server.wait_for_watches(3)
        for number in range(3000):
            server.create(pod(f"p{number}", labels={"n": str(number % 3)}))
        expected = [f"p{number}" for number in range(3000)]
        for stream in (first, second):
            assert [name for _, name in stream.named(3000)] == expected
        assert [name for _, name in third.named(1000)] == expected[::3]
