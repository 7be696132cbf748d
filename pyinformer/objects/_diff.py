"""What changed between two objects, as paths.

There is one change for each value that differs, in the order of the older object. The text of a
change is its path and never a value: objects may be Secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, Protocol, TypeAlias, final, runtime_checkable

from pyinformer._printable import printable
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects._checks import check_iterable
from pyinformer.objects._compiled_paths import parse_path
from pyinformer.objects._json_decoders import JSONObject, JSONValue

Path: TypeAlias = tuple[str | int, ...]
"""Field names and positions in lists, from the root of an object."""

_Place: TypeAlias = "tuple[_Place, str | int] | None"
"""The container that a value is in, and where in it; None is the root.

Deeply nested values share it: a path for each of them would need a thousand times the memory.
"""
_Pair: TypeAlias = "tuple[_Place, JSONValue | Absent, JSONValue | Absent]"
"""A place, and what is there in the older and in the newer object."""

_NAME = re.compile(r"[A-Za-z_$][\w$-]*")  # a name that needs no quotes in a path


@final
class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""Stands for a value that one of the two objects does not have; None is a null."""


@final
class Change:
    """One value that differs; immutable.

    Args:
        path: where, such as `("spec", "containers", 0, "image")`.
        old: the value there in the older object, or `ABSENT`.
        new: the value there in the newer object, or `ABSENT`.
    """

    __slots__ = ("_new", "_old", "_place")
    __match_args__ = ("path", "old", "new")

    def __init__(self, path: Path, old: JSONValue | Absent, new: JSONValue | Absent) -> None:
        self._place: _Place = None
        self._old, self._new = old, new
        for step in path:
            self._place = self._place, step

    @classmethod
    def _of(cls, pair: _Pair) -> Change:
        change = cls((), pair[1], pair[2])
        change._place = pair[0]
        return change

    @property
    def path(self) -> Path:
        """Where the value is, such as `("spec", "containers", 0, "image")`; built at each read."""
        return _path_of(self._place)

    @property
    def old(self) -> JSONValue | Absent:
        """The value in the older object, or `ABSENT`."""
        return self._old

    @property
    def new(self) -> JSONValue | Absent:
        """The value in the newer object, or `ABSENT`."""
        return self._new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Change):
            return NotImplemented
        return (self.path, self.old, self.new) == (other.path, other.old, other.new)

    def __hash__(self) -> int:
        return hash((self.path, self.old, self.new))

    def __repr__(self) -> str:
        return f"Change(path={self.path!r})"

    def __reduce__(self) -> tuple[type[Change], tuple[object, ...]]:
        return Change, (self.path, self.old, self.new)

    def __str__(self) -> str:
        return printable("".join(map(_step_text, self.path)).removeprefix("."))


@runtime_checkable
class HasDict(Protocol):
    """An object that `diff` converts to a dict: a KubeObject, for example."""

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

    Lists are compared by position. A value that only one side has is one change, however large.

    Args:
        old: the older object, or its dict; not changed.
        new: the newer object, or its dict; not changed.
        ignore: paths that are not compared, with everything below them; by default fields that
            change with every write. Pass `()` to compare everything.

    Returns:
        The changes; their values belong to the dicts that were given.

    Raises:
        InvalidObjectError: the body of an object cannot be decoded.
        InvalidArgumentError: a path in `ignore` cannot be read.
        InvalidTypeError: one of the two is neither an object nor a dict, or `ignore` has something
            else than texts.
    """
    check_iterable("ignore", ignore, shown="a sequence of paths", items=str)
    try:
        ignored: frozenset[Path] = frozenset(map(parse_path, ignore))
    except InvalidArgumentError as error:
        raise InvalidArgumentError("ignore", error.reason, given=error.given) from error
    return tuple(_changes(_as_dict("old", old), _as_dict("new", new), ignored))


def _as_dict(argument: str, side: HasDict | JSONObject) -> JSONObject:
    if isinstance(side, dict):
        return side
    if isinstance(side, HasDict):
        return side.to_dict()
    raise InvalidTypeError(argument, f"must be an object or its dict, not {type(side).__name__}")


def _changes(old: JSONObject, new: JSONObject, ignored: frozenset[Path]) -> Iterator[Change]:
    longest = max(map(len, ignored), default=0)
    pending: list[Iterator[_Pair]] = [iter([(None, old, new)])]  # a stack: nothing is too deep
    while pending:
        pair = next(pending[-1], None)
        if pair is None:
            pending.pop()
            continue
        if len(pending) - 1 <= longest and _path_of(pair[0]) in ignored:
            continue
        inner = _inner(*pair)
        if inner is not None:
            pending.append(inner)
        elif not _same(pair[1], pair[2]):
            yield Change._of(pair)  # noqa: SLF001 - without building a path


def _path_of(place: _Place) -> Path:
    steps: list[str | int] = []
    while place is not None:
        place, step = place
        steps.append(step)
    return tuple(reversed(steps))


def _inner(
    place: _Place, old: JSONValue | Absent, new: JSONValue | Absent
) -> Iterator[_Pair] | None:
    """Yield the pairs of values in two containers of one kind; None if they are not containers."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _fields(place, old, new)
    if isinstance(old, list) and isinstance(new, list):
        return _elements(place, old, new)
    return None


def _fields(place: _Place, old: JSONObject, new: JSONObject) -> Iterator[_Pair]:
    for name in old | new:
        yield (place, name), old.get(name, ABSENT), new.get(name, ABSENT)


def _elements(place: _Place, old: list[JSONValue], new: list[JSONValue]) -> Iterator[_Pair]:
    for position in range(max(len(old), len(new))):
        yield (place, position), _element(old, position), _element(new, position)


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
