"""The same in protobuf: events and lists around messages that were rendered elsewhere.

An object's own fields are never read, but its first: the metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks.data.kinds import Kind
from benchmarks.server.wire import EXPIRED_MESSAGE, PARTIAL, Page

_MAGIC = b"k8s\x00"
_VARINT, _BYTES = 0, 2


class ProtobufWire:
    """Protobuf, as the API server writes it."""

    list_type = "application/vnd.kubernetes.protobuf"
    stream_type = f"{list_type};stream=watch"
    end_bytes = 0

    def __init__(self, kind: Kind, *, only_metadata: bool = False) -> None:
        """Write objects of a kind, or their metadata."""
        self._kind = PARTIAL if only_metadata else kind
        self._only_metadata = only_metadata
        self._type = _type_meta(self._kind.api_version, self._kind.kind)

    def of_whole(self, body: bytes) -> bytes:
        """Cut everything but the metadata, which is the first field of either message."""
        if not self._only_metadata:
            return body
        _, start, length = first_field(body)
        return body[: start + length]

    def event(self, type: str, body: bytes) -> bytes:
        """Write the length, four bytes, and a metav1.WatchEvent: type, and object.raw."""
        return _framed_event(type, _enveloped(self._type, body))

    def end_bookmark(self, resource_version: int) -> bytes:
        """Write an object that has only a resource version and the annotation."""
        annotation = field(1, b"k8s.io/initial-events-end") + field(2, b"true")
        metadata = field(6, b"%d" % resource_version) + field(12, annotation)
        return self.event("BOOKMARK", field(1, metadata))

    def expired(self) -> bytes:
        """Write a Status 410."""
        texts = {2: b"Failure", 3: EXPIRED_MESSAGE.encode(), 4: b"Expired"}
        status = field(1, b"") + b"".join(field(n, text) for n, text in texts.items())
        status += varint(6 << 3 | _VARINT) + varint(410)
        return _framed_event("ERROR", _enveloped(_type_meta("v1", "Status"), status))

    def page(self, page: Page, bodies: Iterable[bytes], lengths: Iterable[int]) -> Iterator[bytes]:
        """Write ListMeta (1) and the items (2); their lengths stand before all of them."""
        list_type = _type_meta(self._kind.api_version, f"{self._kind.kind}List")
        metadata = field(2, b"%d" % page.resource_version)
        if page.left:
            metadata += field(3, b"%d" % page.stop) + varint(4 << 3 | _VARINT) + varint(page.left)
        head = field(1, metadata)
        items = sum(1 + len(varint(length)) + length for length in lengths)
        yield _MAGIC + list_type + _header(2, len(head) + items) + head
        for body in bodies:
            yield _header(2, len(body)) + body


def field(number: int, content: bytes) -> bytes:
    """Write a field that has a length: bytes, a string, a message."""
    return _header(number, len(content)) + content


def varint(value: int) -> bytes:
    """Write a number in groups of seven bits, the lowest first."""
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def first_field(message: bytes, offset: int = 0) -> tuple[int, int, int]:
    """Read the head of the field at `offset`, which must be one with a length.

    Returns:
        Its number, where its content starts, and how long that is.
    """
    tag, offset = _read_varint(message, offset)
    if tag & 7 != _BYTES:
        raise ValueError(f"field {tag >> 3} has no length")
    length, offset = _read_varint(message, offset)
    return tag >> 3, offset, length


def opened(frame: bytes) -> bytes:
    """Take the bare message out of its envelope."""
    offset = len(_MAGIC)
    while offset < len(frame):
        number, start, length = first_field(frame, offset)
        if number == 2:
            return frame[start : start + length]
        offset = start + length
    raise ValueError("the envelope holds no message")


def with_namespace(message: bytes, namespace: str) -> bytes:
    """Move an object: replace metadata.namespace, which stands behind texts only."""
    _, start, length = first_field(message)
    metadata, rest = message[start : start + length], message[start + length :]
    offset = end = number = 0
    while number != 3:
        offset = end
        number, start, length = first_field(metadata, offset)
        end = start + length
    return field(1, metadata[:offset] + field(3, namespace.encode()) + metadata[end:]) + rest


def _read_varint(message: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        group = message[offset]
        offset += 1
        value |= (group & 127) << shift
        if group < 128:
            return value, offset
        shift += 7


def _header(number: int, length: int) -> bytes:
    return varint(number << 3 | _BYTES) + varint(length)


def _type_meta(api_version: str, kind: str) -> bytes:
    return field(1, field(1, api_version.encode()) + field(2, kind.encode()))


def _enveloped(type_meta: bytes, message: bytes) -> bytes:
    return _MAGIC + type_meta + field(2, message)


def _framed_event(type: str, enveloped: bytes) -> bytes:
    event = field(1, type.encode()) + field(2, field(1, enveloped))
    return len(event).to_bytes(4, "big") + event
