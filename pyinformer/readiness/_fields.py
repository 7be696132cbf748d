"""Reads fields and conditions of a body that may hold anything.

Absent and null have the default. A field of another type is an `UnreadableError`, which `of` makes
the reason why the object is not ready.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias, TypeVar

from pyinformer._printable import printable, shortened

Body: TypeAlias = Mapping[str, object]
_T = TypeVar("_T")
_D = TypeVar("_D")
_WORDS: Final = {bool: "a bool", int: "a 64-bit integer", list: "a list", str: "a text"}
_HUGE: Final = 2**63 - 1
_SHOWN: Final = 200  # characters of a text of the body


class UnreadableError(Exception):
    """A field has a value of another type; the text names the field and not the value."""


class Condition(NamedTuple):
    """An entry of `status.conditions`; an object that has none of this type has an empty status."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""

    def __str__(self) -> str:
        if not self.status:
            return f"has no condition {self.type} yet"
        why = shown(self.message or self.reason)
        return f"condition {self.type} is {shown(self.status)}" + (f": {why}" if why else "")


def read(body: Body, path: str, kind: type[_T], default: _D) -> _T | _D:
    """Return the value at a path of names without dots, or raise an UnreadableError."""
    value: object = body
    for place, name in enumerate(names := path.split(".")):
        if not isinstance(value, Mapping):
            raise UnreadableError(f"{'.'.join(names[:place])} is not an object")
        value = value.get(name)
        if value is None:
            return default
    is_huge = isinstance(value, int) and abs(value) > _HUGE
    if not isinstance(value, kind) or is_huge or (kind is int and isinstance(value, bool)):
        raise UnreadableError(f"{path} is not {_WORDS[kind]}")
    return value


def items(body: Body, *paths: str) -> list[Body]:
    """Return what is in lists of objects, or raise an UnreadableError."""
    found = [one for path in paths for one in read(body, path, list, [])]
    if not all(isinstance(one, Mapping) for one in found):
        raise UnreadableError(f"{' or '.join(paths)} has an entry that is not an object")
    return found


def condition(body: Body, name: str) -> Condition:
    """Return the first condition of a type, or raise an UnreadableError.

    A condition that was decided for an earlier generation is Unknown, as for `kubectl wait`.
    """
    if body.get("status") is None:  # as of most ConfigMaps and Secrets
        return Condition(name)
    for one in items(body, "status.conditions"):
        if read(one, "type", str, "") == name:
            generation = read(body, "metadata.generation", int, 0)
            if read(one, "observedGeneration", int, generation) < generation:
                return Condition(name, "Unknown", "it is about an earlier generation")
            texts = (read(one, each, str, "") for each in ("reason", "message"))
            return Condition(name, read(one, "status", str, "") or "Unknown", *texts)
    return Condition(name)


def shown(text: str) -> str:
    """Return a text of a body as a part of one line."""
    return printable(shortened(" ".join(text.split()), _SHOWN))
