"""Which fields of an object were edited, found without decoding the others.

Fields are compared as texts. Where these differ, which need not mean another value, the field is
kept to be compared as a value: so no edit is lost.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import msgspec

from pyinformer.client.cluster._fingerprint import are_alike
from pyinformer.client.cluster._json_conversion import is_plain_model, plain_fields
from pyinformer.objects import JSONObject, KubeObject, decoder_of, unbounded_decoder_of

_Parts: TypeAlias = dict[str, msgspec.Raw]
_Fields: TypeAlias = dict[str, object]

_LEVELS: Final = 2  # those of the object, and of its spec: each level reads the text once more
_split: Final = decoder_of(_Parts)
_split_part: Final = unbounded_decoder_of(_Parts)
_decode_part: Final = unbounded_decoder_of(Any)
_encode_into: Final = msgspec.json.Encoder().encode_into
_MOST_EDITS: Final = 512  # bytes that they add
_UNENCODABLE: Final = (TypeError, ValueError, OverflowError, RecursionError)


def edited_parts(
    before: KubeObject[object], edited: dict[str, Any]
) -> tuple[JSONObject, dict[str, Any]]:
    """Return an object before and after edits, both without most fields that are the same.

    Args:
        before: the object.
        edited: the same with the edits; it is not changed.

    Raises:
        InvalidObjectError: the object cannot be decoded.
    """
    with _naming(before):
        return _compared(_split(before.raw), edited, _LEVELS)


def decode_fields(obj: KubeObject[object], names: Collection[str]) -> JSONObject:
    """Return these fields of an object, as far as it has them.

    Raises:
        InvalidObjectError: the object cannot be decoded.
    """
    with _naming(obj):
        parts = _split(obj.raw)
        return {name: _decode_part(part) for name, part in parts.items() if name in names}


def edited_fields(before: object, after: object) -> tuple[_Fields, _Fields]:
    """Return the fields of two models of one class, without most that are the same.

    They are by their names in JSON, as are the fields of models in them.

    Args:
        before: the model before: a Struct or a dataclass.
        after: the model after.
    """
    return _differing(before, after, _LEVELS)


def _differing(before: object, after: object, levels: int) -> tuple[_Fields, _Fields]:
    first, second = plain_fields(before), plain_fields(after)
    for name, value in tuple(first.items()):
        other = second[name]
        if levels > 1 and type(value) is type(other) and is_plain_model(type(value)):
            first[name], second[name] = _differing(value, other, levels - 1)
        elif are_alike(value, other):
            del first[name], second[name]
    return first, second


@contextmanager
def _naming(obj: KubeObject[object]) -> Iterator[None]:
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError):
        obj.to_dict()  # raises the error that names the object
        raise


def _compared(
    parts: _Parts, edited: dict[str, Any], levels: int
) -> tuple[JSONObject, dict[str, Any]]:
    before: JSONObject = {}
    after = dict(edited)
    has_plain_names = set(map(type, edited)) == {str}  # others may have the text of a field
    for name, part in parts.items():
        value = after.get(name)
        if has_plain_names and _is_text_of(value, part):
            del after[name]
        elif has_plain_names and levels > 1 and type(value) is dict and _is_object(part):
            before[name], after[name] = _compared(_split_part(part), value, levels - 1)
        else:
            before[name] = _decode_part(part)
    return before, after


def _is_object(part: msgspec.Raw) -> bool:
    return memoryview(part)[0] == ord("{")


def _is_text_of(value: object, part: msgspec.Raw) -> bool:
    """Return whether a text is that of a value as we write it, and has no null.

    NaN, which must be refused, would be written as null.
    """
    view = memoryview(part)
    text = bytearray(len(view) + _MOST_EDITS)  # else it may be copied while it grows
    try:
        _encode_into(value, text)
    except _UNENCODABLE:
        return False
    return text == view and b"null" not in text
