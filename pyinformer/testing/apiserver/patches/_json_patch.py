"""JSON patches (RFC 6902), as Kubernetes applies them.

No argument is changed. Like the real server this is laxer than the RFC, and therefore not a
library: replacing an absent member adds it, an absent member equals null, a missing value is null,
and index -1 is the last one.

Source:
    gopkg.in/evanphx/json-patch.v4, which kube-apiserver uses.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from pyinformer.objects import JSONObject, JSONValue

_APPEND = "-"


class PatchError(Exception):
    """An operation of a JSON patch is malformed or does not fit; the object is unchanged."""


def json_patch(body: JSONValue, operations: Sequence[JSONObject]) -> JSONValue:
    """Return a document with all operations of a patch applied in order.

    Raises:
        PatchError: an operation is malformed, does not fit, or is a test that fails.
    """
    root: dict[str, JSONValue] = {"": copy.deepcopy(body)}
    for operation in operations:
        path = ["", *_parsed(operation.get("path"))]
        value = copy.deepcopy(operation.get("value"))
        match operation.get("op"):
            case "add":
                _add(_parent(root, path), path[-1], value)
            case "replace":
                _replace(_parent(root, path), path[-1], value)
            case "remove":
                _remove(_parent(root, path), path[-1])
            case "test":
                _test(root, path, value)
            case "move" | "copy" as op:
                source = ["", *_parsed(operation.get("from"))]
                moved = copy.deepcopy(_get(_parent(root, source), source[-1]))
                if op == "move":
                    _remove(_parent(root, source), source[-1])
                _add(_parent(root, path), path[-1], moved)
            case other:
                raise PatchError(f"unexpected kind: {other}")
    return root[""]


def _parsed(pointer: JSONValue) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise PatchError(f"not a JSON pointer: {pointer}")
    parts = pointer.split("/")[1:]
    return [part.replace("~1", "/").replace("~0", "~") for part in parts]


def _parent(root: JSONValue, path: Sequence[str]) -> JSONValue:
    for part in path[:-1]:
        root = _get(root, part)
    return root


def _index(container: Sequence[JSONValue], part: str, *, length: int) -> int:
    """Return the list index that a part of a JSON pointer names."""
    digits = part.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise PatchError(f"no index: {part}")
    index = int(part)
    if index < 0:
        index += len(container)
    if not 0 <= index < length:
        raise PatchError(f"index out of bounds: {part}")
    return index


def _get(container: JSONValue, part: str) -> JSONValue:
    if isinstance(container, list):
        return container[_index(container, part, length=len(container))]
    if isinstance(container, dict) and part in container:
        return container[part]
    raise PatchError(f"missing path: {part}")


def _add(container: JSONValue, part: str, value: JSONValue) -> None:
    if isinstance(container, dict):
        container[part] = value
    elif not isinstance(container, list):
        raise PatchError(f"missing container: {part}")
    elif part == _APPEND:
        container.append(value)
    else:
        container.insert(_index(container, part, length=len(container) + 1), value)


def _replace(container: JSONValue, part: str, value: JSONValue) -> None:
    if isinstance(container, list):
        container[_index(container, part, length=len(container))] = value
    else:
        _add(container, part, value)


def _remove(container: JSONValue, part: str) -> None:
    _get(container, part)
    if isinstance(container, list):
        del container[_index(container, part, length=len(container))]
    elif isinstance(container, dict):
        del container[part]


def _test(root: JSONValue, path: Sequence[str], wanted: JSONValue) -> None:
    parent = _parent(root, path)
    is_absent = isinstance(parent, dict) and path[-1] not in parent
    found = None if is_absent else _get(parent, path[-1])
    if not _equal(found, wanted):
        raise PatchError(f"test failed: {'/'.join(path)}")


def _equal(one: JSONValue, other: JSONValue) -> bool:
    """Compare as JSON does: true does not equal 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other
