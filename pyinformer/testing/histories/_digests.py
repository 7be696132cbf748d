"""Digests of objects, by which two contents are compared without being in the history."""

# Pure: it knows no event loop.

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from pyinformer.objects import JSONObject, JSONValue

_OUTSIDE: Final = frozenset({"apiVersion", "kind", "metadata"})
_MADE_ON_READING: Final = frozenset({"managedFields", "resourceVersion", "selfLink"})
_BYTES: Final = 8
_encode = msgspec.json.Encoder(order="sorted").encode


def digest(value: JSONValue) -> str:
    """Return the digest of a value; the order of names in objects does not matter."""
    return hashlib.blake2b(_encode(value), digest_size=_BYTES).hexdigest()


def digest_of(obj: JSONObject) -> str:
    """Return the digest of an object's content.

    The version of its API, its resource version and its managedFields do not count: the server adds
    the first two when the object is read, and informers leave out the last.
    """
    content = {name: value for name, value in obj.items() if name not in _OUTSIDE}
    metadata = obj.get("metadata") or {}
    kept = {name: value for name, value in metadata.items() if name not in _MADE_ON_READING}
    return digest([kept, content])


def status_digests(status: JSONValue) -> dict[str, str]:
    """Return the digest of each field of a status; empty if it is not an object."""
    if not isinstance(status, dict):
        return {}
    return {name: digest(value) for name, value in status.items()}
