"""A thread logs work that outlives its Lease, and ends the process if it was asked to."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pyinformer.leaderelection._deadline_thread import EXIT_STATUS, DeadlineThread
from pyinformer.testing import APIServer
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def _watching(*, ends_process: bool) -> Iterator[tuple[DeadlineThread, _Clock, list[int]]]:
    clock, ended = _Clock(), list[int]()
    thread = DeadlineThread("ops/db", clock, ends_process=ends_process, end=ended.append)
    thread.start()
    try:
        yield thread, clock, ended
    finally:
        thread.stop()


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
    assert ended == []
    assert thread.reports == 1
    assert "end this process" in caplog.records[0].getMessage()


async def test_work_that_is_renewed_or_has_ended_is_left_alone() -> None:
    with _watching(ends_process=True) as (thread, clock, ended):
        for second in range(0, 100, 2):
            thread.set_deadline(second + 14.0)
            clock.now = float(second)
        thread.set_deadline(None)
        clock.now = 1000.0
    assert ended == []
    assert thread.reports == 0


def test_stopping_joins_the_thread_and_a_thread_that_never_started_is_fine() -> None:
    DeadlineThread("ops/db", _Clock(), ends_process=True).stop()


_PROGRAM = """
    import sys, time
    import pyinformer
    from pyinformer.leaderelection import LeaderElectionOptions

    options = LeaderElectionOptions(
        lease_duration_seconds=3.0, renew_deadline_seconds=2.0, retry_period_seconds=1.0
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
