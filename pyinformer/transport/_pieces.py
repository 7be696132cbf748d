"""What a piece of a list is, told by its bytes: a gap, the start of an item, or a whole one.

What enters is a slice; what leaves is a match or a yes. Nothing is kept. The patterns are
possessive: no byte is looked at twice, whatever the input.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Raw, Struct

from pyinformer.apimachinery._fields import fields_of

skip_gap = re.compile(rb"[ \t\r\n,]*+").match
_WS: Final = rb"[ \t\r\n]*+"
item_prefix = re.compile(
    rb"\{" + _WS + rb'(?:"(?:apiVersion|kind)"' + _WS + rb":" + _WS + rb'"[^"\\]*+"'
    rb"" + _WS + rb"," + _WS + rb')*+"[^"\\]++"' + _WS + rb":" + _WS + rb"\{?+"
).match


class _Nothing(Struct, frozen=True, gc=False):
    pass


decode_items = msgspec.json.Decoder(list[Raw]).decode
skip_object = msgspec.json.Decoder(_Nothing).decode


def is_object(buffer: bytes, start: int, end: int) -> bool:
    """Tell whether the piece is one complete JSON object, however deep."""
    try:
        try:
            skip_object(memoryview(buffer)[start:end])
        except RecursionError:
            fields_of(buffer[start:end])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def common_prefix_length(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
