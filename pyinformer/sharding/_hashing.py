"""Which bucket a key is in: the same in every replica, process and Python."""

# Pure: it knows no event loop.

from __future__ import annotations

from hashlib import blake2b
from typing import Literal, TypeAlias

By: TypeAlias = Literal["key", "namespace", "cluster"]
"""What has one bucket: each key, all keys of a namespace, or all keys of a cluster."""

_DIGEST_BYTES = 8


def bucket_of(key: str, cluster: str, *, buckets: int, by: By = "key") -> int:
    """Return the bucket of a key, from 0 on.

    By namespace, a key without one has the bucket of its name: otherwise all cluster-scoped
    objects would have the same.

    Args:
        key: `namespace/name`, or `name` if cluster-scoped.
        cluster: the name of the key's cluster; empty if there is only one.
        buckets: how many there are.
        by: what has one bucket.
    """
    if by == "cluster":
        shared = ""
    elif by == "namespace":
        shared = key.rpartition("/")[0] or key
    else:
        shared = key
    return bucket_of_text(f"{cluster}:{shared}", buckets=buckets)


def bucket_of_text(text: str, *, buckets: int) -> int:
    """Return the bucket of all keys that share a text, from 0 on.

    Args:
        text: what they share.
        buckets: how many there are.
    """
    digest = blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()
    return int.from_bytes(digest, "big") * buckets >> 8 * _DIGEST_BYTES
