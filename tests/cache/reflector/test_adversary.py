"""The guard and the machine against an adversary: no handler ever sees the past.

The invariants of the guard hold after each action, whatever arrives: the position stays within an
epoch, each key's history is a valid life, only a restored server shows an older state or begins an
epoch, and an honest server is agreed with within a bounded number of requests.

`make test` runs a hundred thousand events, `make soak` a million, and
`PYINFORMER_ADVERSARY_EVENTS=20000000 pytest tests/cache/reflector/test_adversary.py` as many as it
says; `PYINFORMER_ADVERSARY_SEED` begins at another seed.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cache.reflector.adversary import ACTIONS, World
from tests.soak import examples, in_soak

_EVENTS = int(os.environ.get("PYINFORMER_ADVERSARY_EVENTS", in_soak("1000000", otherwise="100000")))
_SEED = int(os.environ.get("PYINFORMER_ADVERSARY_SEED", "1"))
_LENGTH = 400
_WEIGHTS = {"write": 30, "delete": 6, "recreate": 4, "deliver": 30, "deliver_old_deletes": 8}
_WEIGHTS |= {
    "duplicate": 6,
    "haunt": 8,
    "expired": 3,
    "lag": 5,
    "replay": 2,
    "replay_lately": 6,
    "bookmark": 6,
    "cut": 4,
}
_HONEST = [action for action in ACTIONS if action != "restore"]


def script(seed: int, actions: list[str]) -> list[tuple[str, int]]:
    """Return a script of these actions."""
    rng = random.Random(seed)
    weights = [_WEIGHTS.get(action, 1) for action in actions]
    chosen = rng.choices(actions, weights, k=_LENGTH)
    return [(action, rng.getrandbits(16)) for action in chosen]


@pytest.mark.soak
@pytest.mark.timeout(0 if _EVENTS > 2_000_000 else 300)
def test_events_of_an_adversary_break_no_invariant() -> None:
    seed, lines = _SEED, 0
    while lines < _EVENTS:
        world = World()
        try:
            world.run(script(seed, list(ACTIONS) if seed % 2 else _HONEST))
        except AssertionError as error:
            error.add_note(f"PYINFORMER_ADVERSARY_SEED={seed}")
            raise
        lines += world.lines
        seed += 1


@settings(max_examples=examples(75))
@given(st.lists(st.tuples(st.sampled_from(sorted(ACTIONS)), st.integers(0, 2**16)), max_size=60))
def test_no_short_script_breaks_an_invariant(actions: list[tuple[str, int]]) -> None:
    """The same in small: what fails here is shrunk to its cause."""
    World().run(actions)


def test_the_adversary_makes_the_guard_use_its_whole_table() -> None:
    """An adversary that nothing has to be done about would prove nothing."""
    counted: Counter[str] = Counter()
    for seed in range(1, 100):
        world = World()
        world.run(script(seed, list(ACTIONS)))
        counted.update(world.guard.statistics().counts)
        counted["tombstones"] += world.guard.statistics().tombstones
        counted["healed without proof"] += world.may_differ
    assert set(counted) == {
        "delete_old_rv",
        "duplicate_events",
        "equal_rv",
        "healed without proof",
        "lineage_resets",
        "rv_regressions:ignored",
        "rv_regressions:probe",
        "rv_regressions:reset",
        "rv_regressions:verified",
        "tombstones",
        "uid_replacements",
    }
    assert min(counted.values()) > 0
