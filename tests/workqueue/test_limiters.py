"""Rate limiters beyond what client-go tests: the bucket's arithmetic, bounds, bad arguments."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyinformer.errors import InvalidArgumentError
from pyinformer.workqueue import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    Queue,
    RateLimiter,
    WithMaxWaitRateLimiter,
    default_controller_rate_limiter,
    default_item_based_rate_limiter,
)


def test_a_bucket_lets_a_burst_through_and_then_its_rate() -> None:
    bucket = BucketRateLimiter(10.0, 3)
    delays = [bucket.when("any", 100.0) for _ in range(5)]
    assert delays == pytest.approx([0.0, 0.0, 0.0, 0.1, 0.2])
    assert bucket.when("any", 100.3) == pytest.approx(0.0)
    assert bucket.when("any", 100.3) == pytest.approx(0.1)


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    bucket = BucketRateLimiter(10.0, 2)
    bucket.when("any", 0.0)
    delays = [bucket.when("any", 1_000.0) for _ in range(3)]
    assert delays == pytest.approx([0.0, 0.0, 0.1])


def test_a_clock_that_jumps_back_takes_no_tokens() -> None:
    bucket = BucketRateLimiter(1.0, 1)
    assert bucket.when("any", 1_000.0) == 0.0
    assert bucket.when("any", 5.0) == 1.0
    assert bucket.when("any", 7.0) == 0.0


def test_a_bucket_keeps_no_state_per_key() -> None:
    bucket = BucketRateLimiter(1.0, 1)
    bucket.when("one", 0.0)
    bucket.forget("one")
    assert bucket.num_requeues("one") == 0
    assert bucket.when("one", 0.0) == 1.0


@pytest.mark.covers(
    "client-go util/flowcontrol: TestBackoffGC", "client-go util/flowcontrol: TestSlowBackoff"
)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            lambda: ItemExponentialFailureRateLimiter(1.0, 10.0, max_items=3), id="exponential"
        ),
        pytest.param(lambda: ItemFastSlowRateLimiter(1.0, 10.0, 2, max_items=3), id="fast-slow"),
    ],
)
def test_failures_are_remembered_for_so_many_keys_and_the_stalest_go_first(
    make: Callable[[], RateLimiter],
) -> None:
    limiter = make()
    for item in ("a", "b", "c", "a", "d"):
        limiter.when(item, 0.0)
    assert [limiter.num_requeues(item) for item in "abcd"] == [2, 0, 1, 1]


def test_the_default_of_controllers_has_the_constants_of_upstream() -> None:
    limiter = default_controller_rate_limiter()
    assert [limiter.when("a", 0.0) for _ in range(3)] == [0.005, 0.01, 0.02]
    for _ in range(97):
        limiter.forget("b")
        limiter.when("b", 0.0)
    limiter.forget("b")
    assert limiter.when("b", 0.0) == pytest.approx(0.1)  # the burst of 100 is spent
    assert max(limiter.when("a", 0.0) for _ in range(40)) == 1_000.0


def test_the_default_by_item_has_the_constants_of_upstream() -> None:
    limiter = default_item_based_rate_limiter()
    assert limiter.when("a", 0.0) == 0.001
    assert max(limiter.when("a", 0.0) for _ in range(40)) == 1_000.0


def test_a_queue_says_for_how_many_keys_failures_are_remembered() -> None:
    limiter = WithMaxWaitRateLimiter(
        MaxOfRateLimiter(ItemFastSlowRateLimiter(0.1, 1.0, 1), BucketRateLimiter(1.0, 1)), 5.0
    )
    queue = Queue[str](rate_limiter=limiter)
    for item in ("a", "b", "a"):
        queue.add_rate_limited_nowait(item)
    assert queue.statistics().failures == 2
    queue.forget("a")
    assert queue.statistics().failures == 1
    assert queue.num_requeues("a") == 0
    assert queue.statistics().delayed == 2


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        pytest.param(lambda: BucketRateLimiter(0.0, 1), "items_per_second", id="no-rate"),
        pytest.param(lambda: BucketRateLimiter(float("nan"), 1), "items_per_second", id="nan"),
        pytest.param(lambda: BucketRateLimiter(1.0, 0), "burst", id="no-burst"),
        pytest.param(
            lambda: ItemExponentialFailureRateLimiter(-1.0, 1.0), "base_seconds", id="base"
        ),
        pytest.param(
            lambda: ItemExponentialFailureRateLimiter(1.0, float("inf")), "max_seconds", id="max"
        ),
        pytest.param(
            lambda: ItemExponentialFailureRateLimiter(1.0, 1.0, max_items=0), "max_items", id="none"
        ),
        pytest.param(
            lambda: ItemExponentialFailureRateLimiter(1.0, 1.0, jitter_ratio=1.5),
            "jitter_ratio",
            id="jitter",
        ),
        pytest.param(lambda: ItemFastSlowRateLimiter(-1.0, 1.0, 1), "fast_seconds", id="fast"),
        pytest.param(lambda: ItemFastSlowRateLimiter(1.0, -1.0, 1), "slow_seconds", id="slow"),
        pytest.param(MaxOfRateLimiter, "limiters", id="max-of-nothing"),
        pytest.param(
            lambda: WithMaxWaitRateLimiter(BucketRateLimiter(1.0, 1), -1.0), "max_seconds", id="cap"
        ),
    ],
)
def test_an_invalid_limiter_is_refused(make: Callable[[], RateLimiter], argument: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make()
    assert caught.value.argument == argument


def test_jitter_takes_off_at_most_its_share() -> None:
    limiter = ItemExponentialFailureRateLimiter(1.0, 10.0, jitter_ratio=0.5)
    delays = [limiter.when(number, 0.0) for number in range(100)]
    assert all(0.5 <= delay <= 1.0 for delay in delays)
    assert len(set(delays)) > 90
    assert 5.0 <= max(limiter.when("a", 0.0) for _ in range(9)) <= 10.0
