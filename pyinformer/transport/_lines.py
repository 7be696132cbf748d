r"""Chunks of a watch's body in, whole lines out.

Lines end with `\n` and nothing else ends them. What comes out is a buffer and two offsets, so that
a line that arrived as one chunk, the common case by far, is never copied. A line that is spread
over chunks is put together once. The rest after the last line end stays here: at the end of the
body it is a line that was cut off, and nobody ever sees it. Of a line beyond the limit only the
metadata of its object is held, so that one huge object costs neither the memory nor the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from pyinformer.apimachinery import LineTooLongError
from pyinformer.apimachinery._fields import MetadataReader

OnLine = Callable[[bytes | bytearray, int, int], None]
"""Takes a line: a buffer, and the offsets of the line's first byte and of its line end.

The buffer is shared with the lines around it, and may be used again when the call is over: whoever
keeps the line copies the part it needs.
"""

OnOversized = Callable[[bytes, int], None]
"""Takes what is too long: JSON of its kind and its metadata, and the size of the whole in bytes.

Wherever they stand in it they are found. A field of metadata that is too long is null, and the JSON
is empty if what is too long is not one object.
"""

MAX_LINE_BYTES: Final = 64 << 20
"""A request to etcd is capped at 1.5 MiB by default; nothing honest comes near this limit."""

_READ_AHEAD_BYTES: Final = 256 << 10
"""From here on the metadata of a line is read as it arrives: to read 64 MiB at once takes seconds,
and the event loop stands still for so long."""


@final
class LineSplitter:
    """Split a watch's body into lines.

    An error raised by `on_line` leaves through `feed`; the lines behind it in the same chunk are
    lost, so the caller gives up the connection then.

    Args:
        on_line: called for each line that is not empty, in order, from within `feed`.
        max_line_bytes: how long a line may be, without its line end.
        what: what is split, for errors: `watch pods.v1`.
        on_oversized: called in place of `on_line` for a line over the limit, once it has ended; the
            lines behind it are handed on. With None such a line is an error.
    """

    __slots__ = (
        "_max_line_bytes",
        "_on_line",
        "_on_oversized",
        "_pending",
        "_reader",
        "_skipped",
        "_skips",
        "_what",
    )

    def __init__(
        self,
        on_line: OnLine,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        what: str = "watch",
        on_oversized: OnOversized | None = None,
    ) -> None:
        self._on_line = on_line
        self._on_oversized = on_oversized
        self._max_line_bytes = max_line_bytes
        self._what = what
        self._pending = bytearray()  # while a line is skipped, its first byte
        self._reader: MetadataReader | None = None  # of a line that is skipped, or may be
        self._skipped = 0  # bytes of it that were read
        self._skips = False  # a line is over the limit and has not ended

    @property
    def pending_bytes(self) -> int:
        """How many bytes of an unfinished line are held."""
        return len(self._pending) + (0 if self._reader is None else self._reader.held_bytes)

    @property
    def unfinished_bytes(self) -> int:
        """How many bytes of an unfinished line have arrived, whether they are held or not."""
        return self._skipped if self._skips else len(self._pending)

    def redirect(self, on_line: OnLine, on_oversized: OnOversized | None = None) -> None:
        """Hand later lines to somebody else; what is held of an unfinished line is kept."""
        self._on_line = on_line
        self._on_oversized = on_oversized

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the body, whatever their size, and hand on the lines they end.

        Raises:
            LineTooLongError: a line, finished or not, is over the limit, and nobody takes it.
        """
        self.feed_part(chunk, 0, len(chunk))

    def feed_part(self, data: bytes | bytearray, start: int, stop: int) -> None:
        """Take the next bytes of the body, `data[start:stop]`; nothing of `data` is kept.

        Raises:
            LineTooLongError: as `feed`.
        """
        if not self._pending:
            end = data.find(b"\n", start, stop)
            if start < end == stop - 1 <= start + self._max_line_bytes:
                self._on_line(data, start, end)
                return
        self._split(bytes(memoryview(data)[start:stop]))

    def _split(self, chunk: bytes) -> None:
        start = 0
        end = chunk.find(b"\n")
        if self._pending and end >= 0:
            self._finish_pending(chunk[:end])
            start, end = end + 1, chunk.find(b"\n", end + 1)
        on_line, limit = self._on_line, self._max_line_bytes
        while end >= 0:
            if 0 < end - start <= limit:
                on_line(chunk, start, end)
            elif end - start > limit:
                self._skip(chunk[start:end])
                self._end_skipped()
            start, end = end + 1, chunk.find(b"\n", end + 1)
        if start < len(chunk):
            self._hold(memoryview(chunk)[start:])

    def _finish_pending(self, rest: bytes) -> None:
        self._hold(rest)
        line = bytes(self._pending)
        self._pending = bytearray()  # one long line must not keep its memory for ever
        if self._skips:
            self._end_skipped()
        else:
            self._reader = None
            self._on_line(line, 0, len(line))

    def _hold(self, part: bytes | memoryview) -> None:
        if self._skips:
            self._skip(bytes(part))
            return
        self._pending += part
        size, limit = len(self._pending), self._max_line_bytes
        if size > min(limit, _READ_AHEAD_BYTES) and (self._on_oversized or size > limit):
            read = 0 if self._reader is None else self._skipped
            self._skip(bytes(memoryview(self._pending)[read:]))
        if size > limit:
            self._skips = True
            self._pending = self._pending[:1]

    def _skip(self, part: bytes) -> None:
        """Read the next bytes of a line that is too long, or the first of it."""
        if self._on_oversized is None:
            raise LineTooLongError(f"a line of {self._what}", limit_bytes=self._max_line_bytes)
        if self._reader is None:
            self._reader, self._skipped = MetadataReader(is_event=True), 0
        self._reader.feed(part)
        self._skipped += len(part)

    def _end_skipped(self) -> None:
        reader, self._reader, self._skips = self._reader, None, False
        if self._on_oversized is not None and reader is not None:
            self._on_oversized(reader.head(), self._skipped)
