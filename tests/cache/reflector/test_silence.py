"""A stream that goes silent: a second one takes its place, and nothing is listed.

The server keeps the connection and delivers nothing more, as a stalled proxy does; only the time
without a bookmark shows it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from pyinformer.cache.reflector import (
    Reflector,
    ReflectorState,
    RequestBudget,
    RequestBudgetOptions,
)
from pyinformer.cache.reflector._silent_watch_probe import (
    SilenceCheck,
    SilenceFinding,
    SilenceMonitor,
    StreamProgress,
)
from pyinformer.client.transport import ListWatch
from pyinformer.errors import TransportError
from pyinformer.objects import GroupVersionResource
from pyinformer.testing import APIServer, Fault
from tests.cache.reflector.running import options, put, reflecting, until_held, verbs, watches
from tests.cache.reflector.samples import PODS, DictSink, bookmark, line
from tests.client.transport.serving import CHUNKED, chunk, connected, response, serving
from tests.virtual_time import elapse
from tests.waiting import pause, until

if TYPE_CHECKING:
    from pyinformer.cache.reflector._silent_watch_probe import IdleTimer
    from pyinformer.client.transport import Body
    from pyinformer.testing import RequestRecord
    from tests.client.transport.serving import Request

CONFIG_MAPS = GroupVersionResource.of("v1", "configmaps")
SECRETS = GroupVersionResource.of("v1", "secrets")
QUIET = options(silence_seconds=0.3)
STALLED = Fault(verb="watch", stall_after_bytes=0)


@pytest.fixture
def server() -> Iterator[APIServer]:
    """Return a server that sends bookmarks too rarely to count."""
    with APIServer(bookmark_interval_seconds=3600.0, final_bookmark_lead_seconds=0.0) as made:
        put(made, "a")
        yield made


@pytest.mark.covers(
    "kube-runtime src: idle_timeout_returns_item_when_stream_has_data",
    "client-go rest: TestReconnectBrokenTCP",
)
async def test_a_silent_stream_is_replaced_at_the_same_position_without_a_list(
    server: APIServer,
) -> None:
    server.faults.add(STALLED)
    async with reflecting(server, with_options=QUIET) as running:
        await until_held(server)
        put(server, "b")
        await running.until_equal()
        assert running.reflector.status().takeovers >= 1
        assert {len(history) for history in running.sink.history.values()} == {1}
    assert verbs(server)[:3] == ["list", "watch", "watch"]
    assert verbs(server).count("list") == 1
    assert watches(server)[0] == watches(server)[1]


async def test_the_second_stream_is_made_before_the_first_is_broken(server: APIServer) -> None:
    async with reflecting(server, with_options=options(silence_seconds=0.3)) as running:
        await running.until_watching()
        server.faults.add(Fault(verb="watch", hang=True))
        await until_held(server)
        assert server.open_watches == 1, "the first continues while the second is opened"
        server.faults.release()
        await until(lambda: running.reflector.status().takeovers)
        put(server, "b")
        await running.until_equal()


async def test_two_consecutive_silent_streams_request_a_history_check(server: APIServer) -> None:
    async with reflecting(server, with_options=QUIET) as running:
        await running.until_watching()
        await until(lambda: "look" in verbs(server))
        await until(lambda: running.reflector.status().state == "watching")
        asked = verbs(server)
        assert asked[: asked.index("look")].count("watch") == 2
        assert asked.count("list") == 1
        assert running.reflector.epoch == 0


@pytest.mark.covers("kube-runtime src: idle_timeout_returns_item_when_stream_has_data")
async def test_a_stream_that_progresses_in_time_is_not_replaced(server: APIServer) -> None:
    async with reflecting(server, with_options=options(silence_seconds=30.0)) as running:
        await running.until_watching()
        loaded_at = running.reflector.last_proof_at
        server.send_bookmarks()
        await until(lambda: running.reflector.liveness().last_bookmark_at is not None)
        put(server, "b")
        await running.until_equal()
        facts = running.reflector.liveness()
        assert facts.last_event_at is not None
        assert facts.last_proof_at == loaded_at, "an event may have been on its way for long"
        assert facts.observed_resource_version == server.resource_version
        assert facts.takeovers == 0


async def test_a_silent_stream_whose_successor_is_refused_is_followed_by_a_proof(
    server: APIServer,
) -> None:
    async with reflecting(server, with_options=QUIET) as running:
        await running.until_watching()
        server.faults.add(Fault(verb="watch", refuse=True))
        put_after = verbs(server).count("watch") + 2
        await until(lambda: verbs(server).count("watch") >= put_after)
        put(server, "b")
        await running.until_equal()
        assert verbs(server).count("list") == 1


async def test_a_position_in_the_future_is_corrected_though_the_watch_is_accepted(
    server: APIServer,
) -> None:
    """The API's own rule: a watch at a version that the server has not reached is silent."""
    saved = server.save()
    async with reflecting(server, with_options=QUIET) as running:
        await running.until_watching()
        put(server, "b", "c", "d")
        await running.until_equal()
        server.restore(saved)
        put(server, "e")
        await running.until_equal()
        assert running.reflector.epoch == 1


