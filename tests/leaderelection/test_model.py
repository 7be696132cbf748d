"""No write leaves a replica that does not hold the Lease, whatever messages and clocks do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import pytest

from tests.leaderelection.model import Bugs, Model
from tests.soak import in_soak
from tests.spoiled import spoiled

_CHUNKS = in_soak(100, otherwise=2)  # 100,000 schedules, or 1,000
_CHUNK = in_soak(1000, otherwise=500)
_TRIES = 1000


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_no_write_leaves_a_replica_that_does_not_hold_the_lease(chunk: int) -> None:
    writes = terms = refused = releases = broken = 0
    for seed in range(chunk * _CHUNK, (chunk + 1) * _CHUNK):
        outcome = Model(seed).run()
        assert not outcome.violations, (seed, asdict(outcome))
        assert outcome.leads_at_end, f"seed {seed}: no replica leads when the faults are over"
        writes += outcome.writes
        terms += outcome.terms
        refused += outcome.refused
        releases += outcome.releases
        broken += outcome.broken
    # The schedules are worth something: terms change, and the guard has work.
    assert terms > 2 * _CHUNK
    assert writes > 20 * _CHUNK
    assert refused > _CHUNK // 10
    assert releases > _CHUNK // 2
    assert broken > _CHUNK // 2


_PLANTED: dict[str, Callable[[], Bugs]] = {
    "validity-from-the-answer": lambda: Bugs(
        election=spoiled(
            Bugs.election,
            "valid_until = self._sent_at + self._options",
            "valid_until = now + self._options",
        )
    ),
    "release-without-version": lambda: Bugs(releases_without_version=True),
    "overlapping-renewals": lambda: Bugs(
        overlaps_requests=True,
        election=spoiled(
            Bugs.election,
            "if self._under_way is not None:\n            raise",
            "if False:\n            raise",
        ),
    ),
    "no-drain-before-release": lambda: Bugs(
        releases_before_drain=True,
        election=spoiled(Bugs.election, 'self._end("the Lease is being released")', "pass"),
    ),
    "expiry-by-the-others-clock": lambda: Bugs(trusts_renew_time=True),
    "guard-only-at-dispatch": lambda: Bugs(guards_only_dispatch=True),
    "term-of-a-lease-that-is-gone": lambda: Bugs(
        election=spoiled(Bugs.election, "or self._is_overtaken(lease)", "or False")
    ),
    "free-at-once-after-a-deletion": lambda: Bugs(
        election=spoiled(
            Bugs.election,
            "if self.lease is not None:\n            self._free_at",
            "if False:\n            self._free_at",
        )
    ),
    "holder-removed-by-hand-is-a-release": lambda: Bugs(
        election=spoiled(Bugs.election, "or lease.was_released", "or True")
    ),
}


# The first schedule that finds a bug, where it is a late one; each is among those of `make test`.
_FOUND_BY = {
    "validity-from-the-answer": 265,
    "release-without-version": 217,
    "overlapping-renewals": 444,
    "term-of-a-lease-that-is-gone": 935,
}


@pytest.mark.parametrize("name", _PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    bugs = _PLANTED[name]()
    begin = _FOUND_BY.get(name, 0)
    assert any(Model(seed, bugs).run().violations for seed in range(begin, begin + _TRIES))


def test_a_schedule_is_the_same_each_time() -> None:
    assert Model(7).run() == Model(7).run()
