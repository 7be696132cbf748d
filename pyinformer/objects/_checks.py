"""Checks of the settings that a program passes: each raises an error that names the setting."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from os import PathLike, fspath

from pyinformer.errors import InvalidArgumentError, InvalidTypeError


def check_seconds(name: str, seconds: float, *, is_positive: bool = False) -> None:
    """Refuse a duration that is not a finite number of seconds >= 0.

    Args:
        name: the setting.
        seconds: its value.
        is_positive: refuse 0 as well.

    Raises:
        InvalidArgumentError: naming the setting.
    """
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    usable = is_number and 0 <= seconds <= sys.float_info.max  # an int may be larger
    if not usable:
        reason = f"must be seconds >= 0, got {seconds!r}"
        raise InvalidArgumentError(name, reason)
    if is_positive and not seconds:
        raise InvalidArgumentError(name, f"must be greater than 0, got {seconds}")


def check_integer(name: str, value: object, *, least: int = 1) -> None:
    """Refuse a setting that is not an integer, or is too small.

    Raises:
        InvalidArgumentError: naming the setting.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgumentError(name, f"must be an integer >= {least}, got {value!r}")


def check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    """Refuse a setting that is not one of its choices.

    Raises:
        InvalidArgumentError: naming the setting.
    """
    known = tuple(choices)
    if value not in known:
        reason = f"must be one of {', '.join(map(str, known))}, got {value!r}"
        raise InvalidArgumentError(name, reason)


def check_flag(name: str, value: object) -> None:
    """Refuse a setting that is not a bool.

    Raises:
        InvalidArgumentError: naming the setting.
    """
    if not isinstance(value, bool):
        raise InvalidArgumentError(name, f"must be True or False, got {value!r}")


def check_number(name: str, value: object) -> None:
    """Refuse a setting that is not a number.

    Raises:
        InvalidArgumentError: naming the setting.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgumentError(name, f"must be a number, got {value!r}")


def check_type(name: str, value: object, kind: type, *, shown: str = "") -> None:
    """Refuse an argument that is not an instance of a class.

    Args:
        name: the argument.
        value: its value.
        kind: the class.
        shown: what it must be, in words; empty for the name of the class.

    Raises:
        InvalidTypeError: naming the argument.
    """
    if not isinstance(value, kind):
        given = value.__name__ if isinstance(value, type) else type(value).__name__
        what = "the class " if isinstance(value, type) else ""
        raise InvalidTypeError(name, f"must be {shown or f'a {kind.__name__}'}, got {what}{given}")


def check_text(name: str, value: object) -> None:
    """Refuse an argument that is not a text.

    Raises:
        InvalidTypeError: naming the argument.
    """
    check_type(name, value, str, shown="a text")


def plain_text(text: str) -> str:
    """Return the text of a str; `str()` and f-strings show a member of an Enum by its name."""
    return str.__str__(text)


def check_encodable(name: str, value: object) -> None:
    """Refuse an argument that is not a text, or that cannot be sent: with a lone surrogate.

    Raises:
        InvalidArgumentError: naming the argument: UTF-8 cannot encode it.
        InvalidTypeError: naming the argument: it is not a text.
    """
    check_type(name, value, str, shown="a text")
    try:
        str(value).encode()
    except UnicodeEncodeError:
        reason = f"must be a text that UTF-8 can encode, got {value!r}"
        raise InvalidArgumentError(name, reason) from None


def check_path(name: str, value: object) -> None:
    """Refuse an argument that does not name a file.

    Raises:
        InvalidArgumentError: naming the argument: it has a character that no path has.
        InvalidTypeError: naming the argument: it is not a path.
    """
    if not isinstance(value, str | PathLike):
        raise InvalidTypeError(name, f"must be a path, got {type(value).__name__}")
    path = fspath(value)
    if not isinstance(path, str) or "\0" in path:
        raise InvalidArgumentError(name, f"must name a file, got {path!r}")
    check_encodable(name, path)


def check_hashable(name: str, value: object) -> None:
    """Refuse an argument that cannot be the key of a dict.

    Raises:
        InvalidTypeError: naming the argument.
    """
    try:
        hash(value)
    except TypeError:
        raise InvalidTypeError(name, f"must be hashable, got {type(value).__name__}") from None


def check_iterable(name: str, value: object, *, shown: str, items: type | None = None) -> None:
    """Refuse an argument that is a text, of which no items can be read, or with wrong items.

    Args:
        name: the argument.
        value: its value.
        shown: what it must be, in words.
        items: the class of its items, of a value that can be read several times; None if they are
            not checked here.

    Raises:
        InvalidTypeError: naming the argument.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Iterable) or isinstance(value, type):
        raise InvalidTypeError(name, f"must be {shown}, got {type(value).__name__}")
    wrong = () if items is None else (one for one in value if not isinstance(one, items))
    for item in wrong:
        raise InvalidTypeError(name, f"must be {shown}, got one with {type(item).__name__}")
