"""The name under which a write owns fields: the argument, the cluster's, or the Operator's.

A server-side apply removes fields that the same manager applied before, so two programs under one
name would delete each other's fields: an apply without any name is refused.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, final

from pyinformer.client.cluster._json_conversion import NO_UNICODE
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import plain_text

_ARGUMENT: Final = "field_manager"
_LONGEST: Final = 128  # apimachinery meta/v1/validation, FieldManagerMaxLength

_CURRENT: Final = ContextVar[str | None]("pyinformer field manager", default=None)


@final
class writing_as:  # noqa: N801 - used as a function: `with writing_as("shop"):`
    """Lets writes of a block own fields under a name, unless their cluster has one.

    The name follows the work of the block into tasks and worker threads. It is cut to the length
    that servers accept.

    Args:
        field_manager: the name.
    """

    __slots__ = ("_name", "_token")

    def __init__(self, field_manager: str) -> None:
        self._name = field_manager[:_LONGEST]

    def __enter__(self) -> None:
        self._token = _CURRENT.set(self._name)

    def __exit__(self, *_: object) -> None:
        try:  # noqa: SIM105 - for each reconcile
            _CURRENT.reset(self._token)
        except ValueError:  # a coroutine that is closed from outside, at its program's end
            pass


def checked_field_manager(name: str | None, argument: str = _ARGUMENT) -> str | None:
    """Return the name of a field manager, if servers accept it; None stays None.

    Args:
        name: the name.
        argument: the argument that it is given as, for errors.

    Raises:
        InvalidTypeError: it is not a text.
        InvalidArgumentError: it is empty or too long, or not Unicode.
    """
    if name is None:
        return None
    if not isinstance(name, str):
        raise InvalidTypeError(argument, f"must be a text, not {type(name).__name__}")
    if not 0 < len(name) <= _LONGEST:
        reason = f"must have 1 to {_LONGEST} characters, got {len(name)}: it is a program's name"
        raise InvalidArgumentError(argument, reason)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(argument, NO_UNICODE) from error
    return plain_text(name)


def field_manager_of(given: str | None, of_cluster: str | None) -> str | None:
    """Return the name that a write has; None if it has none, then servers take the User-Agent's.

    Args:
        given: the argument of the write.
        of_cluster: the name that the cluster was made with.

    Raises:
        InvalidTypeError: the name is not a text.
        InvalidArgumentError: it is empty or too long, or not Unicode.
    """
    return checked_field_manager(given) or of_cluster or checked_field_manager(_CURRENT.get())


def apply_manager_of(given: str | None, of_cluster: str | None) -> str:
    """Return the name that an apply has.

    Raises:
        InvalidTypeError: the name is not a text.
        InvalidArgumentError: there is none, or it is empty or too long, or not Unicode.
    """
    name = field_manager_of(given, of_cluster)
    if name is None:
        reason = (
            "must be given for an apply: pass the program's name here, or once as"
            " connect(field_manager=...) or World(field_manager=...); an Operator uses its name in"
            " the functions that it calls. Two programs under one name would remove each other's"
            " fields, so there is no other default; nothing was sent"
        )
        raise InvalidArgumentError(_ARGUMENT, reason)
    return name
