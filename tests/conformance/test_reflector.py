"""The promises of client-go's Reflector, each under the name of the upstream test that makes it.

The upstream name opens each docstring. What differs and why, and what is proven elsewhere, is in
`docs/reference/conformance-differences.md`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pyinformer.cache.reflector import (
    EventApplier,
    Guard,
    Reflector,
    ReflectorOptions,
    ReflectorState,
    Snapshot,
)
from pyinformer.client.transport import ClusterConfig, Connection, ListWatch, NoCredentials
from pyinformer.errors import ListInconsistentError
from pyinformer.objects import JSONObject
from pyinformer.testing import APIServer, Fault
from tests.cache.reflector.running import (
    is_watch_list,
    listed,
    options,
    put,
    reflecting,
    remove,
    until_held,
    verbs,
    watches,
)
from tests.cache.reflector.samples import PODS, DictSink, bookmark, codec, line, pod, status_bytes
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

BY_PAGES = options(page_size=500)
BY_WATCH_LIST = options(use_watch_list=True)
CONTENT_LENGTH = 4_000


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        yield running


def error_frame(code: int, reason: str = "") -> bytes:
    return b'{"type":"ERROR","object":%s}\n' % status_bytes(code, reason)


@pytest.mark.covers("client-go tools/cache: TestCloseWatchChannelOnError")
async def test_close_watch_channel_on_error(server: APIServer) -> None:
    """client-go TestCloseWatchChannelOnError: an ERROR event ends the watch, ours as theirs."""
    server.faults.add(Fault(verb="watch", frames=(error_frame(500),)))
    async with reflecting(server):
        await until(lambda: len(watches(server)) == 2 and server.open_watches == 1)
        assert [one.is_finished for one in server.requests if one.verb == "watch"] == [True, False]


@pytest.mark.covers("client-go tools/cache: TestRunUntil")
async def test_run_until(server: APIServer) -> None:
    """client-go TestRunUntil: the loop runs until it is cancelled, then the watch is stopped."""
    async with reflecting(server) as running:
        await running.until_watching()
        put(server, "foo")
        await running.until_equal()
        server.end_watches()
        put(server, "bar")
        await running.until_equal()
        reflector = running.reflector
    assert reflector.state is ReflectorState.STOPPED
    await until(lambda: server.open_watches == 0)


@pytest.mark.covers("client-go tools/cache: TestReflectorWatchStoppedBefore")
async def test_reflector_watch_stopped_before(server: APIServer) -> None:
    """client-go TestReflectorWatchStoppedBefore: cancelled before it begins, it asks nothing."""
    connection = Connection(ClusterConfig(server=server.url, credentials=NoCredentials()))
    reflector: Reflector[None] = Reflector(ListWatch(connection, PODS), DictSink())
    task = asyncio.create_task(reflector.run())
    task.cancel()
    await asyncio.wait({task})
    await connection.aclose()
    assert task.cancelled()
    assert server.requests == ()


@pytest.mark.covers("client-go tools/cache: TestReflectorWatchStoppedAfter")
async def test_reflector_watch_stopped_after(server: APIServer) -> None:
    """client-go TestReflectorWatchStoppedAfter: cancelled while it watches: one watch, stopped."""
    async with reflecting(server) as running:
        await running.until_watching()
    await until(lambda: server.open_watches == 0)
    assert verbs(server) == ["list", "watch"]


@pytest.mark.covers(
    "client-go tools/cache: TestReflectorHandleWatchResultChanClosedBefore",
    "client-go tools/cache: TestReflectorHandleWatchResultChanClosedAfter",
)
@pytest.mark.parametrize("events", [0, 1])
async def test_reflector_handle_watch_result_chan_closed(server: APIServer, events: int) -> None:
    """client-go TestReflectorHandleWatchResultChanClosedBefore and ...After.

    A watch that ends at once is very short: it is reopened after a delay. It resumes at the
    version before that of the last event, since other changes can have the same version.
    """
    async with reflecting(server) as running:
        await running.until_watching()
        before_the_last_event = running.reflector.position
        if events:
            put(server, "foo")
            await running.until_equal()
        server.end_watches()
        await until(lambda: ReflectorState.WAITING in running.states)
        await until(lambda: len(watches(server)) == 2)
        assert watches(server)[1] == before_the_last_event
        assert running.reflector.status().loads == 1


@pytest.mark.covers("client-go tools/cache: TestReflectorWatchHandler")
def test_reflector_watch_handler() -> None:
    """client-go TestReflectorWatchHandler: the store is exact, the version that of the last."""
    sink = DictSink(pod("foo", "10"), pod("bar", "11"))
    guard = Guard()
    guard.loaded("15")
    follower = EventApplier(codec(), guard, sink)
    for one in (
        line("DELETED", "foo", "20"),
        line("MODIFIED", "bar", "55"),
        line("ADDED", "baz", "60", "uid-baz"),
    ):
        follower.on_line(one, 0, len(one))
    assert sink.versions() == {"bar": "55", "baz": "60"}
    assert guard.position == "60"


@pytest.mark.covers("client-go tools/cache: TestReflectorListAndWatch")
@pytest.mark.parametrize("watch_list", [False, True])
async def test_reflector_list_and_watch(server: APIServer, watch_list: bool) -> None:
    """client-go TestReflectorListAndWatch: the requests are exact, the events come in order."""
    put(server, "a", "b")
    at = server.resource_version
    with_options = BY_WATCH_LIST if watch_list else BY_PAGES
    async with reflecting(server, with_options=with_options) as running:
        await running.until_watching()
        names = [f"foo{number}" for number in range(10)]
        put(server, *names)
        await running.until_equal()
        assert list(running.sink.history) == [f"default/{name}" for name in ("a", "b", *names)]
        assert int(running.reflector.position) == int(at) + 10
    queries = [dict(request.query) for request in server.requests]
    for query in queries:
        query.pop("timeoutSeconds", None)
    if watch_list:
        assert queries == [
            {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "sendInitialEvents": "true",
                "resourceVersionMatch": "NotOlderThan",
            }
        ]
    else:
        assert queries == [
            {"limit": "500"},
            {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": at},
        ]


@pytest.mark.covers("client-go tools/cache: TestReflectorListAndWatchWithErrors")
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([Fault(verb="list", status=500, times=2)], id="list-errors"),
        pytest.param([Fault(verb="watch", status=500, times=2)], id="watch-errors"),
        pytest.param([Fault(verb="watch", refuse=True)], id="watch-construction-errors"),
        pytest.param([Fault(verb="watch", frames=(error_frame(500),))], id="error-event"),
        pytest.param(
            [
                Fault(verb="watch", frames=(error_frame(410),)),
                Fault(verb="list", skip=1, status=500),
            ],
            id="expired-then-list-error",
        ),
    ],
)
async def test_reflector_list_and_watch_with_errors(server: APIServer, faults: list[Fault]) -> None:
    """client-go TestReflectorListAndWatchWithErrors: then the store is list and events."""
    put(server, "foo", "bar")
    server.faults.add(*faults)
    async with reflecting(server) as running:
        await until(lambda: server.faults.struck >= len(faults))
        remove(server, "foo")
        put(server, "baz")
        await running.until_watching()
        await running.until_equal()


@pytest.mark.covers("client-go tools/cache: TestReflectorListAndWatchInitConnBackoff")
async def test_reflector_list_and_watch_init_conn_backoff(server: APIServer) -> None:
    """client-go TestReflectorListAndWatchInitConnBackoff: refusals cost delays, and no list."""
    async with reflecting(server) as running:
        await running.until_watching()
        server.stop_accepting()
        server.drop_connections()
        await until(lambda: running.reflector.status().attempts >= 5)
        status = running.reflector.status()
        assert running.states.count(ReflectorState.WAITING) == status.attempts
        server.accept_again()
        put(server, "foo")
        await running.until_equal()
    assert verbs(server).count("list") == 1


@pytest.mark.covers("client-go tools/cache: TestBackoffOnTooManyRequests")
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(verb="watch", status=429), id="at-establishment"),
        pytest.param(Fault(verb="watch", frames=(error_frame(429),)), id="in-the-stream"),
    ],
)
async def test_backoff_on_too_many_requests(server: APIServer, fault: Fault) -> None:
    """client-go TestBackoffOnTooManyRequests: each one costs one step of the backoff."""
    server.faults.add(fault)
    async with reflecting(server) as running:
        await until(lambda: len(watches(server)) == 2 and server.open_watches == 1)
        assert running.states.count(ReflectorState.WAITING) == 1


@pytest.mark.covers("client-go tools/cache: TestNoRelistOnTooManyRequests")
async def test_no_relist_on_too_many_requests(server: APIServer) -> None:
    """client-go TestNoRelistOnTooManyRequests: the watch is repeated at its version, no list.

    The difference: a list of one object precedes each repetition; from the third refusal in a row
    on, while such lists are answered, everything is listed.
    """
    server.faults.add(Fault(verb="watch", status=429, times=2))
    async with reflecting(server):
        await until(lambda: server.open_watches == 1)
    assert verbs(server) == ["list", "watch", *["look", "watch"] * 2]
    assert len(set(watches(server))) == 1


@pytest.mark.covers(
    "client-go tools/cache: TestNoRelistOnTooManyRequests",
    "client-go tools/cache: TestRetryInternalError",
)
async def test_retry_internal_error(server: APIServer) -> None:
    """client-go TestRetryInternalError: internal errors in the stream repeat the watch.

    The difference: not for a time, but twice; see TestNoRelistOnTooManyRequests.
    """
    server.faults.add(Fault(verb="watch", frames=(error_frame(500, "InternalError"),), times=2))
    async with reflecting(server):
        await until(lambda: len(watches(server)) == 3 and server.open_watches == 1)
    assert verbs(server).count("list") == 1


@pytest.mark.covers("client-go tools/cache: TestReflectorWatchListPageSize")
async def test_reflector_watch_list_page_size(server: APIServer) -> None:
    """client-go TestReflectorWatchListPageSize: ten items in pages of four are three requests."""
    put(server, *(f"p{number}" for number in range(10)))
    async with reflecting(server, with_options=options(page_size=4)) as running:
        await running.until_watching()
        await running.until_equal()
    pages = [request.query for request in server.requests if request.verb == "list"]
    assert [page["limit"] for page in pages] == ["4"] * 3
    assert ["continue" in page for page in pages] == [False, True, True]


@pytest.mark.covers("client-go tools/cache: TestReflectorResyncWithResourceVersion")
async def test_reflector_resync_with_resource_version(server: APIServer) -> None:
    """client-go TestReflectorResyncWithResourceVersion: no list ever goes back in time."""
    put(server, "foo")
    server.faults.add(Fault(verb="watch", status=410))
    async with reflecting(server) as running:
        await running.until_watching(loads=2)
    lists = [request.query for request in server.requests if request.verb == "list"]
    assert [query.get("resourceVersion") for query in lists] == [None, None]


@pytest.mark.covers("client-go tools/cache: TestReflectorFullListIfExpired")
async def test_reflector_full_list_if_expired(server: APIServer) -> None:
    """client-go TestReflectorFullListIfExpired: an expired page makes one unpaged list at once."""
    put(server, *(f"p{number}" for number in range(8)))
    server.faults.add(Fault(verb="list", match=lambda one: "continue" in one.query, status=410))
    async with reflecting(server, with_options=options(page_size=4)) as running:
        await running.until_watching()
        await running.until_equal()
        assert ReflectorState.WAITING not in running.states
    lists = [request.query.get("limit") for request in server.requests if request.verb == "list"]
    assert lists == ["4", "4", None]


@pytest.mark.covers("client-go tools/cache: TestWatchTimeout")
async def test_watch_timeout(server: APIServer) -> None:
    """client-go TestWatchTimeout: each watch asks for its end, within the range of the options."""
    async with reflecting(server, with_options=options(watch_timeout_seconds=(300.0, 300.4))):
        await until(lambda: server.open_watches == 1)
    async with reflecting(server, with_options=BY_WATCH_LIST):
        await until(lambda: any(map(is_watch_list, server.requests)))
    asked = [one.query["timeoutSeconds"] for one in server.requests if one.verb == "watch"]
    assert asked == ["300", "180"]


@pytest.mark.covers(
    "client-go tools/cache: TestReflectorResourceVersionUpdate",
    "client-go tools/cache: TestStoreResourceVersion",
)
def test_reflector_resource_version_update() -> None:
    """client-go TestReflectorResourceVersionUpdate: every type moves the version, in order."""
    guard = Guard()
    guard.loaded("5")
    follower = EventApplier(codec(), guard, DictSink())
    positions = []
    for one in (
        line("ADDED", "foo", "10"),
        line("MODIFIED", "foo", "20"),
        line("DELETED", "foo", "30"),
        bookmark("40"),
    ):
        follower.on_line(one, 0, len(one))
        positions.append(guard.position)
    assert positions == ["10", "20", "30", "40"]


@pytest.mark.covers("client-go tools/cache: TestReflectorListExtract")
async def test_reflector_list_extract(server: APIServer) -> None:
    """client-go TestReflectorListExtract: an item keeps nothing of the page it came in."""
    for name in ("foo", "bar"):
        put(server, name, value="x" * CONTENT_LENGTH)
    async with reflecting(server) as running:
        await running.until_equal()
        for obj in running.sink.objects.values():
            assert type(obj.raw) is bytes
            assert CONTENT_LENGTH < len(obj.raw) < 2 * CONTENT_LENGTH


@pytest.mark.covers("client-go tools/cache: TestReflectorReplacesStoreOnUnsafeDelete")
async def test_reflector_replaces_store_on_unsafe_delete(server: APIServer) -> None:
    """client-go TestReflectorReplacesStoreOnUnsafeDelete: an unsafe deletion causes a list."""
    put(server, "foo", "corrupt")
    async with reflecting(server) as running:
        await running.until_watching()
        server.faults.add(Fault(verb="watch", hang=True))
        server.end_watches()
        await until_held(server)
        remove(server, "corrupt")
        server.faults.clear()
        told_nothing = Fault(verb="watch", frames=(error_frame(500, "StorageReadError"),))
        server.compact()
        server.faults.add(told_nothing)
        server.drop_connections()
        await running.until_equal()
        assert running.sink.history["default/corrupt"][-1].startswith("delete?")
    assert verbs(server).count("list") == 2


@pytest.mark.covers("client-go tools/cache: TestReflectorRespectStoreTransformer")
@pytest.mark.parametrize("with_options", [BY_PAGES, BY_WATCH_LIST], ids=["list", "watch-list"])
async def test_reflector_respect_store_transformer(
    server: APIServer, with_options: ReflectorOptions
) -> None:
    """client-go TestReflectorRespectStoreTransformer: once for each object that arrives."""
    calls: list[str] = []

    def transform(body: JSONObject) -> JSONObject:
        calls.append(body["metadata"]["name"])
        return {**body, "spec": {"nodeName": "transformed"}}

    put(server, "foo", "bar")
    async with reflecting(
        server,
        with_options=with_options,
        transform=transform,
    ) as running:
        await running.until_watching()
        put(server, "baz")
        put(server, "foo", value="n1")
        await running.until_equal()
        for obj in running.sink.objects.values():
            assert obj.at("spec.nodeName", str) == "transformed"
    assert sorted(calls) == ["bar", "baz", "foo", "foo"]


@pytest.mark.covers("client-go tools/cache: TestNewReflectorWithDisablementWatchList")
async def test_new_reflector_with_disablement_watch_list(server: APIServer) -> None:
    """client-go TestNewReflectorWithDisablementWatchList: the option alone switches it off."""
    put(server, "foo")  # a watch-list of nothing is compared with a list
    for is_used in (False, True):
        async with reflecting(server, with_options=options(use_watch_list=is_used)) as running:
            await running.until_watching()
    assert verbs(server) == ["list", "watch", "watch-list"]


@pytest.mark.covers("client-go tools/cache: TestWatchListResourceVersion")
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([], id="empty-stream"),
        pytest.param([line("ADDED", "foo", "10"), line("ADDED", "bar", "11")], id="added-only"),
    ],
)
def test_watch_list_resource_version(lines: list[bytes]) -> None:
    """client-go TestWatchListResourceVersion: only the annotated bookmark gives a version."""
    guard = Guard()
    snapshot = Snapshot(codec(), DictSink(), guard)
    for one in lines:
        snapshot.on_line(one, 0, len(one))
    assert snapshot.resource_version is None
    end = bookmark("20", ends_initial_events=True)
    snapshot.on_line(end, 0, len(end))
    assert snapshot.resource_version == "20"
    assert guard.position == "", "it is the list that is taken over which moves the position"


@pytest.mark.covers("client-go tools/cache: TestWatchList")
async def test_watch_list_added_without_bookmark(server: APIServer) -> None:
    """client-go TestWatchList: before the bookmark the store stays empty."""
    put(server, "foo")
    server.faults.add(Fault(verb="watch", stall_after_bytes=300))
    async with reflecting(server, with_options=BY_WATCH_LIST) as running:
        await until_held(server)
        assert running.sink.versions() == {}
        assert running.reflector.state is ReflectorState.LOADING
        server.faults.release()
        await running.until_equal()


@pytest.mark.covers("client-go tools/cache: TestWatchList")
@pytest.mark.parametrize("code", [422, 400, 403])
async def test_watch_list_falls_back_when_invalid(server: APIServer, code: int) -> None:
    """client-go TestWatchList: an Invalid error falls back to list and watch at once."""
    put(server, "foo")
    server.faults.add(Fault(verb="watch", status=code))
    async with reflecting(server, with_options=BY_WATCH_LIST) as running:
        await running.until_watching()
        await running.until_equal()
        assert ReflectorState.WAITING not in running.states
    assert verbs(server) == ["watch-list", "list", "watch"]


@pytest.mark.covers("client-go tools/cache: TestWatchList")
async def test_watch_list_falls_back_on_any_error(server: APIServer) -> None:
    """client-go TestWatchList: any error falls back; here when it comes twice."""
    put(server, "foo")
    server.faults.add(Fault(verb="watch", status=500, times=2))
    async with reflecting(server, with_options=BY_WATCH_LIST) as running:
        await running.until_watching()
        await running.until_equal()
    assert verbs(server) == ["watch-list", "watch-list", "list", "watch"]


@pytest.mark.covers("client-go tools/cache: TestWatchList")
async def test_watch_list_updates_and_deletes_in_the_initial_stream() -> None:
    """client-go TestWatchList: updates and deletions before the bookmark are respected."""
    sink = DictSink()
    snapshot = Snapshot(codec(), sink, Guard())
    for one in (
        line("ADDED", "foo", "1"),
        line("ADDED", "bar", "2", "uid-bar"),
        line("MODIFIED", "foo", "3"),
        line("DELETED", "bar", "4", "uid-bar"),
        bookmark("5", ends_initial_events=True),
    ):
        snapshot.on_line(one, 0, len(one))
    objects = snapshot.complete("5")
    assert {key: obj.metadata.resource_version for key, obj in objects.items()} == {"foo": "3"}


@pytest.mark.covers("client-go tools/cache: TestWatchList")
async def test_watch_list_too_many_requests_twice(server: APIServer) -> None:
    """client-go TestWatchList: 429 twice, then success: three watch requests and no list."""
    put(server, "foo")
    server.faults.add(Fault(verb="watch", status=429, times=2))
    async with reflecting(server, with_options=BY_WATCH_LIST) as running:
        await running.until_equal()
    assert verbs(server) == ["watch-list"] * 3


@pytest.mark.covers("client-go tools/cache: TestWatchList")
async def test_watch_list_stopped_before_bookmark(server: APIServer) -> None:
    """client-go TestWatchList: a second watch-list begins with a clean state."""
    put(server, "foo", "bar", "gone")
    server.faults.add(Fault(verb="watch", stall_after_bytes=700))
    async with reflecting(server, with_options=BY_WATCH_LIST) as running:
        await until_held(server)
        remove(server, "gone")
        server.drop_connections()
        await running.until_equal()
        assert "default/gone" not in running.sink.history
    assert verbs(server) == ["watch-list"] * 2


@pytest.mark.covers("client-go tools/cache: TestWatchList")
async def test_watch_list_stopped_after_sync(server: APIServer) -> None:
    """client-go TestWatchList: once synced, a plain watch resumes where all events are known."""
    put(server, "foo")
    async with reflecting(server, with_options=BY_WATCH_LIST) as running:
        await running.until_watching()
        synced_at = running.reflector.position
        put(server, "bar")
        await running.until_equal()
        server.drop_connections()
        await until(lambda: len(watches(server)) == 1)
        assert watches(server) == [synced_at]
        assert running.reflector.status().loads == 1


@pytest.mark.covers("client-go tools/cache: TestWatchList")
async def test_watch_list_expired_on_reestablishment(server: APIServer) -> None:
    """client-go TestWatchList: the store is intact until what is new has come whole."""
    put(server, "foo")
    async with reflecting(server, with_options=BY_WATCH_LIST) as running:
        await running.until_watching()
        before = dict(running.sink.objects)
        server.faults.add(
            Fault(verb="watch", match=lambda one: not is_watch_list(one), status=410),
            Fault(verb="watch", match=is_watch_list, hang=True),
        )
        server.drop_connections()
        await until_held(server)
        assert running.sink.objects == before
        server.faults.release()
        await running.until_watching(loads=2)
        assert running.sink.versions() == listed(server)


@pytest.mark.covers("client-go tools/cache: TestWatchList")
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(
            bookmark("20", ends_initial_events=True).replace(b'"true"', b'"false"'), id="false"
        ),
        pytest.param(bookmark("12"), id="none"),
    ],
)
def test_watch_list_annotation_false(sent: bytes) -> None:
    """client-go TestWatchList: the annotation "false" does not end the phase.

    The difference: no server that knows watch-lists sends such a bookmark before the end, so the
    load ends and a list follows.
    """
    snapshot = Snapshot(codec(), DictSink(), Guard())
    with pytest.raises(ListInconsistentError, match="does not end the initial events"):
        snapshot.on_line(sent, 0, len(sent))
    assert snapshot.resource_version is None
