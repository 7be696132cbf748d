"""An informer under faults, recorded: each replay has the same cache and the same calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cache.recording.incidents import record_chaos, replayed
from tests.soak import in_soak

if TYPE_CHECKING:
    from pathlib import Path

REPLAYS = in_soak(100, otherwise=10)
SEEDS = range(in_soak(20, otherwise=2))


@pytest.mark.soak
@pytest.mark.parametrize("joins", [False, True], ids=["from-the-start", "while-it-runs"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_recorded_incident_is_the_same_in_each_replay(
    tmp_path: Path, seed: int, *, joins: bool
) -> None:
    path = tmp_path / "incident.jsonl"
    recorded = await record_chaos(path, seed, joins=joins)
    first, times = replayed(path)

    assert first.cache == recorded.cache
    assert first.calls == recorded.calls
    assert len(first.calls) > 10
    for _ in range(REPLAYS - 1):
        assert replayed(path) == (first, times)
