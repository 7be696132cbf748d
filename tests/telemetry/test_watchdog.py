"""The watchdog logs what blocks the loop, where, and for how long. On the real clock."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import selectors
import subprocess
import sys
import threading
import weakref
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar, cast

import pytest
import uvloop

from pyinformer._runtime.tasks import UserTasks
from pyinformer.cache.informer import Handler
from pyinformer.cache.informer.delivery import Listener
from pyinformer.objects import Added, Event
from pyinformer.telemetry import Watchdog, WatchdogStatistics
from pyinformer.telemetry.metrics import NO_METRICS, MetricsRegistry
from tests.pods import make
from tests.telemetry.metrics.reading import collected
from tests.waiting import pause, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence


T = TypeVar("T")


class Reports(logging.Handler):
    """Keeps log records; a thread can wait for a number of them."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.condition = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record."""
        with self.condition:
            self.records.append(record)
            self.condition.notify_all()

    def wait_for(self, count: int) -> None:
        """Block until there are so many records."""
        with self.condition:
            assert self.condition.wait_for(lambda: len(self.records) >= count, timeout=100.0)


@pytest.fixture
def reports() -> Iterator[Reports]:
    """Collect the records of pyinformer's loggers."""
    logger, reports = logging.getLogger("pyinformer.telemetry"), Reports()
    logger.addHandler(reports)
    yield reports
    logger.removeHandler(reports)


def impatient() -> Watchdog:
    """Make a watchdog with short intervals."""
    return Watchdog(limit_seconds=0.05, ping_seconds=0.01)


async def block_before(watchdogs: Sequence[Watchdog]) -> list[int]:
    """Block the loop until all have seen a block; return how many each has seen.

    On a busy machine their start is a block as well, which the later ones do not see: it is over
    when this begins, and is not counted.
    """

    async def over() -> list[int]:
        await until(lambda: not any(one.statistics().blocked_seconds for one in watchdogs))
        return [one.statistics().blocked for one in watchdogs]

    before = after = await over()
    block = threading.Event()
    while any(now == was for now, was in zip(after, before, strict=True)):
        block.wait(0.2)
        after = await over()
    return [now - was for now, was in zip(after, before, strict=True)]


class Pings:
    """Counts what other threads ask of the running loop, and what it has answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = self.answered = 0
        loop = asyncio.get_running_loop()
        self._call = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", self._ask)

    def _ask(self, callback: Callable[..., object], *arguments: object) -> asyncio.Handle:
        def answer() -> None:
            callback(*arguments)
            self.answered += 1

        handle = self._call(answer)
        self.asked += 1
        return handle


def threads() -> list[threading.Thread]:
    """Return the threads of watchdogs."""
    return [each for each in threading.enumerate() if each.name == "pyinformer watchdog"]


class Hidden:
    """A selector that shows a loop's steps to no watchdog."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def __getattr__(self, name: str) -> object:
        return getattr(self._selector, name)


