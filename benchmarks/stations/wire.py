"""From the wire to the record: splitter, frames, codec, guard and follower; and what a copy takes.

Every pass begins with fresh state, so that a guard never sees a version twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from benchmarks.stations.material import Material, PodView, codec, settled
from benchmarks.stations.registry import Work, station
from pyinformer.cache.reflector import EventApplier, Guard
from pyinformer.client.transport import LineSplitter, read_frame
from pyinformer.objects import Event, KubeObject, ObjectCodec, Updated

_PIECE_BYTES = 64 << 10  # as a loop reads from a busy socket


@station("reference-copy")
def copy(material: Material) -> Work:
    """Copy the bytes of an update, which no way through the library can undercut."""
    sources = [bytearray(line) for line in material.lines]

    def work() -> int:
        for source in sources:
            bytes(source)
        return len(sources)

    return work


@station("reference-loop")
def loop(material: Material) -> Work:
    """Do what any Python does: a call, a lookup, an addition; machines are compared by it."""
    table = dict.fromkeys(range(100), 1)

    def step(number: int) -> int:
        return table[number % 100] + number

    def work() -> int:
        total = 0
        for number in range(material.pods * 10):
            total += step(number)
        return material.pods * 10

    return work


@station("splitter")
def splitter(material: Material) -> Work:
    """Split a chunk that is one line, the common case."""
    return _split(material.lines, len(material.lines))


@station("splitter-pieces")
def splitter_pieces(material: Material) -> Work:
    """Split a line out of chunks of 64 KiB, which end anywhere."""
    text = b"".join(material.lines)
    pieces = [text[at : at + _PIECE_BYTES] for at in range(0, len(text), _PIECE_BYTES)]
    return _split(pieces, len(material.lines))


def _split(chunks: list[bytes], lines: int) -> Work:
    def on_line(_data: bytes | bytearray, _start: int, _end: int) -> None: ...

    feed = LineSplitter(on_line).feed

    def work() -> int:
        for chunk in chunks:
            feed(chunk)
        return lines

    return work


@station("frame")
def frame(material: Material) -> Work:
    """Find the type of a line, and the position of its object."""
    lines = [(line, 0, len(line) - 1) for line in material.lines]

    def work() -> int:
        for line in lines:
            read_frame(*line)
        return len(lines)

    return work


@station("decode")
def decode(material: Material) -> Work:
    """Decode an object into its record, with the projection, managedFields stripped."""
    return _decode(material, codec())


@station("decode-raw")
def decode_raw(material: Material) -> Work:
    """Decode an object into its record, with the projection, as it came."""
    return _decode(material, codec(strip_managed_fields=False))


@station("decode-compact")
def decode_compact(material: Material) -> Work:
    """Decode an object into its record, with the projection, and compress its body."""
    made: ObjectCodec[PodView] = ObjectCodec(codec().resource, view=PodView, compact=True)
    for body in material.bodies:  # which the dictionary is trained from
        made.decode(body, 0, len(body))
    return _decode(material, made)


def _decode(material: Material, made: ObjectCodec[PodView]) -> Work:
    settled(made.decode, material.bodies)
    bodies = [(body, 0, len(body)) for body in material.updates]

    def work() -> int:
        for body in bodies:
            made.decode(*body)
        return len(bodies)

    return work


@station("guard")
def guard(material: Material) -> Work:
    """Judge an update, and move the position."""
    judge = Guard()
    judge.connected()
    judge.applied(material.objects[-1].metadata.resource_version)
    changes = [(each.new._key, each.new.metadata, each.old.metadata) for each in material.events]

    def work() -> int:
        for key, new, old in changes:
            judge.judge_change(key, new, old)
            judge.applied(new.resource_version)
        return len(changes)

    return work


@station("follower")
def follower(material: Material) -> Work:
    """Take a line from its bytes to a sink that is a dict: frame, decode, guard, event."""
    judge, sink, made = Guard(), _DictSink(material.objects), codec()
    judge.connected()
    judge.applied(material.objects[-1].metadata.resource_version)
    settled(made.decode, material.bodies)
    on_line = EventApplier(made, judge, sink).on_line
    lines = [(line, 0, len(line) - 1) for line in material.lines]

    def work() -> int:
        for line in lines:
            on_line(*line)
        if sink.updates != len(lines):
            raise RuntimeError(f"{sink.updates} of {len(lines)} updates arrived")
        return len(lines)

    return work


class _DictSink:
    """The least that a follower can feed."""

    def __init__(self, objects: Iterable[KubeObject[PodView]]) -> None:
        self._items = {each._key: each for each in objects}
        self.get = self._items.get
        self.updates = 0

    def keys(self) -> Iterable[str]:
        return self._items.keys()

    def apply_nowait(self, event: Event[PodView]) -> None:
        if isinstance(event, Updated):
            self._items[event.new._key] = event.new
            self.updates += 1

    def replace_nowait(
        self, objects: Mapping[str, KubeObject[PodView]], resource_version: str
    ) -> Iterator[None]:
        raise NotImplementedError

    def bookmark_nowait(self, resource_version: str) -> None: ...
