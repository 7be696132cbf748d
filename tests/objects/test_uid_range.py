"""Shares of all objects by a hash of their uids: each uid is in one of them."""

from __future__ import annotations

import re
import uuid
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.objects import UidRange, uid_hash

_BOUNDS = re.compile(r"shardRange\(object\.metadata\.uid, '0x([0-9a-f]+)', '0x([0-9a-f]+)'\)")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", 0xCBF29CE484222325, id="empty"),
        pytest.param("a", 0xAF63DC4C8601EC8C, id="one-letter"),
        pytest.param("foobar", 0x85944171F73967E8, id="a-word"),
    ],
)
def test_the_hash_is_that_of_the_published_vectors(text: str, expected: int) -> None:
    assert uid_hash(text) == expected


@given(st.text() | st.uuids().map(str), st.integers(1, 300))
def test_each_uid_is_in_one_share(uid: str, total: int) -> None:
    having = [UidRange(index, total) for index in range(total) if UidRange(index, total).has(uid)]
    assert having == [UidRange.of(uid, total)]


@pytest.mark.parametrize("total", [*range(1, 130), 1000, 4097])
def test_the_ranges_that_are_sent_leave_nothing_out(total: int) -> None:
    bounds = []
    for index in range(total):
        found = _BOUNDS.fullmatch(UidRange(index, total).selector)
        assert found is not None
        bounds.append((int(found[1], 16), int(found[2], 16)))
    assert bounds[0][0] == 0
    assert bounds[-1][1] == 1 << 64
    assert all(before[1] == after[0] for before, after in pairwise(bounds))


def test_the_shares_are_about_equal() -> None:
    sizes = [0, 0, 0, 0]
    for number in range(4000):
        uid = str(uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128)))
        sizes[next(index for index in range(4) if UidRange(index, 4).has(uid))] += 1
    assert max(sizes) < 1.1 * min(sizes)