def run_without_steps(main: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a coroutine on a loop whose steps cannot be seen."""

    def loop() -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(cast("selectors.BaseSelector", Hidden()))

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main())


async def test_the_blocking_handler_is_named_with_its_place(reports: Reports) -> None:
    watchdog = impatient()
    back = asyncio.Event()
    during: list[WatchdogStatistics] = []

    def blocking_handler(event: Event) -> None:
        watchdog.start_nowait()  # here, since a busy machine may block the loop before
        reports.wait_for(1)  # blocks until the watchdog has noticed
        during.append(watchdog.statistics())
        back.set()

    listener: Listener = Listener(Handler.of(blocking_handler), tasks=UserTasks(), informer="pods")
    listener.start_nowait()
    listener.put_nowait(Added(make("default/a")))
    await back.wait()
    await asyncio.to_thread(reports.wait_for, 2)
    watchdog.stop_nowait()
    await listener.aclose()

    blocked, returned = (record.getMessage() for record in reports.records[:2])
    assert "the event loop has been blocked for 0.1 s by handler " in blocked
    assert "blocking_handler of pods, at " in blocked
    assert "test_watchdog.py:" in blocked
    assert "the event loop continues after " in returned
    assert {record.levelno for record in reports.records} == {logging.WARNING}
    assert during[0].blocked == 1
    assert during[0].last_culprit is not None
    assert "blocking_handler" in during[0].last_culprit
    assert watchdog.statistics().longest_seconds >= 0.05


async def test_a_lasting_block_is_reported_while_it_lasts(reports: Reports) -> None:
    watchdog = impatient()
    watchdog.start_nowait()
    reports.wait_for(1)  # blocks this loop until the watchdog has noticed
    during = watchdog.statistics().blocked_seconds
    await asyncio.to_thread(reports.wait_for, 2)
    watchdog.stop_nowait()
    assert during >= 0.05
    assert watchdog.statistics().blocked_seconds == 0.0


async def test_two_watchdogs_of_one_loop_report_a_block_once(reports: Reports) -> None:
    """A factory and a controller each have a watchdog: both count, one logs."""
    factory, controller = impatient(), impatient()
    for watchdog in (factory, controller):
        watchdog.start_nowait()
    try:
        await until(lambda: not factory.statistics().blocked_seconds)
        reports.records.clear()
        counted = await block_before([factory, controller])
    finally:
        factory.stop_nowait()
        controller.stop_nowait()
    spoken = [record for record in reports.records if "has been blocked" in record.msg]
    assert counted == [len(spoken)] * 2


async def test_a_callback_outside_of_tasks_is_called_that(reports: Reports) -> None:
    watchdog = impatient()

    def block() -> None:
        watchdog.start_nowait()
        reports.wait_for(1)

    asyncio.get_running_loop().call_soon(block)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    watchdog.stop_nowait()

    assert "by a callback outside of any task, at " in reports.records[0].getMessage()


async def test_a_responsive_loop_is_not_reported(
    reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    pings = Pings(monkeypatch)
    watchdog = Watchdog(limit_seconds=100.0)
    watchdog.start_nowait()
    watchdog.start_nowait()
    assert len(threads()) == 1

    for _ in range(100):
        sum(range(50_000))
        await asyncio.sleep(0)
    watchdog.stop_nowait()
    watchdog.stop_nowait()

    assert (reports.records, pings.asked) == ([], 0)
    assert watchdog.statistics().blocked == 0


def test_so_is_one_whose_steps_cannot_be_seen(
    reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        pings = Pings(monkeypatch)
        watchdog = Watchdog(limit_seconds=100.0, ping_seconds=0.01)
        watchdog.start_nowait()
        while not pings.answered:  # an Event would let the loop wait
            sum(range(500_000))
            await asyncio.sleep(0)
        watchdog.stop_nowait()
        assert reports.records == []

    run_without_steps(main)


def wakes(thread: threading.Thread) -> int:
    """Return how often a thread has waited: each wait ended with a wake."""
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text(encoding="ascii")
    return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])


async def wakes_meanwhile(during: Callable[[], Awaitable[object]]) -> int:
    """Return how often the thread of an impatient watchdog was woken."""
    watchdog = Watchdog(limit_seconds=0.3, ping_seconds=0.001)
    watchdog.start_nowait()
    try:
        await pause(0.6)  # for the step in which it was started
        (thread,) = threads()
        before = wakes(thread)
        await during()
        return wakes(thread) - before
    finally:
        watchdog.stop_nowait()


async def test_a_loop_at_rest_never_wakes_the_thread() -> None:
    async def lone_steps() -> None:
        for _ in range(3):
            await pause(0.5)

    assert await wakes_meanwhile(lone_steps) <= 1


def test_a_quiet_loop_whose_steps_cannot_be_seen_is_looked_at_ever_less_often() -> None:
    async def main() -> int:
        return await wakes_meanwhile(partial(pause, 1.0))

    assert run_without_steps(main) <= 60  # 1 ms, 2 ms, 4 ms and so on: not a thousand
    assert uvloop.run(main()) <= 60


def test_a_block_of_uvloop_is_named(reports: Reports) -> None:
    async def main() -> None:
        watchdog = impatient()
        watchdog.start_nowait()
        await pause(0.1)  # it waits, and is seen to wait
        reports.wait_for(1)
        watchdog.stop_nowait()

    uvloop.run(main())
    assert "test_watchdog.py:" in reports.records[0].getMessage()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=str)
async def test_the_selector_is_as_before_in_whatever_order_watchdogs_stop(
    order: tuple[int, ...], reports: Reports
) -> None:
    """Another tool has replaced `select` before; each limit has a timer of its own."""
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    calls = 0

    def select(timeout: float | None = None) -> object:
        nonlocal calls
        calls += 1
        return type(selector).select(selector, timeout)

    selector.select = select
    watchdogs = [Watchdog(limit_seconds=limit) for limit in (0.2, 0.3, 0.4)]
    for watchdog in watchdogs:
        watchdog.start_nowait()
    for number in order:
        watchdogs[number].stop_nowait()
        await pause(0.25)  # those that are left see that the loop waits
    before = calls
    await asyncio.sleep(0)

    assert calls > before
    assert reports.records == []
    assert vars(selector).pop("select") is select
    assert "close" not in vars(selector)


async def test_stopping_within_the_block_that_is_reported_returns_at_once(
    reports: Reports,
) -> None:
    watchdog = Watchdog(limit_seconds=2.0)
    watchdog.start_nowait()
    await asyncio.sleep(0)
    reports.wait_for(1)
    began = monotonic()
    watchdog.stop_nowait()

    assert monotonic() - began < 1.9  # not after a limit more


@pytest.mark.parametrize("stops", [True, False])
def test_nothing_of_a_closed_loop_is_kept(stops: bool) -> None:
    async def main() -> tuple[weakref.ref[asyncio.AbstractEventLoop], list[threading.Thread]]:
        watchdog = Watchdog()
        watchdog.start_nowait()
        found = weakref.ref(asyncio.get_running_loop()), threads()
        if stops:
            watchdog.stop_nowait()
        return found

    loop, started = asyncio.run(main())  # what loads late
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        loop, started = asyncio.run(main())
        for thread in started:
            thread.join(100.0)
    del started
    gc.collect()

    assert loop() is None
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors


def test_a_loop_that_is_closed_behind_a_block_is_blocked_no_longer(reports: Reports) -> None:
    watchdog, loop = impatient(), asyncio.new_event_loop()

    def last() -> None:
        loop.stop()
        reports.wait_for(1)

    loop.call_soon(lambda: asyncio.ensure_future(_started(watchdog), loop=loop))
    loop.call_later(0.05, last)
    loop.run_forever()
    (thread,) = threads()
    loop.close()
    thread.join(100.0)

    assert watchdog.statistics().blocked == 1
    assert watchdog.statistics().blocked_seconds == 0.0


async def _started(watchdog: Watchdog) -> None:
    watchdog.start_nowait()


@pytest.mark.parametrize("limit", [math.inf, 1e30, 3600.0])
async def test_any_limit_is_one(limit: float) -> None:
    watchdog = Watchdog(limit_seconds=limit)
    watchdog.start_nowait()
    await asyncio.sleep(0)
    watchdog.stop_nowait()

    assert watchdog.statistics().blocked == 0


async def test_constructing_starts_no_thread() -> None:
    watchdog = Watchdog()

    assert threads() == []
    watchdog.stop_nowait()


async def test_stopping_joins_the_thread_at_once_between_checks() -> None:
    watchdog = Watchdog(limit_seconds=3600.0, ping_seconds=3600.0)
    watchdog.start_nowait()

    assert len(threads()) == 1

    watchdog.stop_nowait()

    assert threads() == []


def test_stopping_joins_the_thread_at_once_while_it_waits_for_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        pings = Pings(monkeypatch)
        watchdog = Watchdog(limit_seconds=3600.0, ping_seconds=0.0)
        watchdog.start_nowait()
        while not pings.asked:
            pass

        watchdog.stop_nowait()

        assert threads() == []
        assert watchdog.statistics().blocked == 0

    run_without_steps(main)


def test_a_closed_loop_ends_the_thread() -> None:
    watchdog, started = impatient(), list[threading.Thread]()

    async def main() -> None:
        watchdog.start_nowait()
        started.extend(threads())

    asyncio.run(main())
    watchdog = impatient()
    run_without_steps(main)

    assert len(set(started)) == 2  # the first may have been there still when the second began
    for thread in started:
        thread.join(100.0)
        assert not thread.is_alive()


def blocks(registry: MetricsRegistry) -> dict[str, float]:
    """Return the figures of the loop."""
    return collected(registry, "informer_loop")


async def test_blocks_are_counted_once_in_each_metrics_system(reports: Reports) -> None:
    shared, own = MetricsRegistry(), MetricsRegistry()
    watchdogs = [
        Watchdog(limit_seconds=0.05, ping_seconds=0.01, metrics=metrics)
        for metrics in (NO_METRICS, shared, shared, own)
    ]
    for watchdog in watchdogs:
        watchdog.start_nowait()
    names = {"informer_loop_blocks_total", "informer_loop_blocked_seconds_total"}
    try:
        await until(lambda: not any(one.statistics().blocked_seconds for one in watchdogs))
        before = [blocks(registry) for registry in (shared, own)]
        counted = (await block_before(watchdogs))[1]
        found = [
            {name: after[name] - was[name] for name in after}
            for after, was in zip(map(blocks, (shared, own)), before, strict=True)
        ]
    finally:
        for watchdog in watchdogs:
            watchdog.stop_nowait()
    assert [one["informer_loop_blocks_total"] for one in found] == [counted, counted]
    assert all(one["informer_loop_blocked_seconds_total"] >= 0.05 * counted for one in found)
    assert found[0].keys() == names
    assert blocks(shared) == blocks(own) == {}


async def test_the_series_of_the_loop_are_there_from_the_start_to_the_end() -> None:
    registry = MetricsRegistry()
    watchdog = Watchdog(metrics=registry)
    assert blocks(registry) == {}
    watchdog.start_nowait()
    assert blocks(registry) == {
        "informer_loop_blocks_total": 0,
        "informer_loop_blocked_seconds_total": 0,
    }
    watchdog.stop_nowait()
    assert blocks(registry) == {}


_COLLECTING = """
import asyncio, gc, select, threading

from pyinformer.telemetry._watchdog import Watchdog


class Slow:  # its finalizer lets other threads run, as that of a connection may
    def __init__(self):
        self.me = self

    def __del__(self):
        select.select([], [], [], 0)


def call():  # each call has another frame, for which an object is made when it is read
    select.select([], [], [], 0)


def work():
    for _ in range(4_000):
        Slow()
        call()


async def main():
    gc.set_threshold(1)
    threads = [threading.Thread(target=work) for _ in range(4)]
    watchdogs = [Watchdog(ping_seconds=0.0001) for _ in range(4)]
    for one in watchdogs:
        one.start_nowait()
    for one in threads:
        one.start()
    for one in threads:
        await asyncio.to_thread(one.join)
    for one in watchdogs:
        one.stop_nowait()


asyncio.run(main())
print(gc.isenabled())
"""


def test_the_process_survives_collections_while_frames_are_read() -> None:
    """In Python 3.11 it stands still without end otherwise: python/cpython#106883."""
    command = [sys.executable, "-c", _COLLECTING]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert ended.stdout == "True\n"
