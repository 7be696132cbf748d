"""A thread logs work that outlives its Lease, and ends the process if it was asked to."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pyinformer.client.cluster import connect
from pyinformer.errors import InvalidArgumentError
from pyinformer.leaderelection import LeaderElectionOptions, LeaderElector, Term
from pyinformer.leaderelection._deadline_thread import EXIT_STATUS, Deadline, DeadlineThread
from pyinformer.testing import APIServer, Fault, World
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def _due(deadline: Deadline, tenths: Iterable[int]) -> list[float]:
    """Poll at some tenths of seconds; return when it was due."""
    return [at / 10 for at in tenths if deadline.is_due(at / 10)]


def test_work_that_runs_on_is_due_once_a_second_before_its_lease_ends() -> None:
    deadline = Deadline()
    deadline.set(14.0)
    assert _due(deadline, range(500)) == [14.0]


def test_work_that_is_renewed_or_has_ended_is_never_due() -> None:
    deadline = Deadline()
    for second in range(0, 100, 2):
        deadline.set(second + 14.0)
        assert _due(deadline, range(second * 10, second * 10 + 20)) == []
    deadline.set(None)
    assert _due(deadline, range(1000, 2000)) == []


@pytest.mark.parametrize("stopped_at", range(0, 140, 7))
@pytest.mark.parametrize("tenths", [9, 41, 200, 10_000])
def test_a_process_that_was_stopped_has_a_second_to_end_its_work(
    stopped_at: int, tenths: int
) -> None:
    """However long it was stopped, and whenever: what happens then does not depend on it."""
    deadline = Deadline()
    deadline.set(14.0)
    continued_at = stopped_at + tenths
    polls = [*range(stopped_at), *range(continued_at, continued_at + 200)]
    (due,) = _due(deadline, polls)
    running = [at for at in polls if 130 <= at < round(due * 10)]
    assert due >= 14.0
    assert len(running) >= 10
    assert due <= max(14.0, continued_at / 10 + 1.0)


def test_the_same_deadline_set_again_does_not_begin_the_second_again() -> None:
    deadline = Deadline()
    due = list[float]()
    for tenth in range(200):
        if not due:
            deadline.set(14.0)
        due += _due(deadline, [tenth])
    assert due == [14.0]


class _Clock:
    """A clock that a test sets, and that counts how often the thread read it."""

    now = 0.0
    reads = 0

    def __call__(self) -> float:
        self.reads += 1
        return self.now


@contextmanager
def _watching(
    *, ends_process: bool, clock: _Clock | None = None
) -> Iterator[tuple[DeadlineThread, _Clock, list[int]]]:
    clock, ended = clock or _Clock(), list[int]()
    thread = DeadlineThread("ops/db", clock, ends_process=ends_process, end=ended.append)
    thread.start()
    try:
        yield thread, clock, ended
    finally:
        thread.stop()


async def _polled(clock: _Clock, polls: int) -> None:
    """Wait until the thread has polled some more times."""
    reads = clock.reads
    await until(lambda: clock.reads > reads + polls)


async def test_work_that_outlives_its_lease_ends_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with _watching(ends_process=True) as (thread, clock, ended):
        thread.set_deadline(14.0)
        clock.now = 14.0
        await until(lambda: ended)
        await until(lambda: caplog.records)
    assert ended == [EXIT_STATUS]
    text = caplog.records[0].getMessage()
    assert "ops/db" in text
    assert "this process ends now" in text
    assert "run_forever" in text  # the stack of the loop's thread
    assert caplog.records[0].levelno == logging.CRITICAL


async def test_an_embedded_run_only_reports_it_once(caplog: pytest.LogCaptureFixture) -> None:
    with _watching(ends_process=False) as (thread, clock, ended):
        thread.set_deadline(14.0)
        clock.now = 14.0
        await until(lambda: caplog.records)
        clock.now = 20.0
        await _polled(clock, 12)
    assert ended == []
    assert thread.reports == 1
    assert "end this process" in caplog.records[0].getMessage()


async def test_work_that_is_renewed_while_the_thread_decides_is_left_alone() -> None:
    class Renewing(_Clock):
        """The Lease is renewed, or the work ends, between two steps of the thread."""

        def __call__(self) -> float:
            thread.set_deadline(None)
            return super().__call__()

    clock = Renewing()
    clock.now = 14.0
    with _watching(ends_process=True, clock=clock) as (thread, _, ended):
        for _ in range(13):
            thread.set_deadline(14.0)
            await _polled(clock, 0)
    assert ended == []
    assert thread.reports == 0


async def test_stopping_joins_the_thread_and_ends_its_polls() -> None:
    with _watching(ends_process=True) as (thread, clock, ended):
        thread.set_deadline(14.0)
        await _polled(clock, 1)
        thread.stop()
        clock.now = 14.0
        assert not thread.is_alive
    assert ended == []


def test_a_thread_that_never_started_is_stopped_without_an_error() -> None:
    thread = DeadlineThread("ops/db", _Clock(), ends_process=True)
    thread.stop()
    assert not thread.is_alive


async def test_an_abandoned_thread_acts_once_and_ends() -> None:
    with _watching(ends_process=False) as (thread, clock, _):
        thread.set_deadline(14.0)
        thread.leave(bool)  # the work has not ended
        clock.now = 14.0
        await until(lambda: not thread.is_alive)
        assert thread.reports == 1


async def test_work_that_ended_during_a_hanging_request_is_not_due(
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = LeaderElectionOptions(
        renew_deadline_seconds=1000.0, lease_duration_seconds=1500.0, retry_period_seconds=1.0
    )
    clock, leads, has_ended = _Clock(), asyncio.Event(), asyncio.Event()

    async def lead(_term: Term) -> None:
        leads.set()
        try:
            await asyncio.Event().wait()
        finally:
            has_ended.set()

    with APIServer() as server:
        async with connect(server=server.url) as cluster:
            elector = LeaderElector(
                cluster,
                "db",
                namespace="default",
                options=options,
                clock=clock,
                wall_clock=lambda: clock.now,
            )
            running = asyncio.create_task(elector.run(lead))
            await leads.wait()
            server.faults.add(
                Fault(verb="update", resource="leases.coordination.k8s.io", hang=True)
            )
            clock.now = 999.0
            await asyncio.to_thread(server.faults.wait_for_held, timeout_seconds=100.0)
            clock.now = 1001.0
            await has_ended.wait()
            clock.now = 1499.5
            await _polled(clock, 20)
            assert "still runs" not in caplog.text
            server.faults.release()
            running.cancel()
            await asyncio.wait([running])


async def test_abandoned_work_is_monitored_until_it_ends() -> None:
    options = LeaderElectionOptions(lease_duration_seconds=600.0, end_timeout_seconds=0.1)
    leads, may_end = asyncio.Event(), asyncio.Event()
    has_ended = asyncio.Event()

    async def lead(_term: Term) -> None:
        leads.set()
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        has_ended.set()

    with APIServer() as server:
        async with connect(server=server.url) as cluster:
            elector = LeaderElector(cluster, "db", namespace="default", options=options)
            running = asyncio.create_task(elector.run(lead))
            await leads.wait()
            running.cancel()
            await asyncio.wait([running])
            assert _lease_threads()
            may_end.set()
            await has_ended.wait()
            await until(lambda: not _lease_threads())


def _lease_threads() -> list[str]:
    names = (thread.name for thread in threading.enumerate())
    return [name for name in names if name == "pyinformer lease default/db"]


@pytest.mark.parametrize("lease_seconds", [3.0, 4.0])
def test_durations_must_leave_time_to_end_the_work_before_the_process(lease_seconds: float) -> None:
    options = LeaderElectionOptions(
        lease_duration_seconds=lease_seconds, renew_deadline_seconds=2.0, retry_period_seconds=1.0
    )
    with World() as world:
        if lease_seconds < 4.0:
            with pytest.raises(InvalidArgumentError, match=r"at least renew.* \+ 2 = 4 if work"):
                LeaderElector(
                    world.cluster, "db", namespace="ops", options=options, ends_process=True
                )
        else:
            LeaderElector(world.cluster, "db", namespace="ops", options=options, ends_process=True)
        LeaderElector(world.cluster, "db", namespace="ops", options=options)


_PROGRAM = """
    import sys, time
    import pyinformer
    from pyinformer.leaderelection import LeaderElectionOptions

    options = LeaderElectionOptions(
        lease_duration_seconds=4.0, renew_deadline_seconds=2.0, retry_period_seconds=1.0
    )
    app = pyinformer.Operator(
        "db-operator", leader_election=pyinformer.LeaderElection(options=options)
    )

    @app.reconcile("v1", "configmaps")
    async def reconcile(request, obj, cluster):
        time.sleep(600)

    app.run(server=sys.argv[1], health_port=None)
"""


def test_a_program_whose_loop_is_blocked_ends_before_another_may_lead() -> None:
    with APIServer() as server:
        server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
        found = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(_PROGRAM), server.url],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert found.returncode == EXIT_STATUS, found.stderr
    assert "blocks the event loop" in found.stderr
    assert "in reconcile" in found.stderr
