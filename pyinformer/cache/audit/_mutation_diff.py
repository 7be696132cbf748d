"""The comparison of two states of a shared value, and the report of a change.

A report names the paths that differ and the types before and after, never a value: objects may be
Secrets. Only the digest of a value is kept, since a copy would double its memory.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import marshal
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import msgspec

from pyinformer._printable import printable
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer.objects import ABSENT, Change, decoder_of, diff

MutationMode: TypeAlias = Literal["off", "sample", "debug"]
"""`off` checks nothing, `sample` what a small share of the time allows, `debug` every step."""

_MAX_PATHS = 20
_PLAIN = 2  # the last format of marshal that does not depend on how often a value is referred to


@final
@dataclass(frozen=True, slots=True)
class MutatedPath:
    """One place that was changed."""

    path: str
    """Such as `metadata.labels.app`."""
    old_type: str
    """The type of the original value: `str`, `dict`, `absent`."""
    new_type: str
    """The type of the value now."""

    def __str__(self) -> str:
        if self.old_type == self.new_type:
            return printable(f"{self.path}: changed ({self.new_type})")
        return printable(f"{self.path}: {self.old_type} became {self.new_type}")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CacheMutation:
    """The report of a shared value that was changed in place; it never holds a value."""

    informer: str
    """What the informer follows, or `watched values`."""
    key: str
    """The object's key, `namespace/name` or `name`."""
    resource_version: str
    """The object's version."""
    what: str
    """What was changed, such as `the shared decoded object`."""
    paths: tuple[MutatedPath, ...] = ()
    """The changed paths, if they can be found; the first twenty."""
    handlers: tuple[str, ...] = ()
    """The handlers that read it; without `debug`, all handlers that may have read it."""
    call_sites: tuple[str, ...] = ()
    """Where it was read, as `file:line`; in `debug` only."""

    def __str__(self) -> str:
        where = f" at {'; '.join(map(str, self.paths))}" if self.paths else ""
        readers = (*self.handlers, *self.call_sites)
        whose = f", read by {', '.join(readers)}" if readers else ""
        return printable(f"{self.what} of {self.key} in {self.informer} was changed{where}{whose}")


def digest_of(value: object) -> int | None:
    """Return a digest of a value, or None if it cannot be written as JSON.

    The order of fields counts, so values with different digests may still be equal. Types count as
    well: a text that was decoded or parsed in place may be the same as JSON, but not to the next
    reader.
    """
    if type(value) is dict:
        try:
            return hash(marshal.dumps(value, _PLAIN))
        except ValueError:  # it holds values that JSON lacks, or itself
            pass
    try:
        return hash(_encode(value))
    except ENDS_PROGRAM:
        raise
    except BaseException:  # noqa: BLE001 - user types encode themselves
        return None


def mutated_paths(original: object, current: object) -> tuple[MutatedPath, ...] | None:
    """Return where two states of one value differ.

    Args:
        original: a dict, or a model.
        current: a value of the same kind; another thread may be changing it now.

    Returns:
        The first places; none if the two are equal; None if they cannot be compared.
    """
    try:
        changes = diff(_plain(original), _plain(current), ignore=())
    except ENDS_PROGRAM:
        raise
    except BaseException:  # noqa: BLE001 - user types may raise when they are compared
        return None
    return tuple(map(_path_of, changes[:_MAX_PATHS]))


def _path_of(change: Change) -> MutatedPath:
    return MutatedPath(str(change), _type_name(change.old), _type_name(change.new))


def _type_name(value: object) -> str:
    return "absent" if value is ABSENT else type(value).__name__


def _plain(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    plain: dict[str, Any] = _decode(_encode(value))
    return plain


def _model(value: object) -> object:
    """Return the content of a model that msgspec cannot encode."""
    for convert in ("model_dump", "to_dict"):  # pydantic's, and the Kubernetes clients'
        method = getattr(value, convert, None)
        if callable(method):
            return method()
    message = f"a {type(value).__name__} cannot be written as JSON"
    raise TypeError(message)


_encode = msgspec.json.Encoder(enc_hook=_model).encode
_decode = decoder_of(dict[str, Any])
