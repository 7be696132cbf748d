"""Writes a recording to files, in a thread: the event loop only puts what arrived into a buffer.

The buffer and the files are bounded. What does not fit is dropped and counted, and the recording
says where. A file that cannot be written ends the recording, never the informer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import msgspec

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import error_text
from pyinformer.cache.recording._files import RecordingFiles, file_error
from pyinformer.cache.recording._line_buffer import LINE_FIELD, LineBuffer
from pyinformer.client.transport import LineSplitter, ListSplitter
from pyinformer.errors import ProtocolError, RecordingFileError

if TYPE_CHECKING:
    from pyinformer.cache.recording._secret_mask import Mask

_log = get_logger(__name__)

_MOST_WAITING_BYTES: Final = 32 << 20
_BATCH_SECONDS: Final = 0.05  # a thread that woke for each line would cost as much as the line
_FLUSH_BYTES: Final = 64 << 10  # of lines that are collected before they are written
_MARGIN_BYTES: Final = 64  # what is written around a line
_BUFFER_BYTES: Final = 1 << 20  # of lines: larger ones fall out of the processor's cache
_MOST_SPARE: Final = 4  # buffers that are kept to be used again
_ROTATE_AT: Final = 0.75  # of a file: what arrives until the loop has taken a snapshot fits behind
_encode = msgspec.json.Encoder().encode


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingStatistics:
    """What a recording has written so far."""

    path: Path
    written_bytes: int
    """In all files, those that were rotated away included."""
    lines: int
    """Lines of watches and items of lists."""
    dropped_bytes: int
    """What arrived faster than it could be written, or did not fit."""
    gaps: int
    files: int
    """How many files were begun; two exist at most."""
    error: str
    """Why nothing is written any more; empty while all is well."""


@final
@dataclass(frozen=True, slots=True)
class Opened:
    """A request begins."""

    entry: dict[str, object]
    shape: str
    """How its body is split: `watch`, `list` or `body`."""


@final
@dataclass(frozen=True, slots=True)
class Ended:
    """A response ended."""

    entry: dict[str, object]
    is_complete: bool
    """Whether its body was put whole, so that a list or another body is written now."""


@final
@dataclass(frozen=True, slots=True)
class Contents:
    """A snapshot of a cache as a list: its items, and `around`, which is the list without them."""

    items: Iterable[bytes]
    around: dict[str, object]


@final
@dataclass(frozen=True, slots=True)
class NextFile:
    """A new file begins here."""

    header: bytes


@final
@dataclass(frozen=True, slots=True)
class Note:
    """Any other line of the file, such as a gap or the end of the recording."""

    entry: dict[str, object]


Step = bytes | LineBuffer | Opened | Ended | Contents | NextFile | Note


@final
class RecordingWriter:
    """Writes the steps of a recording to its files. Called on the event loop, if not stated.

    Args:
        path: the newest file; the one before has `.1` before its suffix.
        mask: hides secrets.
        max_bytes: how much both files may have together.
    """

    def __init__(self, path: Path, mask: Mask, *, max_bytes: int) -> None:
        self._files = RecordingFiles(path, max_bytes=max_bytes)  # belongs to the thread
        self._mask = mask
        self._rotate_bytes = self._files.max_file_bytes * _ROTATE_AT
        self._steps: deque[tuple[float, int, Step]] = deque()
        self._buffer_bytes = min(_BUFFER_BYTES, self._files.max_file_bytes // 8)
        self._spare: deque[LineBuffer] = deque()
        self._buffer = LineBuffer(self._buffer_bytes)  # belongs to the loop until it is put
        self._put_bytes = self._taken_bytes = 0  # the first belongs to the loop, the second not
        self._has_gap = False
        self._is_closed = False
        self._is_awake = False
        self._wake = threading.Event()
        self._due = threading.Event()  # much waits, or nothing will follow
        self._thread: threading.Thread | None = None
        self._report_full: Callable[[], object] = _nothing
        self._report_room: Callable[[], object] = _nothing
        self._ask_for_lines: Callable[[], object] = _nothing
        self._put_file_bytes, self._files_put = 0, 1  # these and the next two belong to the loop
        self._dropped_loop_bytes = 0
        self._is_asked = False
        self._error = ""
        self._bodies: dict[int, _Splitter] = {}

    def create(self, header: bytes) -> None:
        """Create the file; blocks for as long as that takes, and may run in a thread.

        Raises:
            RecordingFileError: it exists, or cannot be created.
        """
        self._files.create(header)

    def start(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        *,
        on_full: Callable[[], None],
        on_room: Callable[[], None],
    ) -> None:
        """Begin to write.

        Args:
            call_soon: calls a function on the event loop.
            on_full: called there when the file is nearly full.
            on_room: called there when a gap can end.
        """
        self._report_full = lambda: call_soon(on_full)
        self._report_room = lambda: call_soon(on_room)
        self._ask_for_lines = lambda: call_soon(self._put_lines)
        self._thread = threading.Thread(target=self._run, name="pyinformer recording", daemon=True)
        self._thread.start()

    def put(self, at: float, number: int, step: Step) -> None:
        """Add a step; it is dropped if too much waits already.

        Args:
            at: seconds since the start of the recording.
            number: the request that it is about; 0 for none.
            step: what happened.
        """
        if type(step) is bytes:
            if not self._admits(len(step)):
                return
        elif self._is_closed:
            return
        elif type(step) is NextFile:
            self._files_put += 1
            self._put_file_bytes, self._is_asked = 0, False
        self._put_lines()
        self._steps.append((at, number, step))
        self._awake()

    def put_line(
        self, at: float, number: int, data: bytes | bytearray, start: int, end: int
    ) -> None:
        """Add a line of a watch, `data[start:end]`; see put."""
        if not self._admits(end - start):
            return
        head = b'{"t":%.6f,"of":%d,"line":' % (at, number)
        if not self._buffer.add(head, data, start, end):
            self._put_buffer(end - start + _MARGIN_BYTES)
            self._due.set()
            self._buffer.add(head, data, start, end)
        self._awake()

    def _admits(self, size: int) -> bool:
        """Count bytes that arrived; return whether there is room for them."""
        waiting = self._put_bytes + size - self._taken_bytes
        if self._has_gap or self._is_closed or waiting > _MOST_WAITING_BYTES:
            self._has_gap = True
            self._dropped_loop_bytes += size
            return False
        self._put_bytes += size
        self._put_file_bytes += size + _MARGIN_BYTES
        if self._put_file_bytes > self._rotate_bytes and not self._is_asked:
            self._is_asked = True
            self._report_full()
        return True

    def _awake(self) -> None:
        if not self._is_awake:
            self._is_awake = True
            self._wake.set()

    def _put_lines(self) -> None:
        if self._buffer.lines:
            self._put_buffer()

    def _buffer_for(self, size: int) -> LineBuffer:
        if size > self._buffer_bytes:
            return LineBuffer(size)
        return self._spare.pop() if self._spare else LineBuffer(self._buffer_bytes)

    def _put_buffer(self, needed_bytes: int = 0) -> None:
        """Give the lines to the thread, and begin a buffer with room for `needed_bytes`."""
        if self._buffer.lines:
            self._steps.append((0.0, 0, self._buffer))
            self._awake()
        self._buffer = self._buffer_for(needed_bytes)

    def end_gap(self) -> None:
        """Keep what arrives from now on, after everything that was dropped."""
        self._has_gap = False

    @property
    def needs_file(self) -> bool:
        """Whether the writer waits for the step that begins the next file."""
        is_late = self._files.has_overflowed and self._files_put == self._files.files
        return self._is_asked or is_late

    @property
    def has_gap(self) -> bool:
        """Whether what arrives is dropped at this moment."""
        return self._has_gap

    def statistics(self) -> RecordingStatistics:
        """Return what was written so far; from any thread."""
        files = self._files
        return RecordingStatistics(
            path=files.path,
            written_bytes=files.written_bytes,
            lines=files.lines,
            dropped_bytes=files.dropped_bytes + self._dropped_loop_bytes,
            gaps=files.gaps,
            files=files.files,
            error=self._error,
        )

    def begin_close(self) -> None:
        """Take no further steps, and end the thread when all of them are written."""
        self._put_lines()
        self._is_closed = True
        self._due.set()
        self._wake.set()
        if self._thread is None:
            self._files.close()

    def join(self, timeout_seconds: float) -> None:
        """Wait for the end of the thread; blocks."""
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    # What follows runs in the thread.

    def _run(self) -> None:
        try:
            while not self._is_closed:
                self._wake.wait()
                self._due.wait(_BATCH_SECONDS)
                self._due.clear()
                self._wake.clear()
                self._is_awake = False
                self._write_waiting()
            self._write_waiting()
        except OSError as error:
            self._fail(file_error(self._files.path, error))
        except Exception as error:  # noqa: BLE001 - without a thread, the status must say why
            reason = f"{error_text(error)}; please report this"
            self._fail(RecordingFileError(str(self._files.path), reason))
        finally:
            self._is_closed = True
            self._steps.clear()
            self._files.close()

    def _fail(self, error: RecordingFileError) -> None:
        self._error = str(error)
        facts = {"path": str(self._files.path), "reason": error.reason}
        _log.error(
            "the recording %(path)s has ended, and the informer continues: %(reason)s",
            facts,
            extra=facts,
        )

    def _write_waiting(self) -> None:
        steps, out = self._steps, _Block()
        while steps:
            at, number, step = steps.popleft()
            if type(step) is bytes:
                self._taken_bytes += len(step)
                body = self._bodies.get(number)
                if body is not None:
                    body.feed(at, step, out)
            elif type(step) is LineBuffer:
                self._write_lines(step, out)
            else:
                self._take(at, number, step, out)
            if out.size > _FLUSH_BYTES:
                self._flush(out)
        self._flush(out)
        if self._has_gap:
            self._report_room()
        if self._buffer.lines:
            self._ask_for_lines()

    def _take(self, at: float, number: int, step: Step, out: _Block) -> None:
        match step:
            case Opened(entry, shape):
                out.entry(at, {"request": number, **entry})
                self._bodies[number] = _Splitter(number, shape, self._mask)
            case Ended():
                self._end(at, number, step, out)
            case Contents():
                self._write_contents(at, number, step, out)
            case NextFile(header):
                self._flush(out)
                self._files.rotate(header)
            case Note(entry):
                self._note(at, entry, out)

    def _write_lines(self, buffer: LineBuffer, out: _Block) -> None:
        self._flush(out)
        suspects = self._mask.suspects(buffer)
        content, clean = buffer.content, 0
        if suspects:
            for start, stop in suspects:
                out.raw(bytes(content[clean:start]))
                self._mask_line(bytes(content[start:stop]), out)
                clean = stop
            out.raw(bytes(content[clean:]), buffer.lines - len(suspects))
            self._flush(out)
        else:
            self._keep(content, buffer.lines)
        self._taken_bytes += buffer.text_bytes
        if buffer.capacity_bytes == self._buffer_bytes and len(self._spare) < _MOST_SPARE:
            buffer.clear()
            self._spare.append(buffer)

    def _mask_line(self, entry: bytes, out: _Block) -> None:
        head, name, rest = entry.partition(LINE_FIELD)
        text = rest[:-2]
        found = self._mask.line(text)
        if found is None:
            out.raw(head + b'"unreadable":%d}\n' % len(text))
        else:
            out.add(head + name, found)

    def _note(self, at: float, entry: dict[str, object], out: _Block) -> None:
        if "stop" in entry:
            self._flush(out)
            dropped_bytes = self._files.dropped_here_bytes
            if dropped_bytes:  # at the very end: no snapshot follows
                self._files.write(_encode({"t": round(at, 6), "gap": dropped_bytes}) + b"\n")
                self._files.write(_encode({"t": round(at, 6), **entry}) + b"\n")
                return
        if "gap" in entry:
            self._files.gaps += 1
        out.entry(at, entry)

    def _end(self, at: float, number: int, step: Ended, out: _Block) -> None:
        body = self._bodies.pop(number, None)
        if body is not None and step.is_complete:
            body.finish(at, out)
        out.entry(at, {"of": number, **self._mask.end(step.entry)})

    def _write_contents(self, at: float, number: int, step: Contents, out: _Block) -> None:
        for item in step.items:
            out.item(at, number, self._mask.item(item, ""))
            if out.size > _FLUSH_BYTES:
                self._flush(out, is_snapshot=True)
        out.entry(at, {"of": number, "list": step.around})
        self._flush(out, is_snapshot=True)

    def _flush(self, out: _Block, *, is_snapshot: bool = False) -> None:
        data, lines = out.take()
        if data:
            self._keep(data, lines, is_snapshot=is_snapshot)

    def _keep(self, data: bytes | memoryview, lines: int, *, is_snapshot: bool = False) -> None:
        self._files.keep(data, lines, is_snapshot=is_snapshot, on_full=self._report_full)


def _nothing() -> None:
    """Do nothing: `start` has not set the callback yet."""


@final
class _Block:
    """Lines of the file that are written together."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._lines = 0
        self.size: int = 0

    def add(self, head: bytes, text: bytes) -> None:
        """Add a line that ends with a text of the server."""
        self._parts += (head, text, b"}\n")
        self.size += len(head) + len(text) + 2
        self._lines += 1

    def raw(self, data: bytes, lines: int = 0) -> None:
        """Add whole lines of the file."""
        self._parts.append(data)
        self.size += len(data)
        self._lines += lines

    def item(self, at: float, number: int, text: bytes | None) -> None:
        """Add an item of a list; None if it cannot be read."""
        if text is None:
            self.entry(at, {"of": number, "unreadable": 0})
        else:
            self.add(b'{"t":%.6f,"of":%d,"item":' % (at, number), text)

    def entry(self, at: float, fields: dict[str, object]) -> None:
        """Add any other line."""
        line = _encode({"t": round(at, 6), **fields}) + b"\n"
        self._parts.append(line)
        self.size += len(line)

    def take(self) -> tuple[bytes, int]:
        """Return all lines, and how many texts of the server are in them, and remove them."""
        data, lines = b"".join(self._parts), self._lines
        self._parts.clear()
        self.size = self._lines = 0
        return data, lines


