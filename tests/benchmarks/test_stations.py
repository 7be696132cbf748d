"""Each station runs, once and tiny, and can be compared with a baseline.

No threshold is checked here: a slow machine fails no test.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from benchmarks.runs.against import ROOT
from benchmarks.stations.__main__ import BASELINE, Baseline, main
from benchmarks.stations.timing import Timing, load, time_stations

_TINY = ("--samples=1", "--seconds=0", "--pods=8")


@pytest.fixture(scope="module")
def timings() -> dict[str, Timing]:
    """Run every station once, on the same few pods."""
    stations, _ = load()
    return time_stations(stations, samples=1, seconds=0.0, pods=8)


@pytest.mark.parametrize("name", [each.name for each in load()[0]])
def test_a_station_runs(timings: dict[str, Timing], name: str) -> None:
    assert (timings[name].error, timings[name].us is not None) == ("", True)


def test_the_saved_baseline_knows_every_station_and_its_machine() -> None:
    baseline = msgspec.json.decode(BASELINE.read_bytes(), type=Baseline)
    assert set(baseline.stations) == {each.name for each in load()[0]}
    assert baseline.machine["cpu"]


def test_a_baseline_is_saved_and_compared_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "baseline.json"
    assert main(["view", "reference-loop", *_TINY, "--save", str(path)]) == 0
    assert main(["view", *_TINY, "--compare", str(path)]) == 0
    assert "ratio" in capsys.readouterr().out


def test_an_unknown_station_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["teleport"])
    assert "no station teleport" in capsys.readouterr().err


def test_a_station_missing_in_an_earlier_package_is_reported_in_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "pyinformer" / "__init__.py"
    package.parent.mkdir()
    package.write_text("")
    for programs in ("peers", "stations"):
        shutil.copytree(ROOT / "benchmarks" / programs, tmp_path / "benchmarks" / programs)
    assert main(["view", *_TINY, "--rounds=1", "--against", str(tmp_path)]) == 0
    assert "then: ImportError" in capsys.readouterr().out
