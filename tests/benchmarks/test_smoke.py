"""The smoke: which runs it has, and what it prints and records.

All of it runs in `make bench BENCH_ARGS=--smoke`, which fails if a row has no figure.
No figure has a threshold; a slow machine fails no test.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from benchmarks.data.pods import PodGenerator
from benchmarks.harness.phases import Measurement
from benchmarks.report.record import Record
from benchmarks.report.rows import Row, make_rows
from benchmarks.runs import RUNS
from benchmarks.runs.against import update_specs
from benchmarks.runs.run import Size

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Record, str]:
    """Run a part of the smoke once: its record and what it printed."""
    path = tmp_path_factory.mktemp("benchmarks") / "record.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--smoke", "relist", "--json", str(path)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return msgspec.json.decode(path.read_bytes(), type=Record), done.stdout


def test_every_run_is_part_of_the_smoke() -> None:
    assert [run.name for run in RUNS if not run.peers.get(Size.SMOKE)] == []


def test_the_smoke_measures_every_peer(smoke: tuple[Record, str]) -> None:
    record, _ = smoke
    assert {section.name: list(section.rounds[0]) for section in record.sections} == {
        run.name: list(run.peers[Size.SMOKE]) for run in RUNS if run.name == "relist"
    }


def test_every_row_is_printed(smoke: tuple[Record, str]) -> None:
    record, printed = smoke
    missing = [
        row.measures
        for section in record.sections
        for row in section.rows
        if row.measures not in printed
    ]
    assert missing == []


def test_the_record_names_date_machine_and_versions(smoke: tuple[Record, str]) -> None:
    record, _ = smoke
    assert record.date
    assert record.machine["cpu"]
    assert {"python", "pyinformer", "aiohttp", "kubernetes_asyncio"} <= set(record.versions)


def test_a_failing_peer_is_reported_in_its_row() -> None:
    rounds = [
        {"bare": Measurement("bare", updates=1, update_cpu_seconds=1.0, update_wall_seconds=1.0)},
        {"bare": Measurement("bare", error="exit status 1: OSError")},
    ]
    row = make_rows(update_specs(), ["bare"], rounds)[0]
    assert (row.median, row.note) == (None, "bare failed: exit status 1: OSError")


def test_a_ratio_is_formed_within_its_round() -> None:
    rounds = [
        {
            "bare": _updated("bare", seconds=bare),
            "other": _updated("other", seconds=other),
        }
        for bare, other in ((1.0, 5.0), (10.0, 20.0), (2.0, 6.0))
    ]
    spec = replace(update_specs()[0], ratios=(("other", "bare"),))
    rows = make_rows([spec], ["bare", "other"], rounds)
    ratio = _named(rows, "other / bare")
    assert (ratio.median, ratio.min, ratio.max) == (3.0, 2.0, 5.0)


def test_pods_are_the_same_in_every_generator_of_a_seed() -> None:
    first, second = PodGenerator(100, seed=7), PodGenerator(100, seed=7)
    first.pod(3, resource_version=1)  # what was asked for before changes nothing
    assert first.pod(42, resource_version=9) == second.pod(42, resource_version=9)
    other_seed = PodGenerator(100, seed=8)
    assert first.pod(42, resource_version=9) != other_seed.pod(42, resource_version=9)


def test_a_pod_keeps_its_identity_through_its_revisions() -> None:
    generator = PodGenerator(100)
    before, after = (
        json.loads(generator.pod(5, resource_version=revision + 1, revision=revision))
        for revision in (0, 5)
    )
    assert before["metadata"]["uid"] == after["metadata"]["uid"]
    assert before["spec"] == after["spec"]
    assert before["status"] != after["status"]


def test_pods_have_realistic_sizes() -> None:
    sizes = PodGenerator(5_000).sizes(5_000)
    assert 6_000 < sizes.mean_bytes < 7_000
    assert 0.30 < sizes.managed_fields_share < 0.37
    assert sizes.workloads >= 500


def test_pods_are_written_in_the_field_order_of_go() -> None:
    pod = json.loads(PodGenerator(10).pod(0, resource_version=1))
    assert list(pod) == ["kind", "apiVersion", "metadata", "spec", "status"]
    assert list(pod["metadata"]) == [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "labels",
        "annotations",
        "ownerReferences",
        "managedFields",
    ]


def _updated(peer: str, *, seconds: float) -> Measurement:
    return Measurement(
        peer, updates=1, updates_seen=1, update_cpu_seconds=seconds, update_wall_seconds=seconds
    )


def _named(rows: list[Row], peer: str) -> Row:
    return next(row for row in rows if row.peer == peer)
