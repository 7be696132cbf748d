"""The reflector against the embedded API server and its fault script, over real HTTP."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import json

from pyinformer.cache.reflector import ReflectorState, WatchListMemory
from pyinformer.client.transport import MAX_LINE_BYTES, StaticCredentials
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import GroupVersionResource, JSONObject
from pyinformer.testing import APIServer, Fault, Token
from tests.cache.reflector.running import (
    is_load,
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
from tests.cache.reflector.samples import status_bytes
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.testing.apiserver.requests import Cut

EVENTS = GroupVersionResource.of("v1", "events")


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        put(running, "a")
        yield running


@pytest.mark.covers("kube-runtime src: test_mode_watch_waits_before_returning_next_event")
async def test_a_reflector_syncs_and_follows_by_one_watch_list(server: APIServer) -> None:
    put(server, "b", "c")
    async with reflecting(server, with_options=options(use_watch_list=True)) as running:
        await running.until_equal()
        put(server, "a", value="n1")
        put(server, "d")
        remove(server, "b")
        await running.until_equal()
        assert verbs(server) == ["watch-list"]
        assert running.states == [ReflectorState.LOADING, ReflectorState.WATCHING]
        assert [words.split()[0] for words in running.sink.history["default/b"]] == [
            "add",
            "delete",
        ]
        assert running.reflector.position == server.resource_version


@pytest.mark.covers("kube-runtime src: test_mode_watch_waits_before_returning_next_event")
async def test_a_reflector_syncs_by_pages_and_watches_from_there(server: APIServer) -> None:
    put(server, "b", "c", "d", "e")
    at = server.resource_version
    async with reflecting(server, with_options=options(page_size=2)) as running:
        await running.until_watching()
        await running.until_equal()
        put(server, "a", value="n1")
        await running.until_equal()
    assert verbs(server) == ["list", "list", "list", "watch"]
    assert watches(server) == [at]
    assert "resourceVersion" not in server.requests[0].query


async def test_an_expired_continue_token_makes_one_whole_list(server: APIServer) -> None:
    put(server, "b", "c", "d", "e")
    server.faults.add(Fault(verb="list", match=lambda r: "continue" in r.query, status=410))
    async with reflecting(server, with_options=options(page_size=2)) as running:
        await running.until_watching()
        await running.until_equal()
    assert verbs(server) == ["list", "list", "list", "watch"]
    assert "limit" not in server.requests[2].query


async def test_a_list_cut_off_in_a_page_takes_no_effect(server: APIServer) -> None:
    put(server, "b", "c", "d")
    server.faults.add(Fault(verb="list", match=lambda r: "continue" in r.query, cut_after_bytes=90))
    async with reflecting(server, with_options=options(page_size=2)) as running:
        await running.until_watching()
        await running.until_equal()
        assert running.sink.synced_at == [running.reflector.position]
        assert all(len(history) == 1 for history in running.sink.history.values())


@pytest.mark.covers("kube-client src: watch_direct_unexpected_eof_delivers_added_then_ends")
@pytest.mark.parametrize("cut", ["reset", "close", "end"])
@pytest.mark.exhaustive
async def test_a_connection_cut_at_any_byte_leaves_whole_events_and_resumes(cut: Cut) -> None:
    """Before, within and behind each of three lines; the unit test has every byte."""
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            for share in (0.0, 0.5, -2, -1):
                group.create_task(_cut_at(number, share, cut))


async def _cut_at(number: int, share: float, cut: Cut) -> None:
    """Cut a watch; the next one is held back, to see what the first one left.

    Args:
        number: in which of three lines.
        share: how much of that line is sent; below zero, its size and one byte, less that many.
        cut: how.
    """
    with APIServer() as server:
        put(server, "a")
        await _cut_watch(server, number, share, cut)


async def _cut_watch(server: APIServer, number: int, share: float, cut: Cut) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        server.faults.add(Fault(verb="watch", hang=True))
        server.end_watches()
        await until_held(server)
        states, lengths, versions = _three_changes(server)
        within = int(lengths[number] * share) if share >= 0 else lengths[number] + 1 + int(share)
        cutting = Fault(verb="watch", hang=True, cut_after_bytes=sum(lengths[:number]) + within)
        server.faults.clear()
        server.faults.add(replace(cutting, cut=cut), Fault(verb="watch", hang=True))
        server.drop_connections()
        await until(lambda: len(watches(server)) == 3 and server.faults.held == 1)
        server.faults.release()
        await until(lambda: len(watches(server)) == 4 and server.faults.held == 1)
        lacks_line_end = share == -2 and cut == "end"  # the line is whole, and so is the body
        whole = number + (share == -1 or lacks_line_end)
        if cut == "reset":  # what has arrived may be lost with the connection
            assert running.sink.versions() in states[: whole + 1]
        else:
            assert running.sink.versions() == states[whole]
        applied = states.index(running.sink.versions())
        assert running.reflector.position == versions[applied]
        assert watches(server)[-1] == versions[max(applied - 1, 0)]
        server.faults.release()
        await running.until_equal()
        assert running.reflector.status().loads == 1


def _three_changes(server: APIServer) -> tuple[list[dict[str, str]], list[int], list[str]]:
    """Add b, change a, delete b; return states and versions from the first on, and line sizes."""
    states, versions = [listed(server)], [server.resource_version]
    put(server, "b")
    states.append(listed(server))
    versions.append(server.resource_version)
    put(server, "a", value="n1")
    states.append(listed(server))
    versions.append(server.resource_version)
    added, modified = server.get("v1", "pods", "b"), server.get("v1", "pods", "a")
    remove(server, "b")
    states.append(listed(server))
    deleted = {**added, "metadata": {**added["metadata"]}}
    deleted["metadata"]["resourceVersion"] = server.resource_version
    versions.append(server.resource_version)
    events = (("ADDED", added), ("MODIFIED", modified), ("DELETED", deleted))
    lines = [json.encode({"type": kind, "object": body}) + b"\n" for kind, body in events]
    return states, [len(line) for line in lines], versions


@pytest.mark.covers("client-go tools/cache: TestResetWatch")
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(verb="watch", status=410), id="http-status"),
        pytest.param(
            Fault(
                verb="watch",
                frames=(b'{"type":"ERROR","object":%s}\n' % status_bytes(410, "Expired"),),
            ),
            id="error-event",
        ),
        pytest.param(
            Fault(verb="watch", body=status_bytes(410, "Expired") + b"\n"), id="status-body"
        ),
    ],
)
async def test_an_expired_watch_is_loaded_again_in_each_of_its_forms(
    server: APIServer, fault: Fault
) -> None:
    server.faults.add(fault)
    async with reflecting(server) as running:
        await running.until_watching(loads=2)
        remove(server, "a")
        await running.until_equal()
    assert verbs(server) == ["list", "watch", "list", "watch"]


@pytest.mark.covers(
    "client-go tools/watch: TestInformerWatcherDeletedFinalStateUnknown",
    "controller-runtime pkg/internal/source: should create a DeleteEvent from a tombstone",
)
async def test_deletions_before_a_relist_are_reported_as_tombstones(server: APIServer) -> None:
    put(server, "b")
    async with reflecting(server) as running:
        await running.until_watching()
        last = running.sink.versions()["default/a"]
        server.stop_accepting()
        server.drop_connections()
        remove(server, "a")
        server.compact()
        server.accept_again()
        await running.until_equal()
        assert running.sink.history["default/a"][-1] == f"delete? {last}"
        assert len(running.sink.history["default/b"]) == 1, "unchanged, so untold"
        assert running.reflector.status().outcomes["errors:410"] == 1
        assert running.reflector.status().guard.epoch == 0


async def test_a_restart_with_history_costs_no_list(server: APIServer) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        server.restart(keep_history=True)
        put(server, "b")
        await running.until_equal()
    assert verbs(server).count("list") == 1


async def test_a_restart_without_history_changes_nothing_for_handlers(server: APIServer) -> None:
    put(server, "b")
    async with reflecting(server) as running:
        await running.until_watching()
        server.advance_resource_version(5)
        server.restart(keep_history=False)
        await running.until_watching(loads=2)
        assert [len(history) for history in running.sink.history.values()] == [1, 1]


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_a_429_waits_for_retry_after(server: APIServer, verb: str) -> None:
    server.faults.add(Fault(verb=verb, status=429, retry_after_seconds=1))
    async with reflecting(server) as running:
        await running.until_watching()
        assert running.reflector.status().loads == 1
    refused, again = (request for request in server.requests if request.verb == verb)
    assert again.arrived_at - refused.arrived_at >= 1
    assert again.query.get("resourceVersion") == refused.query.get("resourceVersion")


@pytest.mark.covers("client-go tools/watch: TestRetryWatcher")
async def test_watch_forbidden_keeps_the_list_and_recovers_when_allowed() -> None:
    lists_only = Token(value="t", verbs=("list",))
    with APIServer(tokens=[lists_only]) as server:
        put(server, "a")
        async with reflecting(
            server,
            credentials=StaticCredentials.bearer("t"),
            with_options=options(use_watch_list=True),
        ) as running:
            await until(lambda: len(watches(server)) >= 2)
            status = running.reflector.status()
            assert running.sink.versions() == listed(server)
            assert "403" in (status.last_error or "")
            assert status.attempts >= 1
            server.add_token(Token(value="t"))
            put(server, "b")
            await running.until_equal()
            assert running.reflector.status().last_error is None
        assert verbs(server).count("list") == 1


async def test_a_batch_with_one_version_survives_a_cut_in_its_middle() -> None:
    """kubernetes#110210: events whose lease ends go in one revision."""
    with APIServer() as server:
        for number in range(10):
            metadata = {"name": f"e{number}", "namespace": "default"}
            server.create({"apiVersion": "v1", "kind": "Event", "metadata": metadata})
        one = len(json.encode({"type": "DELETED", "object": server.get("v1", "events", "e0")})) + 1
        server.faults.add(
            Fault(verb="watch", hang=True, cut_after_bytes=4 * one + one // 2, cut="close")
        )
        async with reflecting(server, resource=EVENTS) as running:
            await until_held(server)
            before = int(running.reflector.position)
            assert server.expire_events() == 10
            server.faults.release()
            await running.until_equal("v1", "events")
            assert running.sink.versions() == {}
            assert {len(history) for history in running.sink.history.values()} == {2}
            assert running.reflector.status().loads == 1
        resumed = int(watches(server)[-1])
        assert before <= resumed < int(server.resource_version)


async def test_a_batch_cut_off_after_its_first_event_is_complete_for_any_resource(
    server: APIServer,
) -> None:
    """What a transaction of an aggregated API deletes has one version, of any resource."""
    put(server, "b")
    listed_at, version = server.resource_version, str(int(server.resource_version) + 2)
    lines = []
    for name in ("a", "b"):
        gone = server.get("v1", "pods", name)
        gone["metadata"]["resourceVersion"] = version
        lines.append(json.encode({"type": "DELETED", "object": gone}) + b"\n")
    first = Fault(verb="watch", hang=True, body=lines[0])
    both = Fault(verb="watch", body=b"".join(lines))
    server.faults.add(first, both, Fault(verb="watch", hang=True, times=None))
    async with reflecting(server) as running:
        await until_held(server)
        remove(server, "b", "a")
        server.faults.release()
        await until(lambda: not running.sink.versions())
        await until_held(server)
        assert {len(history) for history in running.sink.history.values()} == {2}
        assert running.reflector.status().loads == 1
    assert watches(server)[0] == watches(server)[1] == listed_at


async def test_an_unknown_event_type_resumes_and_the_same_again_costs_one_list(
    server: APIServer,
) -> None:
    odd = {"metadata": {"name": "odd", "resourceVersion": "99999"}}
    async with reflecting(server) as running:
        await running.until_watching()
        position = running.reflector.position
        for loads in (1, 2):
            opened = len(watches(server))
            assert server.emit("v1", "pods", "UPSERTED", odd) == 1
            await until(partial(_has_more_watches, server, opened))
            await running.until_watching(loads=loads)
        put(server, "b")
        await running.until_equal()
        assert running.counts() == {"unknown_events": 2}
    assert watches(server)[:2] == [position, position]
    assert verbs(server) == ["list", "watch", "watch", "list", "watch"]


async def test_a_line_over_the_limit_resumes_and_is_counted(server: APIServer) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        cached = running.sink.versions()
        server.faults.add(Fault(verb="watch", body=b" " * (MAX_LINE_BYTES + 1) + b"\n"))
        server.end_watches()
        await until(lambda: "too long" in (running.reflector.status().last_error or ""))
        assert running.sink.versions() == cached
        put(server, "b")
        await running.until_equal()
        assert running.counts() == {"unknown_events": 1, "lineage_proofs:intact": 1}
        assert running.reflector.status().loads == 1


def _has_more_watches(server: APIServer, opened: int) -> bool:
    return len(watches(server)) > opened


async def test_objects_without_a_version_cost_one_list_and_then_the_watch_alone(
    server: APIServer,
) -> None:
    nameless = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "uid": "u"}}
    async with reflecting(server) as running:
        await running.until_watching()
        server.emit("v1", "pods", "MODIFIED", nameless)
        await running.until_watching(loads=2)
        server.emit("v1", "pods", "MODIFIED", nameless)
        await until(lambda: "cannot be compared" in (running.reflector.status().last_error or ""))
        put(server, "b")
        await running.until_equal()
    assert verbs(server) == ["list", "watch", "list", "watch", "watch"]


