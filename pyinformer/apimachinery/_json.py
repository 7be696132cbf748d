"""JSON as this library meets it: the value types, and decoding that names what it could not read.

The bytes that enter were checked when they arrived, except for two things that a skipping decoder
cannot see: numbers out of range, and text that is no UTF-8. Both become one typed error here.
"""

from __future__ import annotations

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
        raise InvalidObjectError(what, f"cannot be decoded: {error}") from error
