"""What changed between two objects, as paths.

What enters are two objects, or two dicts; what leaves is one change for each value that differs,
in the order of the older object. Changes print paths and never values: objects may be Secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol, TypeAlias, final, runtime_checkable

from pyinformer._printable import printable
from pyinformer.apimachinery._errors import InvalidTypeError
from pyinformer.apimachinery._json import JSONObject, JSONValue
from pyinformer.apimachinery._paths import parse_path

Path: TypeAlias = tuple[str | int, ...]
"""Field names and positions in lists, from the root of an object."""

_NAME = re.compile(r"[A-Za-z_$][\w$-]*")  # what a path holds without quotes


@final
class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""Stands where one of the two objects has no value; None would be a null that is there."""


@final
@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs.

    Attributes:
        path: where, such as `("spec", "containers", 0, "image")`.
        old: the value there in the older object, or `ABSENT`.
        new: the value there in the newer object, or `ABSENT`.
    """

    path: Path
    old: JSONValue | Absent = field(repr=False)
    new: JSONValue | Absent = field(repr=False)

    def __str__(self) -> str:
        return printable("".join(map(_step_text, self.path)).removeprefix("."))


@runtime_checkable
class HasDict(Protocol):
    """What `diff` compares besides dicts: a KubeObject, for example."""

    def to_dict(self) -> JSONObject:
        """Return the whole object as a dict."""
        ...


def diff(
    old: HasDict | JSONObject,
    new: HasDict | JSONObject,
    *,
    ignore: Sequence[str] = ("metadata.managedFields", "metadata.resourceVersion"),
) -> tuple[Change, ...]:
    """Compare two objects and return what differs.

    Lists are compared by position. What only one side has is one change, however much it holds.

    Args:
        old: the older object, or its dict; not changed.
        new: the newer object, or its dict; not changed.
        ignore: paths that are not compared, nor what is below them; by default what changes with
            every write. Pass `()` to compare everything.

    Returns:
        The changes; their values belong to the dicts that were given.

    Raises:
        InvalidObjectError: the body of an object cannot be decoded.
        InvalidPathError: a path in `ignore` cannot be read.
        InvalidTypeError: one of the two is neither an object nor a dict.
    """
    ignored: frozenset[Path] = frozenset(map(parse_path, ignore))
    return tuple(_changes(_as_dict("old", old), _as_dict("new", new), ignored))


def _as_dict(argument: str, side: HasDict | JSONObject) -> JSONObject:
    if isinstance(side, dict):
        return side
    if isinstance(side, HasDict):
        return side.to_dict()
    raise InvalidTypeError(argument, f"is an object or its dict, not {type(side).__name__}")


def _changes(old: JSONObject, new: JSONObject, ignored: frozenset[Path]) -> Iterator[Change]:
    pending: list[Change] = [Change((), old, new)]  # a stack: no object is too deep for it
    while pending:
        pair = pending.pop()
        if pair.path in ignored:
            continue
        if isinstance(pair.old, dict) and isinstance(pair.new, dict):
            pending.extend(reversed(list(_fields(pair.path, pair.old, pair.new))))
        elif isinstance(pair.old, list) and isinstance(pair.new, list):
            pending.extend(reversed(list(_elements(pair.path, pair.old, pair.new))))
        elif not _same(pair.old, pair.new):
            yield pair


def _fields(path: Path, old: JSONObject, new: JSONObject) -> Iterator[Change]:
    for name in old | new:
        yield Change((*path, name), old.get(name, ABSENT), new.get(name, ABSENT))


def _elements(path: Path, old: list[JSONValue], new: list[JSONValue]) -> Iterator[Change]:
    for position in range(max(len(old), len(new))):
        yield Change((*path, position), _element(old, position), _element(new, position))


def _element(values: list[JSONValue], position: int) -> JSONValue | Absent:
    return values[position] if position < len(values) else ABSENT


def _same(old: JSONValue | Absent, new: JSONValue | Absent) -> bool:
    # To Python True equals 1, to JSON it does not; 1 and 1.0 are one number to both.
    return bool(old == new) and isinstance(old, bool) == isinstance(new, bool)


def _step_text(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if _NAME.fullmatch(step):
        return f".{step}"
    return f'["{step}"]' if "'" in step else f"['{step}']"
