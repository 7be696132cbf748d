"""Everything that is sent as it is, rendered once into unnamed files.

One HTTP chunk holds exactly one watch event, as Go's net/http writes events of more than 2 KB; at
no time is more than one event, or one mebibyte of a stream, held in memory.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Protocol, TypeAlias

from benchmarks.data.kinds import Kind
from benchmarks.server.protobuf import ProtobufWire
from benchmarks.server.wire import Form, JSONWire, Wire

FIRST_RESOURCE_VERSION = 1_000_000
JSON_FORM, PROTOBUF_FORM = Form(), Form(protobuf=True)

Render: TypeAlias = "Callable[[Iterable[bytes]], Iterator[bytes]]"
"""Makes protobuf messages of JSON bodies."""

PART_BYTES = 1 << 20

_CHUNK_END = b"\r\n"


def wire_of(kind: Kind, form: Form) -> Wire:
    """Return how objects of a kind are written in a form."""
    wire = ProtobufWire if form.protobuf else JSONWire
    return wire(kind, only_metadata=form.only_metadata)


def as_chunk(payload: bytes | bytearray) -> bytes:
    """Frame `payload` as one chunk of HTTP's chunked transfer encoding."""
    return b"%x\r\n%s\r\n" % (len(payload), payload)


def grouped(
    frames: Iterable[bytes], *, part_bytes: int = PART_BYTES
) -> Iterator[tuple[int, int, bytes]]:
    """Join frames to parts of at least some bytes.

    Yields:
        The number of the first frame in the part, that behind the last, the part.
    """
    held: list[bytes] = []
    first = size = 0
    for frame in frames:
        held.append(frame)
        size += len(frame)
        if size >= part_bytes:
            yield first, first + len(held), b"".join(held)
            first += len(held)
            held.clear()
            size = 0
    if held:
        yield first, first + len(held), b"".join(held)


class Stock(Protocol):
    """The objects of a collection, as they are before the first update."""

    def __len__(self) -> int: ...

    def close(self) -> None:
        """Give back what it holds."""
        ...

    def parts(self, form: Form) -> Iterator[bytes]:
        """Yield the stream of all their ADDED events, in parts of about a mebibyte."""
        ...

    def bodies(self, form: Form, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bodies of objects `start` to `stop`."""
        ...

    def lengths(self, form: Form, start: int, stop: int) -> Iterable[int]:
        """Yield how long those bodies are."""
        ...


class Tape:
    """Watch events of one form, one behind the other in a file."""

    def __init__(self, wire: Wire, type: str, bodies: Iterable[bytes]) -> None:
        """Record one event of a type for each body."""
        self._end_bytes = wire.end_bytes + len(_CHUNK_END)
        self._starts, self._lengths = array("Q", [0]), array("I")
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="pyinformer-benchmark-")  # noqa: SIM115
        for body in bodies:
            self._lengths.append(len(body))
            self._starts.append(
                self._starts[-1] + self._file.write(as_chunk(wire.event(type, body)))
            )
        self._file.flush()

    def __len__(self) -> int:
        return len(self._lengths)

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def parts(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the stream in parts of a mebibyte.

        Yields:
            The number of the first event that begins in the part, that behind the last, the part.
        """
        offset, end, first = 0, self._starts[-1], 0
        while offset < end:
            # larger than a socket's buffer: the client never waits for the next part, as it
            # does with sendfile, which passes 64 KiB at a time (measured: 1 us per event more)
            part = os.pread(self._file.fileno(), min(PART_BYTES, end - offset), offset)
            offset += len(part)
            stop = bisect_left(self._starts, offset, lo=first, hi=len(self))
            yield first, stop, part
            first = stop

    def events(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the same, one event at a time."""
        for number in range(len(self)):
            yield number, number + 1, self._read(number)

    def bodies(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bodies of events `start` to `stop`."""
        for number in range(start, stop):
            event = self._read(number)
            end = len(event) - self._end_bytes
            yield event[end - self._lengths[number] : end]

    def lengths(self, start: int, stop: int) -> Iterable[int]:
        """Return how long those bodies are."""
        return self._lengths[start:stop]

    def _read(self, number: int) -> bytes:
        start = self._starts[number]
        return os.pread(self._file.fileno(), self._starts[number + 1] - start, start)


class Recording:
    """Events of one type, on a tape for each form that was rendered beforehand."""

    def __init__(self, kind: Kind, type: str, bodies: Iterable[bytes]) -> None:
        """Record JSON; another form is made of it while it is sent, or recorded too.

        Args:
            kind: of the objects.
            type: of the events.
            bodies: JSON, one for each.
        """
        self._kind, self._type = kind, type
        self._tapes = {JSON_FORM: Tape(wire_of(kind, JSON_FORM), type, bodies)}

    def __len__(self) -> int:
        return len(self._tapes[JSON_FORM])

    def close(self) -> None:
        """Give the files back."""
        for tape in self._tapes.values():
            tape.close()

    def record_protobuf(self, render: Render) -> None:
        """Record protobuf too."""
        form = PROTOBUF_FORM
        bodies = render(self.bodies(JSON_FORM, 0, len(self)))
        self._tapes[form] = Tape(wire_of(self._kind, form), self._type, bodies)

    def record_metadata(self) -> None:
        """Record the metadata alone, in each encoding that was recorded."""
        for whole in list(self._tapes):
            form = Form(protobuf=whole.protobuf, only_metadata=True)
            bodies = self.bodies(form, 0, len(self))
            self._tapes[form] = Tape(wire_of(self._kind, form), self._type, bodies)

    def parts(self, form: Form) -> Iterator[bytes]:
        """Yield the stream of all events, in parts of about a mebibyte."""
        for _, _, part in self.numbered_parts(form):
            yield part

    def numbered_parts(
        self, form: Form, *, one_by_one: bool = False
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yield the same, each with the numbers of its events; or each event by itself."""
        tape = self._tapes.get(form)
        if tape is not None:
            yield from tape.events() if one_by_one else tape.parts()
            return
        event = wire_of(self._kind, form).event
        bodies = self.bodies(form, 0, len(self))
        frames = (as_chunk(event(self._type, body)) for body in bodies)
        yield from grouped(frames, part_bytes=0 if one_by_one else PART_BYTES)

    def bodies(self, form: Form, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bodies of events `start` to `stop`."""
        tape = self._tapes.get(form)
        if tape is not None:
            return tape.bodies(start, stop)
        whole = self._tapes[Form(protobuf=form.protobuf)]
        return map(wire_of(self._kind, form).of_whole, whole.bodies(start, stop))

    def lengths(self, form: Form, start: int, stop: int) -> Iterable[int]:
        """Yield how long those bodies are."""
        tape = self._tapes.get(form)
        return (
            map(len, self.bodies(form, start, stop)) if tape is None else tape.lengths(start, stop)
        )
