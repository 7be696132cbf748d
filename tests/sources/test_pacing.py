"""Pacing by itself: each key once per round, none early, none late, and beats that hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.sources._schedule import PacedRounds, next_beat_at


def _drive(rounds: PacedRounds[str], until: float) -> list[tuple[float, str]]:
    """Take keys as a source does: wake at `wake_at`, take what is due."""
    taken: list[tuple[float, str]] = []
    now = 0.0
    for _ in range(100_000):
        now = max(now, rounds.wake_at())
        if now >= until:
            return taken
        while (key := rounds.take(now)) is not None:
            taken.append((now, key))
    raise AssertionError("it never comes to an end: a wake-up was too early")


@given(
    st.integers(min_value=0, max_value=300),
    st.floats(min_value=0.01, max_value=1e6),
    st.floats(min_value=0, max_value=1e4),
)
def test_each_key_is_taken_once_per_round_within_it(
    count: int, period_seconds: float, first_at: float
) -> None:
    keys = [str(number) for number in range(count)]
    rounds = PacedRounds(period_seconds, first_at=first_at, keys=lambda: list(keys))

    taken = _drive(rounds, first_at + 1.96 * period_seconds)

    assert [key for _, key in taken] == keys + keys
    for number, (at, _) in enumerate(taken):
        round_at = first_at + (number >= count) * period_seconds
        assert round_at <= at <= round_at + 0.96 * period_seconds


def test_keys_are_spread_evenly() -> None:
    rounds = PacedRounds(100.0, first_at=0.0, keys=lambda: [str(n) for n in range(1000)])

    taken = _drive(rounds, 100.0)

    per_second = [sum(second <= at < second + 1 for at, _ in taken) for second in range(90)]
    assert all(10 <= count <= 12 for count in per_second), per_second


def test_no_task_wakes_up_for_each_key_of_many() -> None:
    rounds = PacedRounds(1.0, first_at=0.0, keys=lambda: [str(n) for n in range(100_000)])

    wake_ups = len({at for at, _ in _drive(rounds, 1.0)})

    assert wake_ups <= 21


def test_a_round_takes_what_there_is_when_it_begins() -> None:
    keys = ["a"]
    rounds = PacedRounds(10.0, first_at=0.0, keys=lambda: list(keys))
    assert rounds.take(0.0) == "a"
    keys.append("b")

    assert rounds.take(9.0) is None
    assert rounds.take(10.0) == "a"


def test_a_round_of_nothing_waits_for_the_next() -> None:
    rounds: PacedRounds[str] = PacedRounds(10.0, first_at=0.0, keys=list)

    assert rounds.take(0.0) is None
    assert rounds.wake_at() == 10.0


def test_after_a_long_pause_missed_rounds_are_not_made_up_for() -> None:
    rounds = PacedRounds(10.0, first_at=0.0, keys=lambda: ["a"])
    assert rounds.take(0.0) == "a"

    assert rounds.take(1000.0) == "a"
    assert rounds.take(1000.0) is None
    assert rounds.wake_at() == 1010.0


@pytest.mark.parametrize(
    ("now", "expected"),
    [(0.0, 10.0), (9.99, 10.0), (9.9995, 20.0), (10.0, 20.0), (10.001, 20.0), (57.0, 60.0)],
)
def test_ticks_keep_their_period_and_missed_ticks_are_skipped(now: float, expected: float) -> None:
    assert next_beat_at(now, began_at=0.0, period_seconds=10.0) == expected


@given(
    st.floats(min_value=0, max_value=1e6),
    st.floats(min_value=0, max_value=1e6),
    st.floats(min_value=0.001, max_value=1e5),
)
def test_the_next_tick_is_always_later(
    began_at: float, passed: float, period_seconds: float
) -> None:
    now = began_at + passed

    beat_at = next_beat_at(now, began_at=began_at, period_seconds=period_seconds)

    assert now < beat_at <= now + period_seconds * 1.11
