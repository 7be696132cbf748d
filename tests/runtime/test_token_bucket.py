"""Requests leave at the agreed pace: a burst at once, then one after the other, in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer._runtime.tasks import TokenBucket


@pytest.mark.covers("client-go util/flowcontrol: TestMultithreadedThrottling")
def test_a_burst_leaves_at_once_and_the_rest_at_the_rate() -> None:
    bucket = TokenBucket(per_second=2.0, burst=3)

    assert [bucket.reserve(100.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]


@pytest.mark.covers("client-go util/flowcontrol: TestMultithreadedThrottling")
def test_a_pause_fills_the_bucket_up_to_the_burst() -> None:
    bucket = TokenBucket(per_second=1.0, burst=2)
    for _ in range(4):
        bucket.reserve(0.0)

    assert bucket.reserve(1_000.0) == bucket.reserve(1_000.0) == 0.0
    assert bucket.reserve(1_000.0) == 1.0


def test_a_token_that_was_given_back_serves_the_next() -> None:
    bucket = TokenBucket(per_second=1.0, burst=1)
    assert bucket.reserve(0.0) == 0.0
    assert bucket.reserve(0.0) == 1.0
    bucket.give_back()

    assert bucket.reserve(0.0) == 1.0


def test_a_clock_that_goes_back_adds_no_tokens() -> None:
    bucket = TokenBucket(per_second=1.0, burst=1)
    bucket.reserve(10.0)

    assert bucket.reserve(5.0) == 1.0
    assert bucket.reserve(5.5) == 1.5


@pytest.mark.covers("client-go util/flowcontrol: TestMultithreadedThrottling")
@given(
    st.lists(st.floats(0, 2), min_size=1, max_size=50),
    st.floats(0.5, 20),
    st.integers(1, 5),
)
def test_the_rate_and_the_burst_are_never_exceeded(
    pauses: list[float], per_second: float, burst: int
) -> None:
    bucket = TokenBucket(per_second=per_second, burst=burst)
    now, left = 0.0, list[float]()
    for pause in pauses:
        now += pause
        left.append(now + bucket.reserve(now))

    assert left == sorted(left)
    for first in range(len(left)):
        for last in range(first, len(left)):
            allowed = burst + (left[last] - left[first]) * per_second
            assert last - first + 1 <= allowed + 1e-6
