"""Field paths: from `spec.nodeName` to a decoder that reads only that field.

A compiled path reads an object's bytes in a single narrow pass. Dots separate the names of fields;
a name that contains a dot is quoted in brackets: `metadata.annotations['example.com/team']`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, final

import msgspec
from msgspec import Raw

from pyinformer.errors import InvalidArgumentError, InvalidObjectError, InvalidTypeError
from pyinformer.objects._decoding_structs import encode
from pyinformer.objects._json_decoders import (
    DECODE_FAILURES,
    JSONValue,
    cause_of,
    complaint_of,
    decoder_of,
    shown_complaint_of,
    unbounded_decoder_of,
)
from pyinformer.objects._json_field_scanner import fields_of
from pyinformer.objects._model_checks import check_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME = r"([A-Za-z_$][\w$-]*)"
_QUOTED = r"\[(?:'([^']+)'|\"([^\"]+)\")\]"
_FIRST = re.compile(f"{_NAME}|{_QUOTED}")
_NEXT = re.compile(rf"\.{_NAME}|{_QUOTED}")
_NULL = Raw(b"null")
_SHALLOW = (Any, str, int, float, bool)  # no value at the end of a path is nested in the struct
_decode_any = decoder_of()
_SHOWN = 253  # characters of a path that an error shows
_CACHED_PATHS = 1024  # programs name paths in their source; this bounds a loop that builds them
_MAX_STEPS = 64  # a decoder is nested as deep as its path, and recursion is limited
_UNREADABLE = re.compile(
    r'["\\\x00-\x1f\ud800-\udfff]'
)  # compiled decoders do not accept such a name


@lru_cache(maxsize=_CACHED_PATHS)
def parse_path(path: str) -> tuple[str, ...]:
    """Split a path into field names.

    Raises:
        InvalidArgumentError: naming the position that cannot be read.
    """
    if not isinstance(path, str) or not path:
        raise _invalid(str(path), "write field names with dots, such as 'spec.nodeName'")
    steps: list[str] = []
    position = 0
    while position < len(path):
        match = (_NEXT if steps else _FIRST).match(path, position)
        if match is None:
            raise _invalid(path, _explain(path[position:], position))
        steps.append(match[1] or match[2] or match[3])
        position = match.end()
    return tuple(steps)


def _invalid(path: str, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError("path", f"cannot use {path[:_SHOWN]!r}: {reason}", given=path)


def _explain(text: str, position: int) -> str:
    if re.match(r"\[\d*\]", text):
        return "elements of lists have no path; read the list and pick from it, or use a View"
    return f"unexpected {text[:10]!r} at position {position}"


def _readable_steps(path: str) -> tuple[str, ...]:
    """Return the field names of a path that a decoder can be compiled for.

    Raises:
        InvalidArgumentError: the path cannot be read, is too long, or has a name that decoders do
            not take.
    """
    steps = parse_path(path)
    if len(steps) > _MAX_STEPS:
        raise _invalid(path, f"it has {len(steps)} names; at most {_MAX_STEPS} are allowed")
    for step in steps:
        if _UNREADABLE.search(step):
            reason = (
                f"the name {step!r} must not contain a double quote, a backslash, a control"
                " character or a lone surrogate; read such a field with to_dict()"
            )
            raise _invalid(path, reason)
    return steps


@final
class CompiledPath:
    """Reads the value at one path from an object's bytes."""

    __slots__ = ("_decode", "_decode_known", "_walk", "path")

    def __init__(self, path: str, kind: Any) -> None:  # noqa: ANN401 - any type expression
        self.path = path
        steps = _readable_steps(path)
        tree: _Tree = {}
        _plant(tree, steps)
        self._walk = _walk_of(tree, steps)
        try:
            check_parts(kind, is_field=True)
            struct, skims = _struct_of(tree, kind), kind in _SHALLOW
            self._decode = decoder_of(struct, skims=skims)
            self._decode_known = unbounded_decoder_of(struct) if skims else self._decode
        except TypeError as error:
            reason = f"cannot read {path!r} as {kind!r}: {error}"
            raise InvalidTypeError("kind", reason) from error

    def read(self, raw: bytes, what: str, *, is_known: bool = False) -> JSONValue:
        """Return the value, or None where the object has none, or null.

        Args:
            raw: the object.
            what: how an error names it.
            is_known: it was decoded before without a problem, so it can be skipped.

        Raises:
            InvalidObjectError: the value is of another type.
        """
        try:
            try:
                value: Any = (self._decode_known if is_known else self._decode)(raw)
            except RecursionError:  # perhaps of a field beside the path
                value = self._decode(_only(raw, parse_path(self.path)))
            return _follow(value, self._walk)
        except DECODE_FAILURES as error:
            reason = f"{self.path}: {complaint_of(error)}"
            shown = f"{self.path}: {shown_complaint_of(error)}"
            raise InvalidObjectError(what, reason, shown=shown) from cause_of(error)