@pytest.fixture
def relist_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return what shortens the five minutes without contact: sockets have the real clock."""

    def shorten(seconds: float) -> None:
        monkeypatch.setattr("pyinformer.cache.reflector._reflector._RELIST_AFTER_SECONDS", seconds)

    return shorten


async def test_after_a_long_time_without_contact_everything_is_listed(
    server: APIServer, relist_after: Callable[[float], None]
) -> None:
    relist_after(0.001)
    async with reflecting(server) as running:
        await running.until_watching()
        server.stop_accepting()
        server.drop_connections()
        await until(lambda: running.reflector.status().attempts >= 2)
        server.accept_again()
        await running.until_watching(loads=2)
        assert any("no contact" in entry.what for entry in running.reflector.journal.entries())


async def test_after_a_long_time_without_contact_nothing_is_followed_unproven(
    server: APIServer, relist_after: Callable[[float], None]
) -> None:
    """The lists that would prove the history are refused, and watches are not."""
    relist_after(0.001)
    async with reflecting(server) as running:
        await running.until_watching()
        server.faults.add(Fault(match=is_proof, status=503, times=None))
        server.drop_connections()
        await running.until_watching(loads=2)
        assert any("no contact" in entry.what for entry in running.reflector.journal.entries())


def is_proof(record: RequestRecord) -> bool:
    """Return whether a request asks for one object of the newest state."""
    return record.verb == "list" and record.query.get("limit") == "1"


async def test_the_silence_that_ended_a_watch_is_part_of_the_time_without_contact(
    server: APIServer, relist_after: Callable[[float], None]
) -> None:
    relist_after(2.4)
    async with reflecting(server, with_options=options(silence_seconds=2.5)) as running:
        await running.until_watching(loads=2)
        assert any("no contact" in entry.what for entry in running.reflector.journal.entries())


async def test_after_a_short_time_without_contact_nothing_is_listed(server: APIServer) -> None:
    async with reflecting(server) as running:
        await running.until_watching()
        server.drop_connections()
        await until(lambda: verbs(server).count("watch") == 2)
        put(server, "b")
        await running.until_equal()
        assert verbs(server).count("list") == 1


EMPTY_LIST = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}'
TRICKLES = {
    "blank-lines": [b"\n"],
    "an-unfinished-line": [b'{"type":"MODIFIED",', b" "],
    "blank-lines-of-a-body-without-chunks": [],
}


@pytest.mark.parametrize("client", ["direct", "aiohttp"])
@pytest.mark.parametrize("trickle", TRICKLES)
async def test_a_partial_event_neither_proves_freshness_nor_ends_a_silence(
    trickle: str, client: str
) -> None:
    is_chunked = bool(TRICKLES[trickle])
    bare_head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if "watch=true" not in request.target:
            writer.write(response(EMPTY_LIST))
            return
        writer.write(CHUNKED if is_chunked else bare_head)
        for part in TRICKLES[trickle][:-1]:
            writer.write(chunk(part))
        while True:
            writer.write(chunk(TRICKLES[trickle][-1]) if is_chunked else b"\n")
            await pause(0.02)

    async with serving(answer) as server, connected(server.url, http_client=client) as connection:
        reflector: Reflector[None] = Reflector(
            ListWatch(connection, PODS), DictSink(), options=QUIET
        )
        task = asyncio.create_task(reflector.run())
        try:
            await until(lambda: reflector.status().state == "watching")
            loaded_at = reflector.liveness().last_proof_at
            await until(lambda: reflector.status().takeovers >= 1)

            facts = reflector.liveness()
            assert (facts.last_event_at, facts.last_bookmark_at) == (None, None)
            assert facts.last_proof_at == loaded_at
        finally:
            task.cancel()
            await asyncio.wait({task})


class EndlessLine:
    """The body of a watch: one line without an end, 32 KiB of it each second."""

    received_bytes = 0

    async def read(self) -> bytes:
        """Return what arrives within the next second."""
        await elapse(1.0)
        return b" " * (32 << 10)


@pytest.mark.virtual_time
async def test_a_line_without_an_end_delays_a_silence_by_a_minute_at_most() -> None:
    list_watch = SimpleNamespace(
        shown="pods.v1",
        resource=PODS,
        metadata_only=False,
        is_selective=False,
        uid_range=None,
        connection=None,
    )
    reflector: Reflector[None] = Reflector(
        cast("ListWatch", list_watch), DictSink(), options=options(silence_seconds=75.0)
    )
    watching = reflector._watch_loop
    applier = watching.applier()
    splitter = watching._splitter()
    splitter.redirect(applier.on_line, applier.on_oversized)
    with anyio.fail_after(300.0):
        silent_seconds = await watching._read(cast("Body", EndlessLine()), splitter, applier)
    assert silent_seconds == pytest.approx(75.0 + 60.0, abs=1.0)


async def test_a_long_line_that_arrives_slowly_is_not_a_silence() -> None:
    """What has arrived of it has earned four seconds: the silence alone would be 0.3 s."""
    event = line("ADDED", "a" * 64 * 1024, "6") + b"\n" + bookmark("7") + b"\n"

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if "watch=true" not in request.target:
            writer.write(response(EMPTY_LIST))
            return
        writer.write(CHUNKED + chunk(event[: 64 * 1024]))
        await pause(1.0)
        writer.write(chunk(event[64 * 1024 :]))
        await asyncio.Event().wait()

    async with serving(answer) as server, connected(server.url) as connection:
        sink = DictSink()
        reflector: Reflector[None] = Reflector(ListWatch(connection, PODS), sink, options=QUIET)
        task = asyncio.create_task(reflector.run())
        try:
            await until(lambda: reflector.liveness().last_bookmark_at is not None)
            assert reflector.status().takeovers == 0
            assert reflector.liveness().observed_resource_version == "7"
        finally:
            task.cancel()
            await asyncio.wait({task})


async def test_a_repeated_event_counts_as_progress_though_it_changes_nothing() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if "watch=true" not in request.target:
            writer.write(response(EMPTY_LIST))
            return
        writer.write(CHUNKED)
        while True:
            writer.write(chunk(line("ADDED", "a", "6") + b"\n"))
            await pause(0.02)

    async with serving(answer) as server, connected(server.url) as connection:
        reflector: Reflector[None] = Reflector(
            ListWatch(connection, PODS), DictSink(), options=options(silence_seconds=30.0)
        )
        task = asyncio.create_task(reflector.run())
        try:
            await until(lambda: reflector.liveness().last_event_at is not None)
            first = reflector.liveness().last_event_at or 0.0
            await until(lambda: (reflector.liveness().last_event_at or 0.0) > first)
            assert reflector.status().takeovers == 0
        finally:
            task.cancel()
            await asyncio.wait({task})


def checking(seconds: float = 0.3) -> RequestBudget:
    """Return the budgets of a connection that checks silent streams so soon."""
    return RequestBudget(RequestBudgetOptions(silence_check_seconds=seconds))


async def test_a_stalled_stream_with_news_behind_it_is_replaced_long_before_bookmarks_are_missed(
    server: APIServer,
) -> None:
    server.faults.add(STALLED)
    request_budget = checking()
    async with reflecting(server, request_budget=request_budget) as running:
        await until_held(server)
        put(server, "b")
        await running.until_equal()
        assert running.reflector.status().takeovers == 1
        assert {len(history) for history in running.sink.history.values()} == {1}
        assert request_budget.silence.checks >= 1
    assert verbs(server).count("list") == 1


async def test_one_stalled_stream_has_all_silent_streams_checked(server: APIServer) -> None:
    server.faults.add(replace(STALLED, times=2))
    request_budget = checking(2.0)  # longer than a check takes
    async with (
        reflecting(server, request_budget=request_budget) as first,
        reflecting(server, resource=CONFIG_MAPS, request_budget=request_budget) as second,
    ):
        await until_held(server, 2)
        put(server, "b")
        await first.until_equal()
        await until(lambda: second.reflector.status().takeovers == 1)


async def test_silent_streams_are_checked_in_turn(server: APIServer) -> None:
    """The checks that find nothing are not all of one stream, while another one is stalled."""
    server.faults.add(replace(STALLED, match=lambda sent: sent.path.endswith("/pods")))
    budget = checking(1.5)  # longer than a check takes
    async with (
        reflecting(server, resource=CONFIG_MAPS, request_budget=budget) as first,
        reflecting(server, resource=SECRETS, request_budget=budget) as second,
        reflecting(server, request_budget=budget) as stalled,
    ):
        for running in (first, second):
            await running.until_watching()
        await until_held(server)
        put(server, "b")
        await stalled.until_equal()


@pytest.mark.parametrize("trouble", [{"hang": True}, {"refuse": True}, {"status": 503}], ids=str)
async def test_open_streams_stay_while_new_connections_get_no_answer(
    server: APIServer, trouble: dict[str, Any]
) -> None:
    """A firewall that lets only established connections through harms no watch."""
    request_budget = checking(0.05)
    async with reflecting(server, request_budget=request_budget) as running:
        await running.until_watching()
        server.faults.add(Fault(times=None, **trouble))
        await until(lambda: request_budget.silence.checks >= 2)
        put(server, "b")
        await running.until_equal()
        assert running.reflector.state is ReflectorState.WATCHING
        assert verbs(server).count("list") == 1


async def test_a_quiet_stream_is_checked_and_stays(server: APIServer) -> None:
    request_budget = checking(0.05)
    async with reflecting(server, request_budget=request_budget) as running:
        await running.until_watching()
        await until(lambda: request_budget.silence.checks >= 2)
        assert running.reflector.status().takeovers == 0
        put(server, "b")
        await running.until_equal()


@pytest.mark.covers("kube-runtime src: idle_timeout_returns_item_when_stream_has_data")
async def test_a_stream_without_silence_is_never_checked(server: APIServer) -> None:
    request_budget = checking(0.01)
    endless = options(silence_seconds=math.inf)
    async with (
        reflecting(server, request_budget=request_budget, with_options=endless) as running,
        reflecting(server, request_budget=(other := checking(0.01))) as beside,
    ):
        await running.until_watching()
        await beside.until_watching()
        await until(lambda: other.silence.checks >= 2)
        assert request_budget.silence.checks == 0


class FakeStream:
    """A stream, as far as it is compared with others."""

    def __init__(self, progressed_at: float) -> None:
        self.progressed_at = progressed_at


def test_at_most_one_check_in_30_seconds_and_none_while_another_stream_progresses() -> None:
    silence = SilenceMonitor(30.0)
    quiet, live = cast("IdleTimer", FakeStream(100.0)), cast("IdleTimer", FakeStream(120.0))
    silence.join(quiet)
    leave = silence.join(live)
    assert silence.seconds_until_check(130.0, was_busy=False) == 20.0, "another one was active"
    assert silence.seconds_until_check(130.0, was_busy=True) == 0.0
    silence.begin_check(130.0)
    assert silence.seconds_until_check(131.0, was_busy=True) == 29.0
    assert silence.seconds_until_check(131.0, was_busy=False) == 29.0
    leave()
    assert silence.seconds_until_check(160.0, was_busy=False) == 0.0


class Deaf:
    """A list and watch whose watches are refused; it counts them."""

    resource = CONFIG_MAPS

    def __init__(self) -> None:
        self.refused = 0

    @asynccontextmanager
    async def watch(self, **_: object) -> AsyncIterator[Body]:
        """Refuse."""
        self.refused += 1
        raise TransportError("http://deaf", "refused")
        yield


@pytest.mark.virtual_time
async def test_streams_that_were_busy_are_checked_in_turn() -> None:
    """Five are silent for 45 s between changes; the sixth is stalled, and joined last."""
    silence, began_at = SilenceMonitor(30.0), asyncio.get_running_loop().time()
    streams, looked = [FakeStream(began_at) for _ in range(6)], [Deaf() for _ in range(6)]
    events = [0] * 6

    def progress_of(number: int) -> Callable[[], StreamProgress]:
        return lambda: StreamProgress(events[number], 0, "1", 0)

    async with anyio.create_task_group() as group:
        for number, (one, deaf) in enumerate(zip(streams, looked, strict=True)):
            stream = cast("IdleTimer", one)
            silence.join(stream)
            given = silence, stream, cast("ListWatch", deaf), progress_of(number)
            group.start_soon(SilenceCheck(*given).until_stalled)
        await elapse(0.0)
        events[5] = 1
        for turn in range(80):
            await elapse(9.0)
            events[turn % 5] += 1
            streams[turn % 5].progressed_at = asyncio.get_running_loop().time()
        group.cancel_scope.cancel()
    assert looked[5].refused > 0, "the stalled one"
    assert min(one.refused for one in looked[:5]) > 0


def test_the_result_of_a_check_is_valid_for_one_check_interval() -> None:
    silence = SilenceMonitor(30.0)
    silence.found(SilenceFinding.STALLED, 100.0)
    silence.found(SilenceFinding.NOTHING, 110.0)
    assert silence.latest(130.0) is SilenceFinding.STALLED
    assert silence.latest(131.0) is SilenceFinding.NOTHING