@final
class _Splitter:
    """Splits the body of one response into lines of the file, and hides its secrets."""

    def __init__(self, number: int, shape: str, mask: Mask) -> None:
        self._number = number
        self._shape = shape
        self._mask = mask
        self._at = 0.0
        self._out = _Block()
        self._lines = LineSplitter(self._on_line, on_oversized=self._on_oversized)
        self._items = ListSplitter(self._on_item, on_oversized=self._on_oversized_item)
        self._whole: list[bytes] = []
        self._size = 0
        self._is_unreadable = False

    def feed(self, at: float, data: bytes, out: _Block) -> None:
        """Process the next bytes."""
        self._at, self._out = at, out
        self._size += len(data)
        if self._shape == "watch":
            self._lines.feed(data)
        elif self._shape == "body":
            self._whole.append(data)
        elif not self._is_unreadable:
            try:
                self._items.feed(data)
            except ProtocolError:
                self._is_unreadable = True

    def finish(self, at: float, out: _Block) -> None:
        """Process the end of a complete body."""
        self._at, self._out = at, out
        if self._shape == "watch":
            self._lines.finish()
        elif self._shape == "list":
            self._finish_list()
        elif self._shape == "body":
            text = self._mask.body(b"".join(self._whole))
            if text is None:
                self._unreadable()
            else:
                out.add(b'{"t":%.6f,"of":%d,"body":' % (at, self._number), text)

    def _finish_list(self) -> None:
        try:
            found = self._items.finish()
        except ProtocolError:
            self._unreadable()
            return
        metadata: dict[str, object] = {
            "resourceVersion": found.resource_version,
            "continue": found.continue_token,
            "remainingItemCount": found.remaining_item_count,
        }
        metadata = {name: value for name, value in metadata.items() if value not in ("", None)}
        around = {"kind": found.kind, "apiVersion": found.api_version, "metadata": metadata}
        self._out.entry(self._at, {"of": self._number, "list": around})

    def _unreadable(self, size: int | None = None) -> None:
        size = self._size if size is None else size
        self._out.entry(self._at, {"of": self._number, "unreadable": size})

    def _on_line(self, data: bytes | bytearray, start: int, end: int) -> None:
        self._put_line(self._mask.line(bytes(memoryview(data)[start:end])), end - start)

    def _on_oversized(self, head: bytes, size_bytes: int) -> None:
        self._put_line(self._mask.line(head) if head else None, size_bytes)

    def _put_line(self, line: bytes | None, size_bytes: int) -> None:
        if line is None:
            self._unreadable(size_bytes)
        else:
            self._out.add(b'{"t":%.6f,"of":%d,"line":' % (self._at, self._number), line)

    def _on_item(self, data: bytes, start: int, end: int) -> None:
        text = self._mask.item(data[start:end], self._items.kind)
        self._out.item(self._at, self._number, text)

    def _on_oversized_item(self, head: bytes, size_bytes: int) -> None:
        del size_bytes
        self._out.item(self._at, self._number, self._mask.item(head, self._items.kind))
