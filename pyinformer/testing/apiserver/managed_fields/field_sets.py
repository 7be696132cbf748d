"""Sets of fields, and their encoding as FieldsV1.

A path is a tuple of elements as Kubernetes writes them: `f:spec` for a field, `k:{"name":"a"}` for
an item of a keyed list, `v:"x"` for an item of a set.

Source:
    sigs.k8s.io/structured-merge-diff, fieldpath/serialize.go and path.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

import msgspec

from pyinformer.objects import JSONObject, JSONValue, decoder_of

Path: TypeAlias = tuple[str, ...]
Paths: TypeAlias = frozenset[Path]

ITSELF = "."
"""The FieldsV1 entry of a field that is owned together with fields below it."""
_KEPT = 1024  # more than the kinds of objects in a test times their authors
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = decoder_of()
_decode_object = decoder_of(JSONObject)


def field(name: str) -> str:
    """Return the element of a field."""
    return f"f:{name}"


def keyed(identity: JSONObject) -> str:
    """Return the element of an item of a keyed list."""
    return f"k:{_encode(identity).decode()}"


def valued(value: JSONValue) -> str:
    """Return the element of an item of a set."""
    return f"v:{_encode(value).decode()}"


def to_fields(paths: Iterable[Path]) -> JSONObject:
    """Encode a set as FieldsV1; the result is shared and must not be changed."""
    return _written(frozenset(paths))


@lru_cache(_KEPT)  # the objects of a test are similar
def _written(paths: Paths) -> JSONObject:
    root: JSONObject = {}
    members = sorted(paths)
    for path in members:
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node[ITSELF] = {}
    _shorten(root)
    return root


def _shorten(node: JSONObject) -> None:
    """Remove the redundant dots of leaves."""
    for element, child in node.items():
        if element != ITSELF:
            if list(child) == [ITSELF]:
                child.clear()
            _shorten(child)


def from_fields(fields: JSONValue) -> Paths:
    """Decode FieldsV1; malformed parts are left out."""
    return _from_encoded(msgspec.json.encode(fields))


@lru_cache(_KEPT)
def _from_encoded(raw: bytes) -> Paths:
    fields: JSONValue = _decode(raw)
    found: set[Path] = set()

    def walk(node: JSONObject, path: Path) -> None:
        if path and (not node or ITSELF in node):
            found.add(path)
        for element, child in node.items():
            if element != ITSELF and isinstance(child, dict):
                walk(child, (*path, element))

    if isinstance(fields, dict):
        walk(fields, ())
    return frozenset(found)


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Sort paths as Kubernetes lists them: the members of each level before those below."""

    def place(path: Path) -> list[tuple[bool, str]]:
        return [(length < len(path), element) for length, element in enumerate(path, 1)]

    return sorted(paths, key=place)


def path_text(path: Path) -> str:
    """Format a path as conflicts name it: `.spec.containers[name="a"].image`."""
    return "".join(map(element_text, path))


def element_text(element: str) -> str:
    """Format one element of a path: `.image` or `[name="a"]`."""
    kind, _, text = element.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "v":
        return f"[={text}]"
    identity = _decode_object(text)
    pairs = (f"{name}={_encode(value).decode()}" for name, value in identity.items())
    return f"[{','.join(pairs)}]"
