"""JSON as this library meets it: the value types, and decoding that names what it could not read.

The bytes that enter were checked when they arrived, except for two things that a skipping decoder
cannot see: numbers out of range, and text that is no UTF-8. Both become one typed error here.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import msgspec

from pyinformer.apimachinery._errors import InvalidObjectError

JSONValue: TypeAlias = Any
"""Any value JSON can express: None, bool, int, float, str, list or dict of such."""

JSONObject: TypeAlias = dict[str, JSONValue]
"""A JSON object as Python decodes it; whoever gets one owns it."""

DECODE_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the decoder raises for bytes it cannot read; the last one for absurdly deep nesting."""

_decode_object = msgspec.json.Decoder(JSONObject).decode


# What msgspec complains of where one of a few values is expected, and where the tag of a union is.
_QUOTED = re.compile(r"^(Invalid (?:enum )?value) .*", re.DOTALL)


def complaint_of(error: Exception) -> str:
    """Return what msgspec complains of, in one line and without the value: it can be a Secret's."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    words, at, place = str(error).rpartition(" - at `")  # as msgspec ends it
    complaint = _QUOTED.sub(r"\1", words if at else place)
    return " ".join(f"{complaint}{at}{place if at else ''}".split())


def cause_of(error: Exception) -> Exception:
    """Return what may stand in a traceback: the error itself, unless it quotes a value."""
    if isinstance(error, msgspec.ValidationError) and _QUOTED.match(str(error)):
        return type(error)(complaint_of(error))
    return error


def decode_object(raw: bytes, what: str) -> JSONObject:
    """Decode one JSON object into a dict of the caller's own.

    Args:
        raw: the object's bytes.
        what: how an error names the object.

    Raises:
        InvalidObjectError: the bytes are no JSON object, or hold a number out of range.
    """
    try:
        return _decode_object(raw)
    except DECODE_FAILURES as error:
        words = complaint_of(error) if isinstance(error, RecursionError) else error
        raise InvalidObjectError(what, f"cannot be decoded: {words}") from error
