"""Pages without objects: requested at growing intervals, and a bounded number in a row."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest

from pyinformer.client.transport import PagesEmptyError, Paging
from pyinformer.errors import ListInconsistentError, RequestTimeoutError

_MOST_EMPTY_PAGES = 64  # in a row


def test_pages_with_objects_follow_at_once() -> None:
    paging = Paging("list pods", 300.0, 0.0)

    assert [paging.pause_seconds(500 * page, 0.1 * page) for page in range(1, 200)] == [0.0] * 199


@pytest.mark.parametrize("limit", [0, 500])
def test_nearly_empty_pages_are_requested_with_pauses(limit: int) -> None:
    paging = Paging("list pods", 300.0, 0.0, limit=limit)
    pauses = [paging.pause_seconds(page, 0.0) for page in range(1, 101)]

    assert pauses[:16] == [0.0] * 16
    assert set(pauses[16:]) == {0.1}


def test_pages_as_small_as_requested_follow_at_once() -> None:
    paging = Paging("list pods", 300.0, 0.0, limit=2)

    assert {paging.pause_seconds(2 * page, 0.0) for page in range(1, 101)} == {0.0}


def test_empty_pages_are_requested_at_growing_intervals_and_then_abandoned() -> None:
    paging = Paging("list pods", 300.0, 0.0)
    at = 0.0
    with pytest.raises(ListInconsistentError, match="64 pages brought nothing"):
        for _ in range(_MOST_EMPTY_PAGES):
            at += paging.pause_seconds(0, at)

    assert 30.0 < at < 60.0


def test_a_filter_that_leaves_two_dozen_pages_empty_costs_seconds() -> None:
    paging = Paging("list pods", 300.0, 0.0, limit=500)

    assert sum(paging.pause_seconds(1, 0.0) for _ in range(23)) < 6.0


def test_a_list_that_is_late_for_its_empty_pages_is_not_one_whose_pages_are_slow() -> None:
    """One object in 50 pages: such a list is late each time, and no page is to blame."""
    paging = Paging("list pods", 300.0, 0.0, limit=500)
    at, found = 0.0, itertools.count()
    with pytest.raises(PagesEmptyError):
        for _ in range(50):
            one = next(found)
            for _ in range(50):
                at += paging.pause_seconds(one, at)

    assert 300.0 < at < 310.0


@pytest.mark.parametrize(("limit", "is_named"), [(500, True), (0, False)])
def test_the_error_names_the_cure_where_pages_were_requested(limit: int, is_named: bool) -> None:
    paging = Paging("list pods", 300.0, 0.0, limit=limit)
    with pytest.raises(ListInconsistentError) as caught:
        for _ in range(_MOST_EMPTY_PAGES):
            paging.pause_seconds(0, 0.0)

    assert ("page_size=0" in str(caught.value)) == is_named


def test_an_object_that_is_new_ends_the_pauses() -> None:
    paging = Paging("list pods", 300.0, 0.0)
    for _ in range(_MOST_EMPTY_PAGES - 1):
        assert paging.pause_seconds(0, 0.0) > 0.0

    assert paging.pause_seconds(1, 0.0) == 0.0
    assert paging.pause_seconds(1, 0.0) == pytest.approx(0.02)


def test_a_list_that_takes_too_long_is_given_up_unless_it_brings_much() -> None:
    slow, large = Paging("list pods", 300.0, 0.0), Paging("list pods", 300.0, 0.0)
    large.received_bytes = 2 << 30  # a million objects of two KiB

    assert large.pause_seconds(1, 3600.0) == 0.0
    assert slow.pause_seconds(1, 299.0) == 0.0
    with pytest.raises(RequestTimeoutError, match="too slowly: 0 bytes in 301 s"):
        slow.pause_seconds(2, 301.0)


def test_a_token_that_comes_again_is_known_and_long_ones_take_no_memory() -> None:
    paging = Paging("list pods", 300.0, 0.0)
    tracemalloc.start()
    try:
        assert not any(paging.repeats(f"{number}{'t' * 60_000}") for number in range(1_000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 1 << 20, "1,000 tokens of 60 KB"
    assert paging.repeats(f"7{'t' * 60_000}")