async def test_a_refused_watch_list_is_requested_once_per_cluster() -> None:
    memory = WatchListMemory()
    with APIServer(watch_list=False) as server:
        put(server, "a")
        for resource in ("pods", "services", "nodes"):
            async with reflecting(
                server,
                resource=GroupVersionResource.of("v1", resource),
                memory=memory,
                with_options=options(use_watch_list=True),
            ) as running:
                await running.until_watching()
        assert sum(map(is_watch_list, server.requests)) == 1
        assert verbs(server) == ["watch-list", "list", "watch"]


@pytest.mark.covers("client-go tools/cache: TestInitialEventsEndBookmarkTicker")
async def test_a_watch_list_without_an_end_becomes_a_list(
    server: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyinformer.cache.reflector._initial_events._IDLE_SECONDS", 0.1)
    server.faults.add(Fault(verb="watch", stall_after_bytes=10))
    async with reflecting(server, with_options=options(use_watch_list=True)) as running:
        await running.until_watching()
        await running.until_equal()
    assert [verb for verb in verbs(server) if verb != "look"] == ["watch-list", "list", "watch"]


@pytest.mark.covers("kube-runtime src: test_mode_watch_waits_before_returning_next_event")
async def test_a_watch_list_that_ends_early_begins_again(server: APIServer) -> None:
    put(server, "b", "c")
    server.faults.add(Fault(verb="watch", cut_after_bytes=700, cut="end"))
    async with reflecting(server, with_options=options(use_watch_list=True)) as running:
        await running.until_equal()
        assert all(len(history) == 1 for history in running.sink.history.values())
    assert verbs(server) == ["watch-list", "watch-list"]


def _list_body(*names: str, version: str = "50", kind: str = "PodList", **more: object) -> bytes:
    items = [{"metadata": {"name": name, "uid": name, "resourceVersion": "40"}} for name in names]
    metadata = {"resourceVersion": version, **more}
    return json.encode({"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items})


@pytest.mark.parametrize(
    ("bodies", "error"),
    [
        pytest.param([status_bytes(504)], "Status", id="status-with-200"),
        pytest.param([b"<html>sign in</html>"], "", id="web-page"),
        pytest.param([b""], "", id="nothing"),
        pytest.param([b"[]"], "", id="array"),
        pytest.param([_list_body("x")[:-3]], "", id="cut-off"),
        pytest.param([_list_body("x", kind="Pod")], "is a Pod, not a list", id="no-list"),
        pytest.param([_list_body("x").replace(b'"v1"', b'"v2"')], "v2/PodList", id="other-version"),
        pytest.param([_list_body("x", version="")], "is missing", id="no-version"),
        pytest.param([_list_body("x", version="0")], "compared for equality", id="version-zero"),
        pytest.param([_list_body("x", version="39")], "holds an object at 40", id="newer-item"),
        pytest.param([_list_body("x", remainingItemCount=3)], "3 items early", id="items-missing"),
        pytest.param(
            [_list_body("x", **{"continue": "t"}), _list_body("y", version="51")],
            "its pages are at 50 and at 51",
            id="pages-of-two-versions",
        ),
        pytest.param([_list_body("x", **{"continue": "t"})] * 2, "by itself", id="endless-pages"),
        pytest.param(
            [_list_body("x", **{"continue": token}) for token in ("t", "u", "t")],
            "by one before it",
            id="endless-pages-in-turn",
        ),
    ],
)
async def test_a_list_that_cannot_be_true_takes_no_effect_and_is_repeated(
    server: APIServer, bodies: list[bytes], error: str
) -> None:
    """What the proxy answers instead of the server empties no cache (kubespawner#868)."""
    async with reflecting(server) as running:
        await running.until_watching()
        server.faults.add(
            Fault(verb="watch", status=410),
            *(Fault(match=is_load, body=body) for body in bodies),
            Fault(match=is_load, hang=True),
        )
        server.end_watches()
        await until_held(server)
        assert error in (running.reflector.status().last_error or "")
        assert running.sink.versions() == listed(server)
        assert running.reflector.status().loads == 1
        server.faults.release()
        await running.until_watching(loads=2)
        assert {len(history) for history in running.sink.history.values()} == {1}


async def test_a_negative_number_of_remaining_items_does_not_refuse_a_list(
    server: APIServer,
) -> None:
    """A server may count what it has deleted meanwhile; client-go does not read the number."""
    server.faults.add(Fault(match=is_load, body=_list_body("x", remainingItemCount=-1)))
    async with reflecting(server, with_options=options()) as running:
        await until(lambda: "x" in running.sink.objects)


@pytest.mark.parametrize("watch_list", [False, True], ids=["list", "watch-list"])
async def test_an_aggregated_api_that_counts_each_object_by_itself_is_synced(
    server: APIServer, watch_list: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The version of its lists says nothing of those of its objects."""
    metadata: JSONObject = {"name": "a", "namespace": "x", "uid": "u", "resourceVersion": "9000"}
    item: JSONObject = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": metadata}
    body = {
        "kind": "WidgetList",
        "apiVersion": "example.com/v1",
        "metadata": {"resourceVersion": "3"},
        "items": [item],
    }
    server.register("example.com/v1", "Widget", "widgets")
    server.watch_list = False
    server.faults.add(Fault(match=is_load, body=json.encode(body), times=None))
    widgets = GroupVersionResource.of("example.com/v1", "widgets")
    tried = options(use_watch_list=watch_list)
    async with reflecting(server, resource=widgets, with_options=tried) as running:
        await until(lambda: running.reflector.status().loads)
        assert running.sink.versions() == {"x/a": "9000"}
        assert running.reflector.status().guard.order == "per_object"
    assert "taken as per_object" in caplog.text


async def test_inconsistent_lists_of_a_built_in_resource_are_logged_once_and_refused(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    put(server, "a")
    body = json.encode(
        {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "1"},
            "items": server.list("v1", "pods"),
        }
    )
    server.faults.add(Fault(match=is_load, body=body, times=6))
    async with reflecting(server) as running:
        await running.until_watching()
        assert running.reflector.status().guard.order == "global"
    errors = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "breaks the order" in errors[0].getMessage()


async def test_a_bad_item_is_skipped_and_nothing_is_deleted_by_that_list(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        at = int(server.resource_version)
        good = {"metadata": {"name": "x", "namespace": "default", "uid": "x"}}
        good["metadata"]["resourceVersion"] = str(at)
        body = json.encode(
            {
                "kind": "PodList",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(at)},
                "items": [{"metadata": {}}, good, {"kind": "Node", "metadata": {"name": "n"}}],
            }
        )
        server.faults.add(Fault(verb="watch", status=410), Fault(match=is_load, body=body))
        server.end_watches()
        await running.until_watching(loads=2)
        assert sorted(running.sink.objects) == ["default/a", "default/x"]
        assert running.counts()["undecodable:skipped"] == 2
    skipped = [one for one in caplog.records if "deletes nothing" in one.message]
    assert len(skipped) == 1, "once for a list, not for each item"


async def test_a_server_that_went_back_in_time_begins_a_new_epoch(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    saved = server.save()
    async with reflecting(server) as running:
        await running.until_watching()
        for number in range(20):
            put(server, "a", value=f"n{number}")
        put(server, "b")
        await running.until_equal()
        server.faults.add(Fault(verb="watch", status=410))
        server.restore(saved)
        await running.until_watching(loads=2)
        await running.until_equal()
        assert running.sink.history["default/b"][-1].startswith("delete?")
        status = running.reflector.status().guard
        assert (status.epoch, status.position) == (1, server.resource_version)
        put(server, "a", value="after")
        await running.until_equal()
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "A new epoch begins" in record.message


async def test_a_bookmark_behind_the_position_is_followed_by_a_proof_and_no_list(
    server: APIServer,
) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        server.emit("v1", "pods", "BOOKMARK", behind())
        await until(lambda: verbs(server).count("watch") == 2)
        put(server, "b")
        await running.until_equal()
    assert verbs(server) == ["list", "watch", "look", "look", "watch"]


async def test_a_server_whose_bookmarks_are_always_behind_is_followed(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    put(server, "a")
    line = json.encode({"type": "BOOKMARK", "object": behind()}) + b"\n"
    server.faults.add(Fault(verb="watch", frames=(line,), times=None))
    async with reflecting(server) as running:
        await running.until_watching()
        await until(lambda: running.reflector.status().breaks_order)
        put(server, "b")
        await running.until_equal()
        assert running.counts()["rv_regressions:ignored"] >= 1
        loads = running.reflector.status().loads
    assert loads == 2
    assert "the server breaks the order of resource versions" in caplog.text


async def test_a_server_whose_bookmarks_are_always_malformed_is_followed(
    server: APIServer,
) -> None:
    put(server, "a")
    bad = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "malformed"}}
    line = json.encode({"type": "BOOKMARK", "object": bad}) + b"\n"
    server.faults.add(Fault(verb="watch", frames=(line,), times=4))
    async with reflecting(server) as running:
        await until(lambda: verbs(server).count("watch") >= 4)
        put(server, "b")
        await running.until_equal()
        assert running.reflector.status().loads == 2
        assert running.counts()["rv_malformed"] == 4


async def test_an_event_that_cannot_be_proven_stale_causes_a_read_and_no_list(
    server: APIServer,
) -> None:
    suspicions: list[str] = []
    async with reflecting(server, on_suspicion=suspicions.append) as running:
        await running.until_watching()
        server.emit("v1", "pods", "ADDED", behind())
        await until(lambda: verbs(server).count("watch") == 2)
        put(server, "b")
        await running.until_equal()
        assert "default/x" not in running.sink.objects
    assert verbs(server) == ["list", "watch", "look", "look", "look", "watch"]
    assert len(suspicions) == 1


@pytest.mark.parametrize("left_out", [1, 2], ids=["all", "without-end"])
async def test_a_read_that_returns_other_objects_changes_nothing(
    server: APIServer, left_out: int
) -> None:
    """An aggregated API server may ignore field selectors, and answer with all it has.

    The look ends at the first object that was not asked for: behind it may come any number.
    """
    put(server, "a", "b", value="1")
    (first, second) = server.list("v1", "pods")
    items = [{**first, "metadata": {**first["metadata"], "resourceVersion": "999"}}, second]
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "999"}}
    everything = json.encode({**body, "items": items})
    everything = everything[: len(everything) + 1 - left_out]
    is_look = "metadata.name=x"
    server.faults.add(
        Fault(match=lambda one: one.query.get("fieldSelector") == is_look, body=everything)
    )
    suspicions: list[str] = []
    async with reflecting(server, on_suspicion=suspicions.append) as running:
        await running.until_watching()
        server.emit("v1", "pods", "ADDED", behind())
        await until(lambda: verbs(server).count("watch") == 2)
        put(server, "c")
        await running.until_equal()
    assert any("could not be read" in reason for reason in suspicions)
    assert any("does the server ignore field selectors" in reason for reason in suspicions)


async def test_a_second_suspect_stream_is_listed_once(server: APIServer) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        for number in (2, 3):
            server.emit("v1", "pods", "ADDED", behind(f"x{number}"))
            await until(lambda: verbs(server).count("watch") == number)  # noqa: B023 - awaited here
        put(server, "b")
        await running.until_equal()
    heavy = [verb for verb in verbs(server) if verb != "look"]
    assert heavy == ["list", "watch", "watch", "list", "watch"]


def behind(name: str = "x") -> JSONObject:
    """Return an object at a version that the server has left behind."""
    metadata: JSONObject = {"name": name, "namespace": "default", "resourceVersion": "1"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}


async def test_objects_that_leave_and_enter_a_selection_are_followed(server: APIServer) -> None:
    async with reflecting(server, label_selector="app=web") as running:
        await running.until_watching()
        put(server, "a", app="web")
        await until(lambda: "default/a" in running.sink.objects)
        put(server, "a", app="db")
        await until(lambda: "default/a" not in running.sink.objects)
        put(server, "a", app="web")
        await running.until_equal()
        kinds = [words.split()[0] for words in running.sink.history["default/a"]]
        assert kinds == ["add", "delete", "add"]


async def test_an_object_that_a_transform_fails_on_is_kept_and_counted(server: APIServer) -> None:
    def transform(body: object) -> None:
        raise ZeroDivisionError

    async with reflecting(server, transform=transform) as running:
        await running.until_equal()
        assert running.sink.objects["default/a"].problem
        assert running.counts() == {"undecodable:kept": 1}


async def test_any_consistency_is_for_the_first_list_only(server: APIServer) -> None:
    server.faults.add(Fault(verb="watch", status=410))
    async with reflecting(server, with_options=options(consistency="any")) as running:
        await running.until_watching(loads=2)
    lists = [one.query for one in server.requests if one.verb == "list"]
    asked = [(one.get("resourceVersion"), one.get("resourceVersionMatch")) for one in lists]
    assert asked == [("0", "NotOlderThan"), (None, None)]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"watch_timeout_seconds": (0.0, 1.0)}, id="no-time"),
        pytest.param({"watch_timeout_seconds": (2.0, 1.0)}, id="empty-range"),
        pytest.param({"watch_timeout_seconds": (2.0, float("inf"))}, id="endless-watches"),
        pytest.param({"watch_timeout_seconds": 180.0}, id="no-range"),
        pytest.param({"order": "strict"}, id="unknown-order"),
        pytest.param({"consistency": "quorom"}, id="unknown-consistency"),
        pytest.param({"use_watch_list": "no"}, id="word-for-a-bool"),
        pytest.param({"page_size": 1.5}, id="part-of-an-item"),
        pytest.param({"max_object_bytes": float("nan")}, id="no-limit"),
        pytest.param({"silence_seconds": "75"}, id="text-for-a-number"),
        pytest.param({"poll_seconds": float("inf")}, id="never-polls"),
        pytest.param({"page_size": -1}, id="negative-page"),
        pytest.param({"silence_seconds": 0.0}, id="no-patience"),
        pytest.param({"poll_seconds": float("nan")}, id="no-number"),
    ],
)
def test_invalid_options_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(changes))):
        options(**changes)


@pytest.mark.covers("client-go tools/cache: TestReflectorHandleWatchStoppedBefore")
@pytest.mark.parametrize("hang", ["list", "watch"])
async def test_a_cancelled_run_leaves_no_connection(server: APIServer, hang: str) -> None:
    """Wherever it waits; the check for open sockets after each test does the rest."""
    server.faults.add(Fault(verb=hang, hang=True))
    async with reflecting(server) as running:
        await until_held(server)
        reflector = running.reflector
    assert reflector.state is ReflectorState.STOPPED
    await until(lambda: server.open_watches == 0 and server.faults.held == 0)


@pytest.mark.covers(
    "client-go tools/cache: TestReflectorHandleWatchStoppedAfter",
    "client-go tools/cache: TestReflectorStopWatch",
    "client-go tools/watch: TestRetryWatcherToFinishWithUnreadEvents",
)
async def test_a_cancelled_run_leaves_no_watch(server: APIServer) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
    assert running.reflector.state is ReflectorState.STOPPED
    await until(lambda: server.open_watches == 0)


async def test_a_lost_server_and_its_return_are_logged_once(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The log of a controller that does nothing names the reason."""
    caplog.set_level(logging.INFO, logger="pyinformer.cache.reflector")

    def told() -> list[str]:
        ours = [one for one in caplog.records if one.name.startswith("pyinformer")]
        return [one.getMessage() for one in ours]

    async with reflecting(server) as one:
        await one.until_watching()
        assert told() == []
        server.stop_accepting()
        server.drop_connections()
        await until(lambda: one.reflector.status().attempts > 5)
        assert len(told()) == 1
        assert "pods.v1 cannot be followed, 3 attempts failed" in told()[0]
        server.accept_again()
        put(server, "b")  # an accepted watch proves little; one that delivers something does
        await until(lambda: told()[1:])
        assert told()[1:] == ["pods.v1 is followed again"]
