"""Backoff: bounds, growth, and when it starts over."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import ExponentialBackoff


class _Highest(random.Random):
    """Chance that always draws the ceiling."""

    def random(self) -> float:
        return 1.0


def _ceilings(backoff: ExponentialBackoff, count: int, *, attempt_seconds: float) -> list[float]:
    """Fail `count` times in one outage and return the delays."""
    now, delays = 0.0, []
    for _ in range(count):
        delays.append(backoff.next(now))
        now += delays[-1] + attempt_seconds
    return delays


@pytest.mark.covers(
    "client-go tools/cache: TestNewReflectorWithCustomBackoff",
    "client-go util/flowcontrol: TestSlowBackoff",
    "apimachinery pkg/util/wait: TestExponentialBackoff",
    "kube-runtime src: exponential_backoff_without_jitter",
)
def test_ceilings_double_up_to_the_limit() -> None:
    backoff = ExponentialBackoff(rng=_Highest())
    expected = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    assert _ceilings(backoff, 8, attempt_seconds=0.0) == pytest.approx(expected)


@pytest.mark.covers("client-go tools/cache: TestRetryWithDeadline")
def test_an_outage_of_a_day_does_not_reset_the_backoff() -> None:
    """client-go from 1.36 on starts over every two minutes of an outage."""
    delays = _ceilings(ExponentialBackoff(rng=_Highest()), 3000, attempt_seconds=60.0)
    assert delays[6:] == [30.0] * 2994


@pytest.mark.covers(
    "kube-runtime src: should_reset_when_timer_expires",
    "client-go tools/cache: TestRetryWithDeadline",
    "client-go util/flowcontrol: TestSlowBackoff",
    "apimachinery pkg/util/wait: TestExponentialBackoff",
)
def test_healthy_time_resets_the_backoff() -> None:
    backoff = ExponentialBackoff(rng=_Highest())
    delays = _ceilings(backoff, 5, attempt_seconds=0.0)
    ended = sum(delays)
    assert backoff.next(ended + 120.1) == pytest.approx(0.8)


@pytest.mark.covers("client-go util/flowcontrol: TestSlowBackoff")
def test_healthy_time_is_counted_from_the_end_of_the_delay() -> None:
    backoff = ExponentialBackoff(rng=_Highest(), initial_seconds=30.0, reset_after_seconds=100.0)
    backoff.next(0.0)
    assert backoff.next(129.0) == 30.0
    growing = ExponentialBackoff(
        rng=_Highest(), initial_seconds=10.0, max_seconds=90.0, reset_after_seconds=100.0
    )
    growing.next(0.0)
    assert growing.next(109.0) == 20.0


@pytest.mark.covers(
    "client-go util/flowcontrol: TestSlowBackoff",
    "apimachinery pkg/util/wait: TestExponentialBackoff",
)
def test_reset_returns_to_the_first_delay() -> None:
    backoff = ExponentialBackoff(rng=_Highest())
    _ceilings(backoff, 5, attempt_seconds=0.0)
    backoff.reset()
    assert backoff.next(1000.0) == pytest.approx(0.8)


def test_a_first_delay_is_the_shortest_and_counts_no_failure() -> None:
    backoff = ExponentialBackoff(rng=_Highest())
    assert [backoff.first() for _ in range(3)] == pytest.approx([0.8] * 3)
    assert _ceilings(backoff, 2, attempt_seconds=0.0) == pytest.approx([0.8, 1.6])
    assert backoff.first() == pytest.approx(0.8)
    assert backoff.next(0.0) == pytest.approx(3.2)


def test_the_first_call_may_come_at_any_time() -> None:
    for now in (0.0, 1e9):
        assert ExponentialBackoff(rng=_Highest()).next(now) == pytest.approx(0.8)


def test_equal_random_numbers_give_equal_delays() -> None:
    one, other = (ExponentialBackoff(rng=random.Random(7)) for _ in range(2))
    assert [one.next(0.0) for _ in range(9)] == [other.next(0.0) for _ in range(9)]


@pytest.mark.covers("kube-runtime src: exponential_backoff_without_jitter")
def test_clients_without_a_seed_have_different_delays() -> None:
    assert len({ExponentialBackoff().next(0.0) for _ in range(20)}) > 1


@pytest.mark.covers(
    "client-go util/flowcontrol: TestBackoffWithJitter",
    "client-go tools/cache: TestNewReflectorWithCustomBackoff",
    "apimachinery pkg/util/wait: TestExponentialBackoff",
    "kube-runtime src: exponential_backoff_without_jitter",
)
@settings(deadline=None)
@given(
    initial=st.floats(1e-3, 1e3),
    factor=st.floats(1.0, 10.0),
    times=st.floats(1.0, 1e4),
    seed=st.integers(),
    healthy=st.lists(st.floats(0.0, 240.0), min_size=1, max_size=50),
)
def test_every_delay_is_within_its_bounds(
    initial: float, factor: float, times: float, seed: int, healthy: list[float]
) -> None:
    limit = initial * times
    backoff = ExponentialBackoff(
        initial_seconds=initial, factor=factor, max_seconds=limit, rng=random.Random(seed)
    )
    now, ceiling = 0.0, initial
    for number, seconds in enumerate(healthy):
        if number and seconds > 120.001:
            ceiling = initial
        elif seconds > 119.999:
            continue  # rounding decides
        now += seconds
        delay = backoff.next(now)
        assert initial / 4 <= delay <= ceiling * (1 + 1e-9)
        now += delay
        ceiling = min(ceiling * factor, limit)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("argument", ["initial_seconds", "max_seconds", "factor"])
def test_invalid_numbers_are_refused(argument: str, value: float) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^{argument}: {value!r} is not ") as caught:
        ExponentialBackoff(**{argument: value})  # type: ignore[arg-type]  # rng is not among them
    assert caught.value.argument == argument


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_an_invalid_reset_time_is_refused(value: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^reset_after_seconds: .* is not positive"):
        ExponentialBackoff(reset_after_seconds=value)


def test_a_limit_below_the_first_delay_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="at least initial_seconds, 40"):
        ExponentialBackoff(initial_seconds=40.0)


@pytest.mark.covers("apimachinery pkg/util/wait: TestExponentialBackoff")
def test_the_backoff_can_be_configured_never_to_reset() -> None:
    backoff = ExponentialBackoff(rng=_Highest(), reset_after_seconds=math.inf)
    backoff.next(0.0)
    assert backoff.next(1e12) == pytest.approx(1.6)
