"""Split the body of a list into its items while it arrives; the whole body is never in memory.

Each part is proven by decoding. The head is right if it becomes a JSON object once the array and
the object are closed after it. A piece between two candidate borders is an item if it is one
complete JSON value, since no proper prefix of an object is one. The tail is right if it completes
an object.

A candidate border is the bytes between the first two items, found by a plain search. Where the
search misleads, an incremental scanner finds the end of the item, so every input costs a bounded
number of passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias, final

import msgspec
from msgspec import Raw, Struct

from pyinformer.client.transport._line_splitter import MAX_LINE_BYTES, OnOversized
from pyinformer.client.transport.list_parser._envelope import (
    MAX_ENDS_BYTES,
    Envelope,
    HeadReader,
    ListMetadata,
    check_kind,
    decode_envelope,
    list_metadata,
)
from pyinformer.client.transport.list_parser._scanner import ObjectScanner
from pyinformer.errors import InvalidObjectError, ProtocolError, line_too_long
from pyinformer.objects import (
    MetadataReader,
    complaint_of,
    decoder_of,
    fields_of,
    without_lone_surrogates,
)

OnItem = Callable[[bytes, int, int], None]
"""Called with an item: a buffer, the offset of its first byte, and that behind its last byte.

The buffer is shared with other items: copy the bytes to keep them.
"""

OnInvalidItem = Callable[[bytes, int, int, Exception], None]
"""Called with a JSON item that `on_item` could not read, and the error that `on_item` raised."""

_UNREADABLE = (msgspec.DecodeError, InvalidObjectError, RecursionError, UnicodeDecodeError)
_MAX_WRONG_BORDERS = 8  # false borders inside one item before it is scanned
_PREFIX_BYTES = 1 << 10  # of the first item: the others begin alike
_ITEMS_PER_STEP = 64  # of `steps`: 2 ms if every item fails, much less otherwise
_NULL: Final = b"null"
_OF_NULL: Final = b"{}"
_SCAN_AFTER_BYTES = 1 << 20  # without a border: scan, the borders may have changed

_Step: TypeAlias = Callable[[bytes, int], tuple[bytes, int]]

# The patterns are possessive: no byte is read twice, whatever the input.
_WS: Final = rb"[ \t\r\n]*+"
_skip_gap = re.compile(rb"[ \t\r\n,]*+").match
_item_prefix = re.compile(
    rb"\{" + _WS + rb'(?:"(?:apiVersion|kind)"' + _WS + rb":" + _WS + rb'"[^"\\]*+"'
    rb"" + _WS + rb"," + _WS + rb')*+"[^"\\]++"' + _WS + rb":" + _WS + rb"\{?+"
).match


class _Nothing(Struct, frozen=True, gc=False):
    pass


_decode_items = decoder_of(list[Raw], skims=True)
_skip_object = decoder_of(_Nothing, skims=True)


@final
class ListSplitter:
    """Split a list's body into its items while it arrives.

    Args:
        on_item: called for each item as soon as it is complete, from within `feed` or `finish`.
        what: the request, for errors: `list pods.v1`.
        verify: prove each item's borders by a separate decode. With False, `on_item` must decode
            the whole piece as one JSON value, and raise msgspec's DecodeError, InvalidObjectError
            or RecursionError before it changes anything if that fails: its own decode is then the
            proof, and a piece that is not an item is offered again with another end.
        on_invalid: called for an item that is valid JSON (or nested too deeply to check) and that
            `on_item` could not read; the next item follows. With None the error is raised.
        max_item_bytes: how long an item may be.
        on_oversized: called instead of `on_item` for an item over the limit, of which only the
            metadata is kept; the next item follows. With None such an item is an error.
    """

    def __init__(
        self,
        on_item: OnItem,
        *,
        what: str = "list",
        verify: bool = True,
        on_invalid: OnInvalidItem | None = None,
        max_item_bytes: int = MAX_LINE_BYTES,
        on_oversized: OnOversized | None = None,
    ) -> None:
        self._on_item = on_item
        self._on_oversized = on_oversized
        self._what = what
        self._verify = verify
        self._on_invalid = on_invalid
        self._max_item_bytes = max_item_bytes
        self._step: _Step = self._read_head
        self._head = HeadReader(what)
        self._skeleton = Envelope()  # the head's fields
        self._gap = bytearray()  # between two items
        self._pending = bytearray()  # the start of an item, from earlier chunks
        self._reader: MetadataReader | None = None  # of an oversized item
        self._skipped = 0  # how many of its bytes were read
        self._scanner = ObjectScanner()
        self._border = b""  # from the `}` of an item into the next item; empty until known
        self._wrong_borders = 0
        self._after_wrong_borders = False
        self._tail = bytearray()
        self._item_count = 0

    @property
    def kind(self) -> str:
        """The list's kind, such as `PodList`; empty until it has arrived."""
        return self._skeleton.kind or ""

    @property
    def api_version(self) -> str:
        """The list's apiVersion; empty until it has arrived."""
        return self._skeleton.api_version or ""

    @property
    def item_count(self) -> int:
        """How many items were found."""
        return self._item_count

    @property
    def pending_bytes(self) -> int:
        """How many bytes of incomplete parts are in memory."""
        read = 0 if self._reader is None else self._reader.held_bytes
        return read + len(self._pending) + len(self._gap) + len(self._tail)

    def feed(self, chunk: bytes) -> None:
        """Process the next bytes of the body, and pass on the items that they complete.

        Raises:
            ProtocolError: the body is not a list.
            ProtocolError: an item is over the limit.
            InvalidObjectError: `on_item` cannot read an item, and there is no `on_invalid`.
        """
        for _ in self.steps(chunk):
            pass

    def steps(self, chunk: bytes) -> Iterator[None]:
        """Process the next bytes of the body as `feed` does, and yield after at most 64 items.

        The caller must exhaust the iterator before it feeds more bytes.

        Raises:
            ProtocolError: as `feed`.
            ProtocolError: as `feed`.
            InvalidObjectError: as `feed`.
        """
        data, position = chunk, 0
        while position < len(data):
            data, position = self._step(data, position)
            yield

    def finish(self) -> ListMetadata:
        """Process the end of the body.

        Returns:
            The metadata of the list.

        Raises:
            ProtocolError: the body was cut off, or is not a list.
            InvalidObjectError: `on_item` cannot read an item, and there is no `on_invalid`.
        """
        if self._step == self._read_head:
            return self._metadata(self._read_small_body())
        if self._step == self._cut_item and self._pending:
            self._border = b""  # only few are left: scan them all
            self.feed(self._start_scan(b"", 0)[0])
        if self._step != self._read_tail:
            raise self._error(f"the body ends early, in or after item {self._item_count}")
        envelope = self._decode(b'{"":[' + self._tail)
        if envelope.items:
            raise self._error("items must not occur twice")
        return self._metadata(envelope)

    def _read_head(self, data: bytes, position: int) -> tuple[bytes, int]:
        rest = self._head.feed(data, position)
        if rest < 0:
            return data, len(data)
        self._skeleton = self._head.envelope
        self._step = self._read_gap
        return data, rest

    def _read_small_body(self) -> Envelope:
        """Read a whole body in which no items were found: they are null, escaped or missing."""
        envelope = self._decode(self._head.text)
        check_kind(envelope, self._what)
        if not envelope.items:
            raise self._error("items are missing")
        if bytes(envelope.items) == _NULL:
            return envelope
        try:
            items = _decode_items(envelope.items)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._error("items must be an array") from error
        for item in items:
            found = bytes(item)
            found = _OF_NULL if found == _NULL else found
            self._deliver_certain(found, 0, len(found))
        return envelope

    def _read_gap(self, data: bytes, position: int) -> tuple[bytes, int]:
        match = _skip_gap(data, position)
        end = position if match is None else match.end()
        self._gap += memoryview(data)[position:end]
        if len(self._gap) > MAX_ENDS_BYTES:
            raise self._error("too much white space between items")
        if end == len(data):
            return data, end
        commas = self._gap.count(b",")
        begins = data[end : end + 1]
        if begins == b"]" and commas == 0:
            self._step = self._read_tail
        elif begins == b"{" and commas == (self._item_count > 0):
            self._enter_item(bytes(self._gap), data[end:])
        elif begins == b"n" and commas == (self._item_count > 0):
            self._step = self._read_null
        else:
            raise self._error(f"item {self._item_count} must be followed by an object or the end")
        self._gap.clear()
        return data, end

    def _read_null(self, data: bytes, position: int) -> tuple[bytes, int]:
        """Read an item that is null, and pass on an object without fields, as Go's decoders do."""
        end = position + len(_NULL) - len(self._pending)
        self._pending += memoryview(data)[position:end]
        if not _NULL.startswith(self._pending):
            raise self._error(f"item {self._item_count} must be followed by an object or the end")
        if len(self._pending) == len(_NULL):
            self._pending = bytearray()
            self._deliver_certain(_OF_NULL, 0, len(_OF_NULL))
            self._step = self._read_gap
        return data, min(end, len(data))

    def _enter_item(self, gap: bytes, rest: bytes) -> None:
        if self._item_count == 1:
            self._border = b"}" + gap + self._border
        elif self._after_wrong_borders:
            self._after_wrong_borders = False
            self._shorten_border(b"}" + gap + rest[: len(self._border)])
        scan = self._item_count == 0 or not self._border
        self._scanner.reset()
        self._wrong_borders = 0
        self._step = self._scan_item if scan else self._cut_item

    def _shorten_border(self, seen: bytes) -> None:
        """Keep the common prefix of two borders; empty if it is too short to search for."""
        common = _common_prefix_length(self._border, seen)
        if common < min(len(self._border), len(seen)):
            border = self._border[:common]
            self._border = border if b"{" in border else b""

    def _cut_item(self, data: bytes, position: int) -> tuple[bytes, int]:
        """Cut at the next candidate border; the new bytes are `data[position:]`."""
        border = self._border
        search_from = position
        if self._pending:
            held = len(self._pending)
            seam = bytes(self._pending[1 - len(border) :]) + data[position : position + len(border)]
            if border not in seam and data.find(border, position) < 0:
                return self._hold(data, position)
            self._pending += memoryview(data)[position:]
            data, position = bytes(self._pending), 0
            self._pending = bytearray()
            search_from = max(0, held - len(border) + 1)
        left = _ITEMS_PER_STEP
        while (found := data.find(border, search_from)) >= 0:
            if self._offer(data, position, found + 1):
                position = search_from = found + border.index(b"{")
                self._wrong_borders = 0
                left -= 1
                if not left:
                    return data, position
                continue
            search_from = found + 1
            self._wrong_borders += 1
            if self._wrong_borders == _MAX_WRONG_BORDERS:
                return self._start_scan(data, position)
        return self._hold(data, position)

    def _hold(self, data: bytes, position: int) -> tuple[bytes, int]:
        self._pending += memoryview(data)[position:]
        size, limit = len(self._pending), self._max_item_bytes
        if self._step == self._cut_item and size > min(_SCAN_AFTER_BYTES, limit):
            return self._start_scan(b"", 0)
        reads_ahead = self._step == self._scan_item and self._on_oversized is not None
        if size > limit or (reads_ahead and size > _SCAN_AFTER_BYTES):
            read = 0 if self._reader is None else self._skipped
            self._read_oversized(bytes(memoryview(self._pending)[read:]))
        if size > limit:
            self._pending = bytearray()
            self._step = self._skip_item
        return data, len(data)

    def _skip_item(self, data: bytes, position: int) -> tuple[bytes, int]:
        """Scan further in an oversized item, of which only the metadata is kept."""
        end = self._scanner.feed(data, position)
        behind = len(data) if end < 0 else end
        self._read_oversized(data[position:behind])
        if end >= 0:
            self._step = self._read_gap
            self._deliver_oversized()
        return data, behind

    def _read_oversized(self, part: bytes) -> None:
        """Read the metadata in the next bytes of an oversized item."""
        if self._on_oversized is None:
            raise line_too_long(f"an item of {self._what}", limit_bytes=self._max_item_bytes)
        if self._reader is None:
            self._reader, self._skipped = MetadataReader(), 0
            if self._item_count == 0:
                self._learn(part[:_PREFIX_BYTES])
        self._reader.feed(part)
        self._skipped += len(part)

    def _start_scan(self, data: bytes, position: int) -> tuple[bytes, int]:
        """Begin to scan at the item's start, in the pending bytes if there are any."""
        self._scanner.reset()
        self._after_wrong_borders = True
        self._step = self._scan_item
        if not self._pending:
            return data, position
        item = bytes(self._pending) + data[position:]
        self._pending = bytearray()
        return item, 0

    def _scan_item(self, data: bytes, position: int) -> tuple[bytes, int]:
        end = self._scanner.feed(data, position)
        if end < 0:
            return self._hold(data, position)
        if self._pending:
            self._pending += memoryview(data)[position:end]
            item = bytes(self._pending)
            self._pending = bytearray()
            self._deliver_certain(item, 0, len(item))
        else:
            self._deliver_certain(data, position, end)
        self._step = self._read_gap
        return data, end

    def _offer(self, buffer: bytes, start: int, end: int) -> bool:
        """Pass on a piece if it is an item; return whether it was one."""
        is_oversized = end - start > self._max_item_bytes
        if (self._verify or is_oversized) and not _is_object(buffer, start, end):
            return False
        if is_oversized:
            self._read_oversized(buffer[start:end])
            self._deliver_oversized()
            return True
        try:
            self._on_item(buffer, start, end)
        except _UNREADABLE as error:
            if not _is_object(buffer, start, end):
                return False
            self._reject(buffer, start, end, error)
        self._item_count += 1
        return True

    def _deliver_certain(self, buffer: bytes, start: int, end: int) -> None:
        """Pass on an item whose end the scanner has found."""
        if end - start > self._max_item_bytes:
            read = 0 if self._reader is None else self._skipped
            self._read_oversized(buffer[start + read : end])
            self._deliver_oversized()
            return
        self._reader = None
        if self._item_count == 0:
            self._learn(buffer[start:end])
        try:
            if self._verify:
                self._prove(buffer, start, end)
            self._on_item(buffer, start, end)
        except _UNREADABLE as error:
            self._prove(buffer, start, end)
            self._reject(buffer, start, end, error)
        self._item_count += 1

    def _deliver_oversized(self) -> None:
        reader, self._reader = self._reader, None
        if self._on_oversized is not None and reader is not None:
            self._on_oversized(reader.head(), self._skipped)
        self._item_count += 1

    def _prove(self, buffer: bytes, start: int, end: int) -> None:
        try:
            _skip_object(without_lone_surrogates(buffer[start:end]))
        except RecursionError:
            return  # too deep to check; reading the item finds out
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._error(
                f"item {self._item_count + 1} is not a JSON object: {error}"
            ) from error

    def _learn(self, item: bytes) -> None:
        """Use the start of the first item as the end of the border; the first gap completes it."""
        match = _item_prefix(item)
        self._border = b"{" if match is None else match.group()

    def _reject(self, buffer: bytes, start: int, end: int, error: Exception) -> None:
        if self._on_invalid is not None:
            self._on_invalid(buffer, start, end, error)
            return
        what = f"item {self._item_count + 1} of {self._what}"
        raise InvalidObjectError(what, f"cannot be read: {error}") from error

    def _read_tail(self, data: bytes, position: int) -> tuple[bytes, int]:
        self._tail += memoryview(data)[position:]
        if len(self._tail) > MAX_ENDS_BYTES:
            raise self._error(f"more than {MAX_ENDS_BYTES} bytes after the items")
        return data, len(data)

    def _metadata(self, envelope: Envelope) -> ListMetadata:
        metadata = list_metadata(self._skeleton, envelope, self._what)
        self._skeleton = Envelope(kind=metadata.kind, api_version=metadata.api_version)
        return metadata

    def _decode(self, body: bytes) -> Envelope:
        try:
            return decode_envelope(body)
        except msgspec.ValidationError as error:
            raise self._error(complaint_of(error)) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._error(f"the body is cut off, or not a list: {error}") from error

    def _error(self, reason: str) -> ProtocolError:
        return ProtocolError(self._what, reason)


def _is_object(buffer: bytes, start: int, end: int) -> bool:
    """Return whether `buffer[start:end]` is one complete JSON object, however deep."""
    try:
        try:
            _skip_object(without_lone_surrogates(buffer[start:end]))
        except RecursionError:
            fields_of(buffer[start:end])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _common_prefix_length(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix of two byte strings."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
