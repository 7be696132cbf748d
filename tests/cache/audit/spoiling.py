"""A reader that changes everything that it was given, at any depth.

A change that is refused is what the tests expect, so the error is ignored. The tests then check
what the next reader sees.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, MutableMapping, MutableSequence
from typing import Any

_ATOMS = (str, bytes, int, float, bool, type(None), type)
_MARK = "spoiled"

# From Python 3.13 on, `object.__setattr__` changes any frozen struct. No code does that by
# accident, so nothing is promised against it.
_STRUCTS_REFUSE = sys.version_info < (3, 13)


def spoil(value: Any, _seen: set[int] | None = None) -> None:
    """Change everything that can be reached from a value."""
    seen = _seen if _seen is not None else set()
    if isinstance(value, _ATOMS) or id(value) in seen or callable(value):
        return
    seen.add(id(value))
    for inner in _inside(value):
        spoil(inner, seen)
    _spoil_items(value)
    _spoil_attributes(value)


def _inside(value: Any) -> list[Any]:
    found: list[Any] = []
    if isinstance(value, Mapping):
        found = list(value.values())
    elif isinstance(value, list | tuple | set | frozenset):
        found = list(value)
    for name in _names(value):
        try:
            found.append(getattr(value, name))
        except Exception:  # noqa: S112 - a refusal
            continue
    return found


def _spoil_items(value: Any) -> None:
    if isinstance(value, MutableMapping):
        value.clear()
        value[_MARK] = _MARK
    elif isinstance(value, MutableSequence):
        value.clear()
        value.append(_MARK)
    else:
        for change in (
            lambda: value.__setitem__(_MARK, _MARK),
            lambda: value.__setitem__(0, _MARK),
            lambda: value.pop(_MARK),
            lambda: value.update({_MARK: _MARK}),
            lambda: value.append(_MARK),
        ):
            _try(change)


def _spoil_attributes(value: Any) -> None:
    for name in (*_names(value), _MARK):
        _try(lambda name=name: setattr(value, name, _MARK))
        if _STRUCTS_REFUSE:
            _try(lambda name=name: object.__setattr__(value, name, _MARK))
        _try(lambda name=name: delattr(value, name))


def _names(value: Any) -> list[str]:
    return [name for name in dir(value) if not name.startswith("_") or name in {"_key", "_view"}]


def _try(change: Any) -> None:
    try:
        change()
    except Exception:
        return
