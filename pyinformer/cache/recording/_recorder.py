"""The part of a recording that runs on the event loop: requests, pieces, snapshots and gaps.

A recording of a running informer begins with a snapshot of its cache. So does each further file,
and so does what follows a gap: a replay can begin at any snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, final

import msgspec

from pyinformer.cache.recording._connection import RecordedBody, RecordingConnection
from pyinformer.cache.recording._format import End, Header, error_of
from pyinformer.cache.recording._writer import (
    Contents,
    Ended,
    NextFile,
    Note,
    Opened,
    RecordingWriter,
)

if TYPE_CHECKING:
    from pyinformer.client.transport import Body, ConnectionProtocol, LineSplitter, Query
    from pyinformer.objects import KubeObject


class LineReader(Protocol):
    """The part of the reflector that applies the lines of a watch, after they are recorded."""

    def on_line(self, data: bytes | bytearray, start: int, end: int) -> None:
        """Apply one line, `data[start:end]`."""
        ...

    def on_oversized(self, head: bytes, size_bytes: int) -> None:
        """Apply the head of a line that is too long."""
        ...


class RecordedReflector(Protocol):
    """What the recorder reads and calls of a reflector."""

    @property
    def path(self) -> str:
        """The path of its lists and watches."""
        ...

    @property
    def is_loading(self) -> bool:
        """Whether a list or watch-list has been requested and is not complete."""
        ...

    @property
    def position(self) -> str:
        """The resource version up to which every change is in its sink; empty at first."""
        ...

    @property
    def connection(self) -> ConnectionProtocol:
        """The connection that its next requests use."""
        ...

    def use_connection(self, connection: ConnectionProtocol) -> None:
        """Send the next requests through another connection."""
        ...

    def contents(self) -> Sequence[KubeObject[Any]]:
        """Return everything in its sink."""
        ...


@final
class Recorder:
    """Records the reflectors of one informer.

    Args:
        writer: writes the files.
        header_of: returns the header of a file, given its number.
    """

    def __init__(self, writer: RecordingWriter, header_of: Callable[[int], Header]) -> None:
        self._writer = writer
        self._header_of = header_of
        self._numbers = count(1)
        self._files = count(1)
        self._taps: list[Tap] = []
        self._unfinished: set[int] = set()
        self._is_open = False
        self._began_at = 0.0
        self._now: Callable[[], float] = float

    @property
    def is_open(self) -> bool:
        """Whether the recording continues."""
        return self._is_open

    def create(self) -> None:
        """Create the file; blocks for as long as that takes, and may run in a thread.

        Raises:
            RecordingFileError: the file cannot be created.
        """
        self._writer.create(self._next_header())

    def begin_recording(self) -> None:
        """Begin in the running loop; the file was created."""
        loop = asyncio.get_running_loop()

        def call_soon(function: Callable[[], None]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(function)

        self._now, self._began_at, self._is_open = loop.time, loop.time(), True
        self._writer.start(call_soon, on_full=self._rotate, on_room=self._end_gap)

    def attach(self, reflector: RecordedReflector) -> Tap:
        """Record a reflector from now on; return the tap that it reports to."""
        tap = Tap(reflector, self)
        self._taps.append(tap)
        reflector.use_connection(RecordingConnection.around(reflector.connection, self))
        tap.resume()
        return tap

    def detach(self, tap: Tap) -> None:
        """Stop recording a reflector: the informer does not follow its scope any longer."""
        self._taps.remove(tap)
        tap.detach()

    def close(self) -> None:
        """End the recording; the reflectors use their own connections again."""
        if self._is_open:
            if self._writer.needs_file:  # or the end would not fit
                self._rotate()
            self.note({"stop": True})
        self._is_open = False
        for tap in self._taps:
            tap.detach()
        self._writer.begin_close()

    def begin(self, method: str, path: str, query: Query, *, shape: str) -> int:
        """Record that a request is sent, and return its number."""
        entry: dict[str, object] = {"method": method, "path": path, "query": list(query)}
        return self.begin_body(entry, shape)

    def begin_body(self, entry: dict[str, object], shape: str) -> int:
        """Record that a body begins, sent or not, and return the number of its request."""
        number = next(self._numbers)
        self._unfinished.add(number)
        self._writer.put(self._at(), number, Opened(entry, shape))
        return number

    def accept(self, number: int) -> None:
        """Record that the server has begun a successful response."""
        self.note({"of": number, "accepted": True})

    def piece(self, number: int, data: bytes) -> None:
        """Record the next bytes of a body."""
        self._writer.put(self._now() - self._began_at, number, data)

    def end(self, number: int, end: End, error: BaseException | None = None) -> None:
        """Record that a response or an attempt is over; only the first end of a request counts."""
        if number not in self._unfinished:
            return
        self._unfinished.discard(number)
        entry: dict[str, object] = {"end": end}
        if error is not None:
            entry["error"] = msgspec.to_builtins(error_of(error))
        self._writer.put(self._at(), number, Ended(entry, is_complete=end == "ended"))

    def line(self, number: int, data: bytes | bytearray, start: int, end: int) -> None:
        """Record a line of a watch, `data[start:end]`; does nothing after the end of the watch."""
        if number in self._unfinished:
            self._writer.put_line(self._now() - self._began_at, number, data, start, end)

    def unreadable(self, number: int, size_bytes: int) -> None:
        """Record only the size of a line of a watch; does nothing after the end of the watch."""
        if number in self._unfinished:
            self.note({"of": number, "unreadable": size_bytes})

    def note(self, entry: dict[str, object]) -> None:
        """Record any other line."""
        self._writer.put(self._at(), 0, Note(entry))

    def snapshot(self, path: str, position: str, items: Sequence[KubeObject[Any]]) -> None:
        """Record the content of a cache as the response to a list."""
        number = self.begin_body({"path": path, "snapshot": True}, "list")
        self.accept(number)
        self._unfinished.discard(number)
        kind = f"{items[0].gvk.kind}List" if items else "List"
        version = items[0].gvk.api_version if items else "v1"
        metadata = {"resourceVersion": position}
        around: dict[str, object] = {"kind": kind, "apiVersion": version, "metadata": metadata}
        self._writer.put(self._at(), number, Contents((one.raw for one in items), around))
        self._writer.put(self._at(), number, Ended({"end": "ended"}, is_complete=False))

    def _at(self) -> float:
        return self._now() - self._began_at

    def _next_header(self) -> bytes:
        header = self._header_of(next(self._files))
        return msgspec.json.encode(header) + b"\n"

    def _rotate(self) -> None:
        if self._is_open and self._writer.needs_file:
            self._writer.put(self._at(), 0, NextFile(self._next_header()))
            self._resume()

    def _end_gap(self) -> None:
        if self._is_open and self._writer.has_gap:
            self._writer.end_gap()
            self.note({"gap": self._writer.statistics().dropped_bytes})
            for number in sorted(self._unfinished):
                self.end(number, "gap")
            self._resume()

    def _resume(self) -> None:
        for tap in self._taps:
            tap.resume()


@final
class Tap:
    """Records one reflector: its lines, its relists, and snapshots of its cache.

    Args:
        reflector: the reflector.
        recorder: receives what is recorded.
    """

    def __init__(self, reflector: RecordedReflector, recorder: Recorder) -> None:
        self._reflector = reflector
        self._recorder = recorder
        self._original = reflector.connection
        self._needs_snapshot = False
        self._is_stale = False  # the recording lacks the beginning of the load in progress
        self._number = 0  # of the watch that is followed
        self._splitter: LineSplitter | None = None
        self._reader: LineReader | None = None

    def resume(self) -> None:
        """Record everything that a replay from here on needs."""
        reflector = self._reflector
        self._needs_snapshot = self._is_stale = reflector.is_loading
        if not self._needs_snapshot:
            self._take_snapshot()
            if self._splitter is not None:
                self._recorder.end(self._number, "gap")
                self._number = self._join()

    def detach(self) -> None:
        """Stop recording; the reflector has its connection and its reader back."""
        self._reflector.use_connection(self._original)
        self._read_directly()

    def on_load_ended(self) -> None:
        """Take the snapshot that had to wait for the end of a load, complete or failed."""
        if self._needs_snapshot:
            self._needs_snapshot = False
            self._take_snapshot()

    def on_relist_requested(self, reason: str, *, distrust: bool) -> None:
        """Record that everything is listed again for a reason that is not in the responses."""
        entry = {"path": self._reflector.path, "relist": reason, "distrust": distrust}
        self._recorder.note(entry)

    def on_follow(
        self, body: Body, splitter: LineSplitter, reader: LineReader, rest: Sequence[bytes]
    ) -> None:
        """Record the lines of a watch from now on.

        Args:
            body: the watch.
            splitter: splits it; its lines are redirected to here.
            reader: takes the lines.
            rest: lines that have arrived already.
        """
        was_stale, self._is_stale = self._is_stale, False
        self._splitter, self._reader = splitter, reader
        if isinstance(body, RecordedBody) and not was_stale:
            self._number = body.number
        else:
            self._number = self._join()
            for line in rest:
                self._recorder.line(self._number, line, 0, len(line))
        if isinstance(body, RecordedBody):
            body.release()
        splitter.redirect(self._on_line, self._on_oversized)

    def on_left(self, end: End, error: BaseException | None) -> None:
        """Record the end of the watch."""
        self._recorder.end(self._number, end, error)
        self._read_directly()

    def _on_line(self, data: bytes | bytearray, start: int, end: int) -> None:
        self._recorder.line(self._number, data, start, end)
        self._reader.on_line(data, start, end)  # type: ignore[union-attr]  # set by on_follow

    def _on_oversized(self, head: bytes, size_bytes: int) -> None:
        if head:
            self._recorder.line(self._number, head, 0, len(head))
        else:  # it is not an object
            self._recorder.unreadable(self._number, size_bytes)
        self._reader.on_oversized(head, size_bytes)  # type: ignore[union-attr]  # as above

    def _read_directly(self) -> None:
        if self._splitter is not None and self._reader is not None:
            self._splitter.redirect(self._reader.on_line, self._reader.on_oversized)
        self._splitter = self._reader = None

    def _take_snapshot(self) -> None:
        reflector = self._reflector
        if reflector.position:
            self._recorder.snapshot(reflector.path, reflector.position, reflector.contents())

    def _join(self) -> int:
        """Record that a watch is open already; return its number."""
        query = [("watch", "true"), ("resourceVersion", self._reflector.position)]
        path = self._reflector.path
        entry: dict[str, object] = {"path": path, "query": query, "joined": True}
        number = self._recorder.begin_body(entry, "watch")
        self._recorder.accept(number)
        return number