def _only(raw: bytes, steps: Sequence[str]) -> bytes:
    """Return an object that has only the value at a path, if it exists."""
    value: bytes | Raw = raw
    passed: list[str] = []
    for step in steps:
        if not value.startswith(b"{"):
            break
        fields = fields_of(value)
        passed.append(step)
        value = bytes(fields.get(step, _NULL))
    for step in reversed(passed):
        value = encode({step: Raw(value)})
    return bytes(value)


@lru_cache(maxsize=_CACHED_PATHS)
def compile_path(path: str, kind: Any) -> CompiledPath:  # noqa: ANN401 - any type expression
    """Return the compiled path, made once for a path and a type."""
    return CompiledPath(path, kind)


@final
class PathSet:
    """Reads several paths of an object in one narrow pass, for indexes."""

    __slots__ = ("_decode", "_decode_known", "_paths", "_single_sets", "_walks")

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._single_sets: tuple[PathSet, ...] = ()
        tree: _Tree = {}
        for path in paths:
            _plant(tree, _readable_steps(path))
        self._walks = tuple(_walk_of(tree, parse_path(path)) for path in paths)
        struct = _struct_of(tree)
        self._decode = decoder_of(struct, skims=True)
        self._decode_known = unbounded_decoder_of(struct)

    def read(self, raw: bytes, *, is_known: bool = False) -> tuple[JSONValue, ...]:
        """Return the values in the order of the paths, None where there is none.

        A path that cannot be read, because a value in it is not an object, does not affect other
        paths: the error takes the place of its value.

        Args:
            raw: the object.
            is_known: as for `CompiledPath.read`.
        """
        try:
            try:
                root = (self._decode_known if is_known else self._decode)(raw)
            except RecursionError:  # perhaps of a field beside the paths
                if len(self._paths) > 1:
                    raise
                root = self._decode(_only(raw, parse_path(self._paths[0])))
            return tuple(_follow(root, walk) for walk in self._walks)
        except DECODE_FAILURES as error:
            if len(self._paths) == 1:
                return (error.with_traceback(None),)  # kept for a while, frames are not
            return tuple(single.read(raw)[0] for single in self._singles())

    def _singles(self) -> tuple[PathSet, ...]:
        """Return one set for each path; compiled once, when the first body does not fit."""
        if not self._single_sets:
            self._single_sets = tuple(PathSet((path,)) for path in self._paths)
        return self._single_sets


_Tree: TypeAlias = dict[str, "_Tree"]


def _plant(tree: _Tree, steps: tuple[str, ...]) -> None:
    for step in steps:
        tree = tree.setdefault(step, {})


def _walk_of(tree: _Tree, steps: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return, for each step, the attribute of the struct and the key of a dict."""
    walk = []
    for step in steps:
        walk.append((f"f{list(tree).index(step)}", step))
        tree = tree[step]
    return tuple(walk)


def _struct_of(tree: _Tree, kind: Any = Any) -> Any:  # noqa: ANN401 - type expressions
    """Return a struct of structs with a value of this kind at the end of each path.

    A value of any kind is its text there, which alone is to be decoded, and may be nested deeply.
    """
    fields: list[tuple[str, Any, Any]] = []
    for number, (step, inner) in enumerate(tree.items()):
        name, is_any = f"f{number}", not inner and kind is Any
        if is_any:
            fields.append((name, Raw, msgspec.field(name=step, default=_NULL)))
        else:  # a null in the path is equal to an absent field
            found = _struct_of(inner, kind) if inner else kind
            fields.append((name, found | None, msgspec.field(name=step, default=None)))
    return msgspec.defstruct("Steps", fields, frozen=True, gc=False)


def _follow(value: Any, walk: tuple[tuple[str, str], ...]) -> Any:  # noqa: ANN401 - JSON or structs
    for attribute, _ in walk:
        if value is None:
            return None
        value = getattr(value, attribute)
    return _decode_any(value) if type(value) is Raw else value
