"""What the runs measure, at the smallest size, without Go and without the network.

No threshold is checked here. `make bench BENCH_ARGS=--smoke`, a part of .ci/run, measures every run
and fails if a row has no figure.
"""

from __future__ import annotations

import gc
import re
from pathlib import Path

import pytest

from benchmarks.harness.limits import MemoryLimit, memory_limit
from benchmarks.harness.measure import CLIENT_GO_PEERS, CONTROLLER_RUNTIME_PEERS, PEERS
from benchmarks.harness.phases import Measurement, Pauses
from benchmarks.report.rows import Least, Row, Spec, make_rows
from benchmarks.runs import RUNS
from benchmarks.runs.figures import OWN_MODES, UVLOOP
from benchmarks.runs.run import Run, Setting, Size
from benchmarks.runs.sync import SYNC
from benchmarks.runs.updates import TLS

_SMOKE = Setting(Size.SMOKE)
pytestmark = pytest.mark.timeout(120)


def test_our_own_peer_yields_every_row_of_its_run() -> None:
    peer = next(name for name in TLS.peers[Size.SMOKE] if name.startswith("pyinformer"))
    with TLS.open(_SMOKE) as bench:
        rows = make_rows(TLS.specs(bench.known), [peer], [{peer: bench.measure(peer)}])
    assert rows
    assert [row for row in rows if row.median is None] == []


def test_all_memory_modes_sync_and_the_default_does_on_uvloop() -> None:
    modes = [peer for peer in SYNC.peers[Size.SMOKE] if peer.startswith("pyinformer")]
    assert modes == [*OWN_MODES, UVLOOP]
    with SYNC.open(_SMOKE) as bench:
        objects = [bench.measure(mode).objects for mode in modes]
        assert objects == [bench.known["objects"]] * 4


@pytest.mark.parametrize("run", [pytest.param(run, id=run.name) for run in RUNS])
def test_the_smoke_of_a_run_needs_neither_go_nor_other_environments(run: Run) -> None:
    environments = (name for name, peer in PEERS.items() if peer.environment)
    foreign = {*CLIENT_GO_PEERS, *CONTROLLER_RUNTIME_PEERS, *environments}
    assert not foreign & {re.split("[ ,]", peer)[0] for peer in run.peers[Size.SMOKE]}


@pytest.mark.parametrize("run", [pytest.param(run, id=run.name) for run in RUNS])
@pytest.mark.parametrize("size", Size)
def test_a_run_compares_only_peers_that_take_part(run: Run, size: Size) -> None:
    everybody = {peer for peers in run.peers.values() for peer in peers}
    assert set(run.fewer_rounds) <= everybody
    assert size not in run.peers or run.rounds[size] > 0


def test_the_best_of_several_is_compared_with_in_each_round() -> None:
    best = Least("rivals", ("slow", "fast"))
    spec = Spec("wall", "s", lambda found: found.sync_wall_seconds, {}, (("own", best),))
    rounds = [
        {name: Measurement(name, sync_wall_seconds=wall) for name, wall in walls.items()}
        for walls in (
            {"own": 1.0, "slow": 8.0, "fast": 4.0},
            {"own": 1.0, "slow": 2.0, "fast": 9.0},
        )
    ]
    row = _ratio(make_rows([spec], ["own", "slow", "fast"], rounds))
    assert (row.peer, row.min, row.max) == ("own / rivals", 0.25, 0.5)


def test_of_several_one_that_failed_is_not_compared_with() -> None:
    best = Least("rivals", ("dead", "alive"))
    spec = Spec("wall", "s", lambda found: found.sync_wall_seconds, {}, (("own", best),))
    found = {
        "own": Measurement("own", sync_wall_seconds=1.0),
        "dead": Measurement("dead", error="killed", sync_wall_seconds=0.1),
        "alive": Measurement("alive", sync_wall_seconds=4.0),
    }
    assert _ratio(make_rows([spec], list(found), [found])).median == 0.25
    found["alive"].error = "killed"
    assert _ratio(make_rows([spec], list(found), [found])).note == "dead failed: killed"


def test_a_limit_that_cannot_be_set_has_a_reason(tmp_path: Path) -> None:
    with memory_limit(1 << 28, cgroups=tmp_path) as limit:
        assert (limit.prefix, limit.peak_bytes()) == ([], None)
        assert "no cgroup can be made" in limit.why
    assert list(tmp_path.iterdir()) == []


def test_without_a_limit_the_command_is_not_wrapped() -> None:
    assert MemoryLimit(None, "why").prefix == []


def test_pauses_of_the_collector_are_found_while_they_are_watched() -> None:
    pauses = Pauses()
    gc.collect()
    assert pauses.longest == 0.0
    pauses.start()
    gc.collect()
    pauses.stop()
    longest = pauses.longest
    gc.collect()
    assert pauses.longest == longest > 0.0


def _ratio(rows: list[Row]) -> Row:
    return next(row for row in rows if " / " in row.peer)
