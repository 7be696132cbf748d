"""The bucket of a request, which a function of the user's may decide."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pyinformer import Buckets
from pyinformer.sharding import NO_BUCKET, KeyBuckets

if TYPE_CHECKING:
    from pyinformer import Request


def test_the_bucket_is_that_of_the_text() -> None:
    """Replicas of other versions must agree, so the hash itself is a promise."""
    number = int(hashlib.blake2b(b"eu-west", digest_size=8).hexdigest(), 16)
    keys = KeyBuckets(Buckets(by=lambda request: f"{request.cluster}-{request.namespace}"))

    assert keys.of(("west/a", "eu")) == number // (2**64 // 128)


def test_a_timer_has_the_bucket_of_its_name() -> None:
    by_key = KeyBuckets(Buckets())
    keys = KeyBuckets(Buckets(by=lambda request: request.namespace))

    assert keys.of_timer(("clean-up", "")) == by_key.of(("clean-up", ""))
    assert keys.of_timer(("clean-up", "")) != keys.of(("clean-up", ""))


def test_a_function_is_not_called_again_for_a_key_that_has_a_bucket() -> None:
    asked: list[str] = []

    def tenant_of(request: Request) -> str:
        asked.append(request.key)
        if len(asked) == 1:
            raise OSError("a fault of the test")
        return request.namespace

    keys = KeyBuckets(Buckets(by=tenant_of))
    found = [keys.of(("default/a", "")) for _ in range(4)]

    assert found[0] == NO_BUCKET
    assert found[1] == found[2] == found[3] != NO_BUCKET
    assert asked == ["default/a", "default/a"]
