"""The JSON types, and decoding with errors that name the object.

Bytes were checked when they arrived, except for two things that a skipping decoder does not check:
numbers out of range, and text that is not UTF-8. Both become one typed error here.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from pyinformer.errors import InvalidObjectError

JSONValue: TypeAlias = Any
"""Any value JSON can express: None, bool, int, float, str, list or dict of such."""

JSONObject: TypeAlias = dict[str, JSONValue]
"""A JSON object as Python decodes it; the caller that receives it owns it."""

DECODE_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of the decoder; the last one for nesting that is too deep."""

_decode_object = msgspec.json.Decoder(JSONObject).decode

_building: Final = threading.Lock()


def decoder_of(kind: Any) -> Callable[[bytes | memoryview], Any]:  # noqa: ANN401 - any type
    """Return a decoder of a type that other threads may need for the first time, too.

    msgspec keeps what it learns of a class in the class, and not all at once: a decoder that is
    built meanwhile in another thread crashes the process (msgspec 0.22).

    Raises:
        TypeError: nothing can be decoded into the type.
    """
    with _building:
        return msgspec.json.Decoder(kind).decode


# msgspec's message where one of a few values is expected, and for the tag of a union.
_QUOTED = re.compile(r"^(Invalid (?:enum )?value) .*", re.DOTALL)


def complaint_of(error: Exception) -> str:
    """Return msgspec's message in one line and without the value, which can be a Secret's."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    words, at, place = str(error).rpartition(" - at `")  # as msgspec ends it
    complaint = _QUOTED.sub(r"\1", words if at else place)
    return " ".join(f"{complaint}{at}{place if at else ''}".split())


def cause_of(error: Exception) -> Exception:
    """Return the error for a traceback, without the value that it may quote."""
    if isinstance(error, msgspec.ValidationError) and _QUOTED.match(str(error)):
        return type(error)(complaint_of(error))
    return error


def decode_object(raw: bytes, what: str) -> JSONObject:
    """Decode one JSON object into a dict of the caller's own.

    Args:
        raw: the object's bytes.
        what: how an error names the object.

    Raises:
        InvalidObjectError: the bytes are not a JSON object, or have a number out of range.
    """
    try:
        return _decode_object(raw)
    except DECODE_FAILURES as error:
        words = complaint_of(error) if isinstance(error, RecursionError) else error
        raise InvalidObjectError(what, f"cannot be decoded: {words}") from error
