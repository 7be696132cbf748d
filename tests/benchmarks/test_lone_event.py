"""Lone events and lone reconciles: what is counted, how rounds are paired, who takes no part.

The smoke of a run follows the embedded server. No figure has a threshold.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness.c_floor import compiled
from benchmarks.harness.following import started
from benchmarks.harness.measure import FLOOR_C
from benchmarks.harness.pace import evenly
from benchmarks.harness.phases import Measurement
from benchmarks.harness.processes import ThreadUse, thread_use
from benchmarks.report.progress import Estimate, Lines
from benchmarks.report.rows import make_rows
from benchmarks.runs.lone_event import LONE_EVENT, RECONCILE, PairedRounds, measured
from benchmarks.runs.run import Bench, Run, Setting, Size
from benchmarks.runs.turns import carry_out, make_plan

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def process(tmp_path: Path) -> Path:
    """Make a folder of /proc with two threads."""
    for name, nanoseconds, sleeps in (("7", 2_000_000_000, 40), ("8", 500_000_000, 2)):
        thread = tmp_path / "task" / name
        thread.mkdir(parents=True)
        (thread / "schedstat").write_text(f"{nanoseconds} 900 77\n")
        switches = f"voluntary_ctxt_switches:\t{sleeps}\nnonvoluntary_ctxt_switches:\t1000\n"
        (thread / "status").write_text(f"Name:\tpeer\nThreads:\t2\n{switches}")
    return tmp_path


def test_cpu_and_sleeps_are_those_of_all_threads(process: Path) -> None:
    assert thread_use(process) == ThreadUse(2.5, 42)


def test_a_thread_that_ended_meanwhile_is_left_out(process: Path) -> None:
    (process / "task" / "8" / "schedstat").unlink()
    assert thread_use(process) == ThreadUse(2.0, 40)


def test_a_process_that_has_ended_has_no_figure(tmp_path: Path) -> None:
    assert thread_use(tmp_path / "gone") is None


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_the_count_of_the_scheduler_is_the_cpu_time_of_the_process() -> None:
    counted, timed = thread_use(Path("/proc/self")), time.process_time()
    while time.process_time() < timed + 0.1:
        pass
    again = thread_use(Path("/proc/self"))
    assert counted is not None
    assert again is not None
    assert again.since(counted).cpu_seconds > 0.05


def test_all_peers_of_a_round_have_figures_of_the_same_moment() -> None:
    plan = make_plan(LONE_EVENT, Size.FULL, rounds=3)
    assert plan is not None
    played: list[int] = []

    def play() -> dict[str, Measurement]:
        played.append(len(played))
        return {peer: Measurement(peer, updates=played[-1]) for peer in plan.peers}

    rounds = PairedRounds(play)
    moments = [(number, rounds.measure(peer).updates) for number, peer in plan.turns()]

    assert moments == [(number, number) for number, _ in plan.turns()]
    assert played == [0, 1, 2]


def test_a_run_is_opened_with_those_who_take_part() -> None:
    asked = []

    def start(setting: Setting) -> AbstractContextManager[Bench]:
        asked.append(setting.peers)
        raise OSError("no server")

    plan = make_plan(replace(LONE_EVENT, open=start), Size.SMOKE, peers=("floor-asyncio",))
    assert plan is not None
    list(carry_out(plan, Setting(Size.SMOKE), Lines([plan], Estimate([plan]))))
    assert asked == [("floor-asyncio",)]


def test_events_are_evenly_apart_and_late_ones_are_not_made_up_for() -> None:
    began = time.perf_counter()
    at = []
    for number in evenly(4, 20.0):
        at.append(time.perf_counter() - began)
        while number == 1 and time.perf_counter() - began < 0.3:
            pass
    assert at[1] >= 0.05
    assert at[2] >= 0.3
    assert at[3] >= 0.35


def test_a_peer_that_slept_through_the_events_has_a_reason_and_no_figure() -> None:
    assert measured("asleep", 300, ThreadUse(0.1, 29)).error is not None
    found = measured("awake", 300, ThreadUse(0.3, 330))
    assert (found.error, found.extra) == (None, {"sleeps": 330})


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        pytest.param(
            """print('MEASUREMENT {"peer": "x", "error": "OSError: no server"}')""",
            "OSError: no server",
            id="says-why",
        ),
        pytest.param("raise SystemExit(3)", "ended with exit status 3", id="silent"),
    ],
)
def test_a_peer_that_ends_before_it_follows_has_a_reason(program: str, reason: str) -> None:
    with started("x", [sys.executable, "-c", program]) as follower:
        assert follower.wait(threading.Event()) == reason


def test_a_peer_that_follows_runs_until_its_block_ends() -> None:
    follows = threading.Event()
    follows.set()
    with started("x", [sys.executable, "-c", "input()"]) as follower:
        assert (follower.wait(follows), follower.failure()) == ("", "")
    with pytest.raises(ProcessLookupError):
        os.kill(follower.pid, 0)


@pytest.mark.parametrize("run", [pytest.param(run, id=run.name) for run in (LONE_EVENT, RECONCILE)])
def test_the_smoke_yields_every_row(run: Run) -> None:
    peers = run.peers[Size.SMOKE]
    with run.open(Setting(Size.SMOKE)) as bench:
        rounds = [_round(bench, peers)]
        rows = make_rows(run.specs(bench.known), peers, rounds)
    assert {row.peer for row in rows if " / " not in row.peer} == set(peers)
    assert [row for row in rows if row.median is None] == []
    assert bench.known["CPU of the server per event, us"]


def test_the_floor_in_c_follows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if isinstance(reason := compiled(), str):
        pytest.skip(reason)
    with LONE_EVENT.open(Setting(Size.SMOKE, peers=(FLOOR_C,))) as bench:
        found = bench.measure(FLOOR_C)
    assert found.error is None
    assert found.extra["sleeps"] > 0


def test_without_a_compiler_the_floor_in_c_is_a_row_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with LONE_EVENT.open(Setting(Size.SMOKE, peers=("floor-asyncio", FLOOR_C))) as bench:
        found = _round(bench, ("floor-asyncio", FLOOR_C))
    assert found["floor-asyncio"].error is None
    assert str(found[FLOOR_C].error).startswith("there is no C compiler")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_missing_header_is_a_reason(tmp_path: Path) -> None:
    source = tmp_path / "some.c"
    source.write_text("#include <no_such_header.h>\n")
    reason = compiled(source=source, cache_folder=tmp_path / "cache")
    assert isinstance(reason, str)
    assert "no_such_header.h" in reason


def _round(bench: Bench, peers: Sequence[str]) -> dict[str, Measurement]:
    return {peer: bench.measure(peer) for peer in peers}
