"""The soak's own parts: its slopes and its table, and a short run on the real kube-apiserver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.soak.__main__ import per_hour, table

_ROOT = Path(__file__).parents[2]
_STARTS_SECONDS = 90.0  # whatever a program needs at its start is not a leak


def samples(*, grows: float, at_first: float = 0.0) -> list[dict[str, Any]]:
    """Return an hour of figures that grow by MiB an hour, after a start with more."""
    return [
        {
            "at_seconds": 100.0 + at,
            "rss_bytes": 2**20 * (50 + grows * at / 3600 - at_first * (at < _STARTS_SECONDS)),
            "tasks": 12,
            "descriptors": 8 + at % 20 // 10,
        }
        for at in range(0, 3610, 10)
    ]


def test_a_slope_is_what_another_hour_adds() -> None:
    assert per_hour(samples(grows=36.0), "rss_bytes") / 2**20 == pytest.approx(36.0)
    assert per_hour(samples(grows=36.0), "tasks") == pytest.approx(0.0)
    assert per_hour(samples(grows=0.0), "descriptors") == pytest.approx(0.0, abs=0.1)


def test_the_table_has_ten_steps_and_slopes_without_the_start() -> None:
    heads, _, *rows, slopes = table(samples(grows=6.0, at_first=20.0), 100.0).splitlines()

    assert heads == "| minute | RSS, MiB | tasks | descriptors |"
    assert rows[0] == "| 0 | 30 | 12 | 8 |"
    assert rows[-1] == "| 60 | 56 | 12 | 8 |"
    assert len(rows) == 11
    assert slopes == "| an hour | +6.0 | +0.0 | +0.0 |"


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.usefixtures("kube_apiserver_build")  # skips the test where nothing may be built
def test_a_short_soak_ends_with_the_cache_of_the_server(tmp_path: Path) -> None:
    size = ("--hours", "0.01", "--objects", "300", "--rate", "50", "--fault-seconds", "10")
    path = tmp_path / "samples.jsonl"
    command = (sys.executable, "-m", "benchmarks.soak", *size, "--json", str(path))
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "at the end the cache has what the server has" in done.stdout
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert {one["state"] for one in found} >= {"watching"}
    assert found[-1]["updated"]
