r"""Split the body of a watch into lines.

Lines end with `\n` only. A line is passed on as a buffer and two offsets, so a line that arrives as
one chunk, the common case, is not copied. The bytes after the last line end stay here. At the end
of the body they are the last line if they are one whole object, since encoders of other languages
put line ends between values; else they are a line that was cut off, and are dropped. Of a line over
the limit only the metadata of its object is kept, so one huge object costs neither the memory nor
the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

import msgspec

from pyinformer.errors import line_too_long
from pyinformer.objects import MetadataReader, fields_of

OnLine = Callable[[bytes | bytearray, int, int], None]
"""Called with a line: a buffer, the offset of the line's first byte, and that of its line end.

The buffer is shared with the lines around it, and may be reused after the call: copy the bytes to
keep them.
"""

OnOversized = Callable[[bytes, int], None]
"""Called for an oversized object: JSON of its kind and metadata, and the object's size in bytes.

Both are found wherever they are in the object. A metadata field that is too long is null; the JSON
is empty if the oversized text is not one object.
"""

MAX_LINE_BYTES: Final = 64 << 20
"""The default limit; etcd limits a request to 1.5 MiB by default."""

_READ_AHEAD_BYTES: Final = 256 << 10
"""The length from which the metadata of a line is read as it arrives: reading 64 MiB at once would
block the event loop for seconds."""


@final
class LineSplitter:
    """Splits the body of a watch into lines.

    `feed` raises what `on_line` raises; the later lines of the chunk are lost then, so the caller
    must close the connection.

    Args:
        on_line: called for each line that is not empty, in order, from within `feed`.
        max_line_bytes: how long a line may be, without its line end.
        what: the request, for errors: `watch pods.v1`.
        on_oversized: called instead of `on_line` for a line over the limit, once it has ended; the
            next line follows. With None such a line is an error.
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
        self._pending = bytearray()  # the unfinished line; its first byte while it is skipped
        self._reader: MetadataReader | None = None  # of a line that is skipped, or may be
        self._skipped = 0  # how many of its bytes were read
        self._skips = False  # the unfinished line is over the limit

    @property
    def pending_bytes(self) -> int:
        """How many bytes of an unfinished line are in memory."""
        return len(self._pending) + (0 if self._reader is None else self._reader.held_bytes)

    @property
    def unfinished_bytes(self) -> int:
        """How many bytes of an unfinished line have arrived, in memory or not."""
        return self._skipped if self._skips else len(self._pending)

    def redirect(self, on_line: OnLine, on_oversized: OnOversized | None = None) -> None:
        """Pass later lines to other callbacks; an unfinished line is kept."""
        self._on_line = on_line
        self._on_oversized = on_oversized

    def feed(self, chunk: bytes) -> None:
        """Process the next bytes of the body, and pass on the lines that they complete.

        Raises:
            ProtocolError: a line is over the limit, and there is no `on_oversized`.
        """
        self.feed_part(chunk, 0, len(chunk))

    def feed_part(self, data: bytes | bytearray, start: int, stop: int) -> None:
        """Process the next bytes of the body, `data[start:stop]`, without keeping `data`.

        Raises:
            ProtocolError: as `feed`.
        """
        if not self._pending:
            end = data.find(b"\n", start, stop)
            if start < end == stop - 1 <= start + self._max_line_bytes:
                self._on_line(data, start, end)
                return
        self._split(bytes(memoryview(data)[start:stop]))

    def finish(self) -> int:
        """Process the end of a body that is complete; its last line may lack the line end.

        Returns:
            How many bytes of a line that was cut off are left; 0 if the body ended between lines.

        Source:
            apimachinery pkg/util/framer, which reads JSON values, whatever is between them.
        """
        if not self._pending or self._pending.isspace():
            return 0
        if not self._is_whole():
            return self.unfinished_bytes
        self._end_line()
        return 0

    def _is_whole(self) -> bool:
        """Return whether the unfinished line is one whole object."""
        if self._skips:
            return self._reader is not None and self._reader.head() != b""
        try:
            fields_of(bytes(self._pending))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return True

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
        self._end_line()

    def _end_line(self) -> None:
        line = bytes(self._pending)
        self._pending = bytearray()  # release the memory of a long line
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
        """Read the metadata in the next bytes of an oversized line."""
        if self._on_oversized is None:
            raise line_too_long(f"a line of {self._what}", limit_bytes=self._max_line_bytes)
        if self._reader is None:
            self._reader, self._skipped = MetadataReader(is_event=True), 0
        self._reader.feed(part)
        self._skipped += len(part)

    def _end_skipped(self) -> None:
        reader, self._reader, self._skips = self._reader, None, False
        if self._on_oversized is not None and reader is not None:
            self._on_oversized(reader.head(), self._skipped)
