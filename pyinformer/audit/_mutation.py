"""What it means that a shared value was changed in place, and how that is told.

Two states of one value enter, or one state and the digest of another; what leaves are the paths
that differ, with the types before and after. No value ever leaves: objects may be Secrets. A digest
is all that is kept of a value, since a second copy would cost as much as the first.
"""

from __future__ import annotations

import marshal
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import msgspec

from pyinformer._printable import printable
from pyinformer.apimachinery import ABSENT, Change, diff

MutationMode: TypeAlias = Literal["off", "sample", "debug"]
"""Look at nothing; look at what a small share of the time allows; or look at every step."""

_MAX_PATHS = 20
_PLAIN = 2  # the last format of marshal that does not depend on how often a value is referred to


@final
@dataclass(frozen=True, slots=True)
class MutatedPath:
    """One place that was changed."""

    path: str
    """Such as `metadata.labels.app`."""
    old_type: str
    """The type of what was there: `str`, `dict`, `absent`."""
    new_type: str
    """The type of what is there now."""

    def __str__(self) -> str:
        if self.old_type == self.new_type:
            return printable(f"{self.path}: changed ({self.new_type})")
        return printable(f"{self.path}: {self.old_type} became {self.new_type}")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CacheMutation:
    """Somebody changed what others read, too. Holds names and types, never a value."""

    informer: str
    """What the informer follows, or `watched values`."""
    key: str
    """The object's key, `namespace/name` or `name`."""
    resource_version: str
    """The object's version."""
    what: str
    """What was changed, such as `the shared decoded object`."""
    paths: tuple[MutatedPath, ...] = ()
    """Where, as far as that can be told; the first twenty."""
    handlers: tuple[str, ...] = ()
    """Who had it; without `debug` everybody who could have asked for it."""
    call_sites: tuple[str, ...] = ()
    """Where it was read, as `file:line`; in `debug` only."""

    def __str__(self) -> str:
        where = f" at {'; '.join(map(str, self.paths))}" if self.paths else ""
        readers = (*self.handlers, *self.call_sites)
        whose = f", read by {', '.join(readers)}" if readers else ""
        return printable(f"{self.what} of {self.key} in {self.informer} was changed{where}{whose}")


def digest_of(value: object) -> int | None:
    """Return what changes when a value does, or None if it is nothing that can be written down.

    The order of fields counts; whoever finds that the digests of two values differ has to look
    whether anything else does. Types count, too: text that somebody has decoded or parsed in place
    may be the same text again as JSON, and is none to the next reader.
    """
    if type(value) is dict:
        try:
            return hash(marshal.dumps(value, _PLAIN))
        except ValueError:  # it holds what JSON does not, or itself
            pass
    try:
        return hash(_encode(value))
    except Exception:  # noqa: BLE001 - whatever was put in there has its own way to be written
        return None


def mutated_paths(original: object, current: object) -> tuple[MutatedPath, ...] | None:
    """Return where two states of one value differ.

    Args:
        original: a dict, or a model.
        current: a value of the same kind; somebody may be changing it at this moment.

    Returns:
        The first places; none if the two say the same; None if it cannot be told.
    """
    try:
        changes = diff(_plain(original), _plain(current), ignore=())
    except Exception:  # noqa: BLE001 - whatever was put in there may raise when it is compared
        return None
    return tuple(map(_told, changes[:_MAX_PATHS]))


def _told(change: Change) -> MutatedPath:
    return MutatedPath(str(change), _type_name(change.old), _type_name(change.new))


def _type_name(value: object) -> str:
    return "absent" if value is ABSENT else type(value).__name__


def _plain(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    plain: dict[str, Any] = msgspec.json.decode(_encode(value), type=dict[str, Any])
    return plain


def _model(value: object) -> object:
    """Return what is in a model that msgspec does not know."""
    for convert in ("model_dump", "to_dict"):  # pydantic's, and the Kubernetes clients'
        method = getattr(value, convert, None)
        if callable(method):
            return method()
    message = f"a {type(value).__name__} cannot be written as JSON"
    raise TypeError(message)


_encode = msgspec.json.Encoder(enc_hook=_model).encode
