"""Read the lines of a watch: the type of the event, and the offsets of its object.

API servers write `{"type":"ADDED","object":{...}}` without white space, so the first bytes give the
type and two offsets the object, without a copy or a decode. That the rest of the line is exactly
one object is proven when the object is decoded; if that fails, or the line looks different, the
JSON decoder takes the line apart.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias, final

import msgspec
from msgspec import Raw, Struct

from pyinformer.client.transport._status import status_error_from_object
from pyinformer.errors import APIStatusError, InvalidObjectError, ProtocolError
from pyinformer.objects import (
    decode_object,
    decoder_of,
    fields_of,
    without_lone_surrogates,
)

Frame: TypeAlias = tuple[str, bytes | bytearray, int, int]
"""The event's type, a buffer, and the offsets of the object in it."""

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"

MODIFIED_PREFIX: Final = b'{"type":"MODIFIED","object":'
"""The start of nearly every line of a busy watch."""

_TYPE_BYTES = 19  # enough of a line to distinguish the common types
_PREFIXES: Final = {
    prefix[:_TYPE_BYTES]: (kind, prefix)
    for kind in (ADDED, MODIFIED, DELETED)  # the objects of the others are not decoded later
    for prefix in (b'{"type":"%s","object":' % kind.encode(),)
}
_frame_head = re.compile(
    rb'[ \t\r]*+\{[ \t\r]*+"type"[ \t\r]*+:[ \t\r]*+"([A-Z]++)"[ \t\r]*+,'
    rb'[ \t\r]*+"object"[ \t\r]*+:[ \t\r]*+(?=\{)'
).match
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_CLOSING_BRACE = b"}"[0]


class _Envelope(Struct, frozen=True):
    type: str | None = None
    object: Raw = Raw(b"")
    kind: str | None = None


class _BookmarkMeta(Struct, frozen=True, rename="camel"):
    resource_version: str | None = None
    annotations: dict[str, str | None] | None = None


class _BookmarkObject(Struct, frozen=True):
    metadata: _BookmarkMeta | None = None


@final
class Bookmark(Struct, frozen=True, gc=False):
    """A BOOKMARK event: all events up to a resource version have been sent."""

    resource_version: str
    ends_initial_events: bool


_decode_envelope = decoder_of(_Envelope, skims=True)
_decode_text = decoder_of(str, skims=True)
_NO_TEXT = Raw(b'""')
_decode_bookmark = decoder_of(_BookmarkObject, skims=True)


def read_frame(data: bytes | bytearray, start: int, end: int) -> Frame:
    """Return the frame of a line, `data[start:end]` without its line end, by its first bytes.

    Raises:
        ProtocolError: the line is not an event.
    """
    found = _PREFIXES.get(bytes(data[start : start + _TYPE_BYTES]))
    if found is not None and data[end - 1] == _CLOSING_BRACE:
        kind, prefix = found
        if data.startswith(prefix, start):
            return kind, data, start + len(prefix), end - 1
    return read_frame_slowly(data, start, end)


def read_frame_slowly(data: bytes | bytearray, start: int, end: int) -> Frame:
    """Return the frame of a line of any shape, by decoding it.

    A line that is a Status counts as an ERROR event: some proxies send it with HTTP status 200.

    Raises:
        ProtocolError: the line is not an event.
    """
    line = without_lone_surrogates(bytes(memoryview(data)[start:end]))
    try:
        envelope = _envelope_of(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("watch", f"a line is not an event: {error}") from error
    if envelope.kind == "Status" and not envelope.type:
        return ERROR, line, 0, len(line)
    body = bytes(envelope.object)
    if envelope.kind and not envelope.type:
        reason = f"the server sent a {envelope.kind[:100]} in place of an event"
        raise ProtocolError("watch", reason)
    if not envelope.type or not body.startswith(b"{"):
        raise ProtocolError("watch", "a line has no type or no object")
    return envelope.type, body, 0, len(body)


def _envelope_of(line: bytes) -> _Envelope:
    try:
        return _decode_envelope(line)
    except RecursionError:  # its object is nested too deeply
        fields = fields_of(line)
        kind, body = fields.get("type", _NO_TEXT), fields.get("object", Raw(b""))
        return _Envelope(type=_decode_text(kind), object=body)


def read_frame_head(head: bytes) -> tuple[str, int]:
    """Return the type of an oversized line, of which `LineSplitter` passes on only the head.

    Returns:
        The event's type, and the offset of its object, which ends before the last byte.

    Raises:
        ProtocolError: the line is not an event.
    """
    found = _frame_head(head)
    if found is None:
        raise ProtocolError("watch", "a line is too long, and not an event")
    return found.group(1).decode(), found.end()


def read_bookmark(data: bytes | bytearray, start: int, end: int) -> Bookmark:
    """Decode the object of a BOOKMARK event.

    Raises:
        ProtocolError: the object is not a bookmark.
    """
    try:
        meta = _decode_bookmark(data[start:end]).metadata or _BookmarkMeta()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("watch", f"a bookmark cannot be read: {error}") from error
    version = meta.resource_version or ""
    annotations = meta.annotations or {}
    return Bookmark(version, annotations.get(_INITIAL_EVENTS_END) == "true")


def read_error(data: bytes | bytearray, start: int, end: int, *, request: str) -> APIStatusError:
    """Return the error for the object of an ERROR event.

    Raises:
        ProtocolError: the object cannot be decoded.
    """
    try:
        status = decode_object(bytes(memoryview(data)[start:end]), "an ERROR event")
    except InvalidObjectError as error:
        raise ProtocolError(request, f"an ERROR event cannot be read: {error}") from error
    return status_error_from_object(status, request=request)
