"""The recorder against a server: it never delays its caller, and reports what it dropped."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.client.cluster import connect
from pyinformer.controller.conventions import EventRecorder
from pyinformer.errors import InvalidArgumentError
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import Hurry
from tests.hostile import HOSTILE, assert_shown_safely
from tests.pods import make
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.objects import JSONObject

_POD = make("default/web")


@asynccontextmanager
async def _recording(**options: Any) -> AsyncIterator[tuple[APIServer, EventRecorder]]:
    """Serve, and record by a clock that stands still."""
    with APIServer() as server:
        async with connect(server=server.url) as cluster:
            given: dict[str, Any] = {"wall_clock": lambda: 100.0, "rng": Hurry(), "instance": "i"}
            async with EventRecorder(cluster, "acme.io/db", **(given | options)) as recorder:
                yield server, recorder


def _events(server: APIServer) -> list[JSONObject]:
    return server.list("events.k8s.io/v1", "events")


async def _written(recorder: EventRecorder, count: int) -> None:
    await until(lambda: recorder.statistics().written >= count, what=recorder.statistics())


@pytest.mark.covers("client-go tools/record: TestEventf")
async def test_an_event_reaches_the_server_as_it_was_recorded() -> None:
    async with _recording() as (server, recorder):
        recorder.event(_POD, "Killing", "it was idle", type="Warning", action="Stop")
        await _written(recorder, 1)

        (event,) = _events(server)
        assert event["metadata"]["namespace"] == "default"
        assert event["regarding"]["uid"] == "uid-web"
        assert (event["type"], event["reason"], event["action"]) == ("Warning", "Killing", "Stop")
        assert event["note"] == "it was idle"
        assert event["eventTime"] == "1970-01-01T00:01:40.000000Z"
        assert (event["reportingController"], event["reportingInstance"]) == ("acme.io/db", "i")


@pytest.mark.covers("client-go tools/record: TestEventf")
async def test_equal_events_become_one_with_a_count() -> None:
    async with _recording() as (server, recorder):
        recorder.event(_POD, "Killing", "once")
        await _written(recorder, 1)
        for _ in range(1000):
            recorder.event(_POD, "Killing", "again")
        await _written(recorder, 2)

        (event,) = _events(server)
        assert event["note"] == "once"
        assert event["series"]["count"] == 1001
        assert recorder.statistics().aggregated == 999


async def test_events_recorded_before_the_start_are_written() -> None:
    with APIServer() as server:
        async with connect(server=server.url) as cluster:
            recorder = EventRecorder(cluster, "db")
            recorder.event(_POD, "Killing")
            async with recorder:
                await _written(recorder, 1)

        assert len(_events(server)) == 1


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
async def test_the_texts_of_an_event_are_lines_of_printed_characters(text: str) -> None:
    """Events are read on terminals: what tenants wrote must not steer them."""
    async with _recording() as (server, recorder):
        recorder.event(_POD, "Failed", f"cannot read {text}", action=text)
        await _written(recorder, 1)

        (event,) = _events(server)
        assert_shown_safely(event["note"])
        assert_shown_safely(event["action"])
        assert event["note"].startswith("cannot read a")


async def test_any_thread_may_record_an_event() -> None:
    async with _recording() as (server, recorder):
        threads = [
            threading.Thread(target=recorder.event, args=(make(f"default/p{n}"), "Killing"))
            for n in range(5)
        ]
        for thread in threads:
            thread.start()
        await _written(recorder, 5)
        for thread in threads:
            thread.join()

        assert len(_events(server)) == 5


async def test_an_invalid_event_is_dropped_and_named_and_never_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Hostile:
        """Raises whatever is asked of it."""

        def __getattribute__(self, name: str) -> object:
            raise RuntimeError(name)

    async with _recording() as (server, recorder):
        wrong: Any = recorder
        wrong.event(_POD, "")
        wrong.event({"kind": "Pod"}, "Killing")
        wrong.event(Hostile(), "Killing")
        wrong.event(_POD, "Killing", note=7)

        assert recorder.statistics().invalid == 4
        assert recorder.statistics().recorded == 4
        assert _events(server) == []
    assert "reason: must not be empty" in caplog.text


async def test_repeated_drops_for_one_reason_are_logged_once_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with _recording() as (_, recorder):
        for _number in range(1000):
            recorder.event(_POD, "")
        assert recorder.statistics().invalid == 1000
    ours = [each.getMessage() for each in caplog.records if each.name.startswith("pyinformer")]
    assert len(ours) == 1
    assert "is dropped" in ours[0]


async def test_a_clock_that_fails_raises_nothing_in_a_reconcile() -> None:
    def broken() -> float:
        raise OSError("no clock")

    async with _recording(wall_clock=broken) as (_, recorder):
        recorder.event(_POD, "Killing")

        assert recorder.statistics().invalid == 1


@pytest.mark.covers("client-go tools/record: TestWriteEventError")
async def test_a_server_that_is_busy_is_asked_again_and_gets_the_event_once() -> None:
    async with _recording() as (server, recorder):
        server.faults.add(Fault(verb="create", status=503, times=2))
        recorder.event(_POD, "Killing")
        await _written(recorder, 1)

        assert server.faults.struck == 2
        assert len(_events(server)) == 1


async def test_an_event_that_the_server_fails_to_store_delays_no_other() -> None:
    async with _recording(rng=random.Random(1)) as (server, recorder):
        broken = Fault(verb="create", namespace="broken", status=500, times=None)
        server.faults.add(broken)
        recorder.event(make("broken/a"), "Killing")
        recorder.event(make("broken/b"), "Killing")
        recorder.event(_POD, "Killing")
        await _written(recorder, 1)
        assert [one["metadata"]["namespace"] for one in _events(server)] == ["default"]

        recorder.event(make("broken/a"), "Killing")  # while the first attempt is postponed
        server.faults.clear()
        await _written(recorder, 3)
        counts: dict[str, Any] = {
            one["regarding"]["name"]: one.get("series") for one in _events(server)
        }
        assert set(counts) == {"web", "a", "b"}
        assert counts["a"]["count"] == 2


async def test_closing_counts_events_that_are_postponed() -> None:
    async with _recording(rng=random.Random(1), drain_timeout_seconds=0.2) as (server, recorder):
        server.faults.add(Fault(verb="create", status=500, times=None))
        recorder.event(_POD, "Killing")
        await until(lambda: server.faults.struck)
    statistics = recorder.statistics()
    assert (statistics.written, statistics.undelivered) == (0, 1)


@pytest.mark.covers("client-go tools/events: TestRecordEventToSink")
async def test_an_answer_that_was_lost_makes_no_second_event() -> None:
    async with _recording() as (server, recorder):
        server.faults.add(Fault(verb="create", cut_after_bytes=0))
        recorder.event(_POD, "Killing")
        await _written(recorder, 1)
        recorder.event(_POD, "Killing")
        await _written(recorder, 2)

        (event,) = _events(server)
        assert event["series"]["count"] == 2


async def test_occurrences_during_a_lost_answer_are_counted_on_the_server() -> None:
    class Again(Hurry):
        """Record the event once more between two attempts."""

        def uniform(self, a: float, b: float) -> float:
            """Record, and hurry."""
            recorder.event(_POD, "Killing")
            return super().uniform(a, b)

    async with _recording(rng=Again()) as (server, recorder):
        server.faults.add(Fault(verb="create", cut_after_bytes=0))
        recorder.event(_POD, "Killing")
        await _written(recorder, 1)

        (event,) = _events(server)
        assert event["series"]["count"] == recorder.statistics().recorded == 2


async def test_a_text_that_is_not_unicode_stops_no_recorder() -> None:
    async with _recording() as (server, recorder):
        recorder.event(_POD, "Killing", "no such file: \udcff.txt")
        await _written(recorder, 1)

        (event,) = _events(server)
        assert event["note"] == "no such file: \\udcff.txt"


async def test_a_clock_out_of_range_does_not_stop_the_recorder() -> None:
    async with _recording(wall_clock=lambda: 1e300) as (server, recorder):
        recorder.event(_POD, "Killing")
        await _written(recorder, 1)

        assert len(_events(server)) == 1


@pytest.mark.covers("client-go tools/record: TestWriteEventError")
async def test_a_refused_event_is_dropped_and_the_next_one_is_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with _recording() as (server, recorder):
        server.faults.add(Fault(verb="create", status=403))
        recorder.event(_POD, "Killing")
        await until(lambda: recorder.statistics().failed == 1)
        recorder.event(_POD, "Killing")
        await _written(recorder, 1)

        assert len(_events(server)) == 1
    assert "about Pod default/web is dropped" in caplog.text


async def test_events_in_a_namespace_that_is_deleted_do_not_hide_a_missing_right(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone"}}
    async with _recording() as (server, recorder), connect(server=server.url) as client:
        await client.create(namespace)
        await client.delete(namespace)
        recorder.event(make("gone/web"), "Killing")
        await until(lambda: recorder.statistics().failed == 1)
        assert caplog.records == []

        server.faults.add(Fault(verb="create", status=403))
        recorder.event(_POD, "Killing")
        await until(lambda: recorder.statistics().failed == 2)
    assert "about Pod default/web is dropped" in caplog.text


@pytest.mark.covers(
    "client-go tools/record: TestUpdateExpiredEvent",
    "client-go tools/events: TestRecordEventToSink",
)
async def test_a_series_whose_event_has_expired_continues_as_a_new_one() -> None:
    async with _recording() as (server, recorder):
        recorder.event(_POD, "Killing")
        await _written(recorder, 1)
        server.expire_events()
        recorder.event(_POD, "Killing")
        await _written(recorder, 2)

        (event,) = _events(server)
        assert event["series"]["count"] == 2


@pytest.mark.covers("client-go tools/record: TestLotsOfEvents")
async def test_a_backlog_that_is_full_drops_and_counts() -> None:
    async with _recording(max_waiting=3) as (server, recorder):
        server.faults.add(Fault(verb="create", hang=True))
        recorder.event(_POD, "Killing")
        await until(lambda: server.faults.held == 1)
        for number in range(10):
            recorder.event(make(f"default/p{number}"), "Killing")

        assert recorder.statistics().waiting == 3
        assert recorder.statistics().overflowed == 7
        server.faults.release()
        await _written(recorder, 3)


@pytest.mark.covers("client-go tools/record: TestBroadcasterShutdown")
async def test_closing_writes_pending_events() -> None:
    async with _recording() as (server, recorder):
        for number in range(10):
            recorder.event(make(f"default/p{number}"), "Killing")
        for _ in range(3):
            recorder.event(_POD, "Killing")
        await recorder.aclose()
        recorder.event(_POD, "Killing")

        assert len(_events(server)) == 11
        assert recorder.statistics().waiting == 0
        assert recorder.statistics().undelivered == 0
        assert recorder.statistics().after_close == 1
        assert max(event.get("series", {}).get("count", 1) for event in _events(server)) == 3


@pytest.mark.covers(
    "client-go tools/record: TestBroadcasterShutdown", "client-go tools/record: TestCancelEvent"
)
async def test_closing_ends_although_the_server_does_not_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with _recording(drain_timeout_seconds=0.05) as (server, recorder):
        server.faults.add(Fault(verb="create", hang=True, times=None))
        for number in range(4):
            recorder.event(make(f"default/p{number}"), "Killing")
        await until(lambda: server.faults.held == 1)

        async with asyncio.timeout(100):
            await recorder.aclose()

        assert recorder.statistics().undelivered == 4
        server.faults.release()
    assert "4 events of acme.io/db dropped: the recorder is closed" in caplog.text


@pytest.mark.covers("client-go tools/record: TestBroadcasterShutdown")
async def test_closing_twice_or_without_a_start_is_not_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with APIServer() as server:
        async with connect(server=server.url) as cluster:
            recorder = EventRecorder(cluster, "db")
            recorder.event(_POD, "Killing")
            await recorder.aclose()
            await recorder.aclose()

            assert recorder.statistics().undelivered == 1
    assert "1 event of db dropped: the recorder is closed" in caplog.text


@pytest.mark.covers("client-go tools/record: TestBroadcasterShutdown")
async def test_closing_that_is_cancelled_drops_and_counts() -> None:
    async with _recording() as (server, recorder):
        server.faults.add(Fault(verb="create", hang=True, times=None))
        recorder.event(_POD, "Killing")
        await until(lambda: server.faults.held == 1)
        closing = asyncio.create_task(recorder.aclose())
        await asyncio.sleep(0)
        closing.cancel()

        with pytest.raises(asyncio.CancelledError):
            await closing

        assert recorder.statistics().undelivered == 1
        server.faults.release()


@pytest.mark.parametrize("controller", ["", "two words", "a/b/c", "x" * 64, "-a.io/b", "a..io/b"])
async def test_an_invalid_reporting_controller_is_refused(controller: str) -> None:
    async with connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises(InvalidArgumentError, match=r"^controller: "):
            EventRecorder(cluster, controller)


@pytest.mark.parametrize("option", ["max_waiting", "drain_timeout_seconds"])
async def test_invalid_numbers_are_refused(option: str) -> None:
    wrong: dict[str, Any] = {option: -1}
    async with connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises(InvalidArgumentError, match=option):
            EventRecorder(cluster, "db", **wrong)
