"""Everything the replay server will ever send, rendered once into an unnamed file.

Enters: a generator and the numbers of objects and updates. Leaves: ranges of that file, sent
as they are (watch streams), and slices of it joined into list pages.
Invariant: one HTTP chunk holds exactly one watch event, as Go's net/http writes events of more
than 2 KB; at no time is more than one event, or one mebibyte of a stream, held in memory.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import msgspec

from benchmarks.data.pods import PodGenerator

FIRST_RESOURCE_VERSION = 1_000_000

_TYPE_META = b'"kind":"Pod","apiVersion":"v1",'
_ADDED = b'{"type":"ADDED","object":'
_MODIFIED = b'{"type":"MODIFIED","object":'
_EVENT_END = b"}\n"
_CHUNK_END = b"\r\n"
_PART_BYTES = 1 << 20
_STRIDE = 7_919  # prime: updates visit the objects in an order that is not the stored one


@dataclass(frozen=True, slots=True)
class Span:
    """A range of the recording's file."""

    offset: int
    length: int


class Recording:
    """The pre-rendered traffic of one benchmark run."""

    def __init__(self, generator: PodGenerator, *, objects: int, updates: int) -> None:
        """Render `objects` ADDED events and `updates` MODIFIED events.

        Args:
            generator: where the pods come from.
            objects: pods in the collection.
            updates: changes after the initial state; update number j has resource version
                `list_resource_version + 1 + j`.
        """
        self.objects = objects
        self.list_resource_version = FIRST_RESOURCE_VERSION + objects
        self.last_resource_version = self.list_resource_version + updates
        self.file: IO[bytes] = tempfile.TemporaryFile(prefix="pyinformer-benchmark-")  # noqa: SIM115
        self._starts = array("Q")
        for index in range(objects):
            self._starts.append(self.file.tell())
            body = generator.pod(index, resource_version=FIRST_RESOURCE_VERSION + index)
            self.file.write(as_chunk(_ADDED + body + _EVENT_END))
        end = self.file.tell()
        self._starts.append(end)
        self.added = Span(0, end)
        for number in range(updates):
            body = generator.pod(
                number * _STRIDE % objects,
                resource_version=self.list_resource_version + 1 + number,
                revision=1 + number // objects,
            )
            self.file.write(as_chunk(_MODIFIED + body + _EVENT_END))
        self.modified = Span(end, self.file.tell() - end)
        self.file.flush()

    def end_bookmark(self) -> bytes:
        """Frame the bookmark that ends the initial events of a watch-list."""
        return as_chunk(
            b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":'
            b'{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}},'
            b'"spec":{"containers":null},"status":{}}}\n' % self.list_resource_version
        )

    def parts(self, span: Span) -> Iterator[bytes]:
        """Yield the bytes of `span` in parts of a mebibyte, to be sent as they are."""
        offset, end = span.offset, span.offset + span.length
        while offset < end:
            # larger than a socket's buffer: the client never waits for the next part, as it
            # does with sendfile, which passes 64 KiB at a time (measured: 1 us per event more)
            part = os.pread(self.file.fileno(), min(_PART_BYTES, end - offset), offset)
            yield part
            offset += len(part)

    def page(self, start: int, stop: int, *, only_metadata: bool = False) -> Iterator[bytes]:
        """Yield the JSON of the list of objects `start` to `stop`, in parts.

        Items are without kind and apiVersion, as in every list of a built-in resource; the
        continue token of an unfinished list is the number of the next object.

        Args:
            start: the number of the first object.
            stop: the number behind the last.
            only_metadata: leave out everything else, as for a PartialObjectMetadataList.
        """
        kind = b"PodList", b"v1"
        if only_metadata:
            kind = b"PartialObjectMetadataList", b"meta.k8s.io/v1"
        left = self.objects - stop
        token = b',"continue":"%d","remainingItemCount":%d' % (stop, left) if left else b""
        yield (
            b'{"kind":"%s","apiVersion":"%s","metadata":{"resourceVersion":"%d"%s},"items":['
            % (
                *kind,
                self.list_resource_version,
                token,
            )
        )
        for index in range(start, stop):
            item = self._item(index)
            if only_metadata:
                item = _METADATA_HEAD + bytes(_decode_metadata(item).metadata) + b"}"
            yield (b"," if index > start else b"") + item
        yield b"]}\n"

    def _item(self, index: int) -> bytes:
        start = self._starts[index]
        frame = os.pread(self.file.fileno(), self._starts[index + 1] - start, start)
        head = frame.index(_TYPE_META) + len(_TYPE_META)
        return b"{" + frame[head : -len(_EVENT_END + _CHUNK_END)]


class _Item(msgspec.Struct):
    metadata: msgspec.Raw


_decode_metadata = msgspec.json.Decoder(_Item).decode
_METADATA_HEAD = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'


def as_chunk(payload: bytes | bytearray) -> bytes:
    """Frame `payload` as one chunk of HTTP's chunked transfer encoding."""
    return b"%x\r\n%s\r\n" % (len(payload), payload)
