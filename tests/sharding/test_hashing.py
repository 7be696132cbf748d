"""Which bucket a key is in."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from pyinformer.sharding import bucket_of


@pytest.mark.parametrize(
    ("by", "cluster", "key", "text"),
    [
        ("key", "", "default/a", ":default/a"),
        ("key", "eu", "default/a", "eu:default/a"),
        ("namespace", "", "default/a", ":default"),
        ("namespace", "", "cluster-scoped", ":cluster-scoped"),
        ("cluster", "eu", "default/a", "eu:"),
    ],
)
def test_a_bucket_is_the_leading_part_of_a_hash(by: str, cluster: str, key: str, text: str) -> None:
    """Replicas of other versions must agree, so the hash itself is a promise."""
    number = int(hashlib.blake2b(text.encode(), digest_size=8).hexdigest(), 16)

    found = bucket_of(key, cluster, buckets=128, by=by)  # type: ignore[arg-type]
    assert found == number // (2**64 // 128)


def test_a_bucket_of_a_number_that_is_no_power_of_two_is_one_of_them() -> None:
    found = Counter(bucket_of(f"default/{n}", "", buckets=3) for n in range(3_000))

    assert set(found) == {0, 1, 2}
    assert max(found.values()) < 1_150
