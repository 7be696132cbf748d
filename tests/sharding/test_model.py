"""No bucket has two members at work, whatever messages and clocks do, and none is forgotten."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from tests.sharding.model import BUCKETS, Bugs, Model
from tests.soak import in_soak
from tests.spoiled import spoiled

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNKS = in_soak(20, otherwise=2)  # 10,000 schedules, or 60
_CHUNK = in_soak(500, otherwise=30)
_TRIES = 20


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_no_bucket_has_two_members_at_work_and_all_are_shared_in_the_end(chunk: int) -> None:
    writes = claims = refused = revoked = late = 0
    for seed in range(chunk * _CHUNK, (chunk + 1) * _CHUNK):
        outcome = Model(seed).run()
        assert not outcome.violations, (seed, asdict(outcome))
        assert sum(outcome.shares) == BUCKETS, (seed, outcome.shares)
        assert max(outcome.shares) - min(outcome.shares) <= 1, (seed, outcome.shares)
        writes += outcome.writes
        claims += outcome.claims
        refused += outcome.refused
        revoked += outcome.revoked
        late += outcome.late
    # The schedules are worth something: buckets move, members die, and requests are late.
    assert writes > 100 * _CHUNK
    assert claims > 10 * _CHUNK
    assert refused > _CHUNK
    assert revoked > _CHUNK // 3
    assert late > _CHUNK // 3


_PLANTED: dict[str, Callable[[], Bugs]] = {
    "claims-from-a-silent-member-without-revoking-it": lambda: Bugs(
        members=spoiled(
            Bugs.members,
            "if lease.transitions > owner.transitions:",
            "if lease.transitions > owner.transitions or now >= self._seen_at[owner.lease] + 3.0:",
        )
    ),
    "gives-up-without-draining": lambda: Bugs(skips_drain=True),
    "takes-a-removed-label-for-a-deletion": lambda: Bugs(
        members=spoiled(
            Bugs.members,
            "        if not is_contradicted:",
            "        if lease is None:\n            return True\n        if not is_contradicted:",
        )
    ),
    "claims-at-once-by-a-new-table": lambda: Bugs(
        shares=spoiled(Bugs.shares, "awaited=frozenset(others)", "awaited=frozenset()")
    ),
}


@pytest.mark.parametrize("bug", _PLANTED)
def test_planted_bugs_are_found(bug: str) -> None:
    bugs = _PLANTED[bug]()
    assert any(Model(seed, bugs).run().violations for seed in range(_TRIES))
