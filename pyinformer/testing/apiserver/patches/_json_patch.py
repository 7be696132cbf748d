"""JSON patches (RFC 6902), as Kubernetes reads them.

What enters is an object and a list of operations; what leaves is the new object, or PatchError.
Nothing that enters is changed. Where the real server is laxer than the RFC, so is this: replacing
an absent member adds it, an absent member equals null, a missing value is null, and index -1 is
the last one. Its verdicts are why this is no library: those keep to the RFC.

Source:
    gopkg.in/evanphx/json-patch.v4, which kube-apiserver uses.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from pyinformer.apimachinery import JSONObject, JSONValue

_APPEND = "-"


class PatchError(Exception):
    """An operation cannot be carried out; nothing has been."""


def json_patch(body: JSONValue, operations: Sequence[JSONObject]) -> JSONValue:
    """Carry out all operations in order.

    Raises:
        PatchError: one of them is malformed, does not fit, or tests something that is not so.
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
        raise PatchError(f"no JSON pointer: {pointer}")
    parts = pointer.split("/")[1:]
    return [part.replace("~1", "/").replace("~0", "~") for part in parts]


def _parent(root: JSONValue, path: Sequence[str]) -> JSONValue:
    for part in path[:-1]:
        root = _get(root, part)
    return root


def _index(container: Sequence[JSONValue], part: str, *, length: int) -> int:
    """Return the position that a part names in a list of so many places."""
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
    """Compare as JSON does, where true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other
