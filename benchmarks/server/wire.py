"""How objects are written for a client: whole or as metadata alone, in JSON.

A body stands unchanged inside its event, right before `end_bytes` fixed bytes, so that a
stored event contains its body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import msgspec

from benchmarks.data.kinds import PODS, Kind

PARTIAL = Kind("meta.k8s.io/v1", "", "PartialObjectMetadata")
EXPIRED_MESSAGE = "too old resource version"
_JSON_TYPES = frozenset({"", "*/*", "application/*", "application/json"})
_PROTOBUF_TYPE = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True, slots=True)
class Form:
    """What a client accepts."""

    protobuf: bool = False
    only_metadata: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """The position of a list in its collection."""

    resource_version: int
    stop: int = 0
    """The number behind its last object, which is the continue token."""
    left: int = 0
    """How many objects follow; 0 ends the list."""


class Wire(Protocol):
    """The bytes of one form of one kind."""

    list_type: str
    stream_type: str
    end_bytes: int
    """How many bytes of an event follow its body."""

    def of_whole(self, body: bytes) -> bytes:
        """Make a body of this form from that of the whole object, in the same encoding."""
        ...

    def event(self, type: str, body: bytes) -> bytes:
        """Write a watch event around a body."""
        ...

    def end_bookmark(self, resource_version: int) -> bytes:
        """Write the bookmark that ends the initial events of a watch-list."""
        ...

    def expired(self) -> bytes:
        """Return the error event of a watch that cannot continue."""
        ...

    def page(self, page: Page, bodies: Iterable[bytes], lengths: Iterable[int]) -> Iterator[bytes]:
        """Write a list around bodies, in parts.

        Args:
            page: which part of the collection they are.
            bodies: of the objects.
            lengths: of the same bodies, for those who must know them before.
        """
        ...


class JSONWire:
    """JSON, as the API server writes it."""

    list_type = stream_type = "application/json"
    end_bytes = len(b"}\n")

    def __init__(self, kind: Kind, *, only_metadata: bool = False) -> None:
        """Write objects of a kind, or their metadata."""
        self._kind = PARTIAL if only_metadata else kind
        self._only_metadata = only_metadata
        self._type_meta_bytes = len(self._kind.type_meta)
        # items of typed lists have no type of their own; all others have
        self._keeps_type = only_metadata or kind.is_custom

    def of_whole(self, body: bytes) -> bytes:
        """Cut everything but the metadata, if that is what is wanted."""
        if not self._only_metadata:
            return body
        metadata = bytes(_decode_metadata(body).metadata)
        return b'{%s"metadata":%s}' % (self._kind.type_meta, metadata)

    def event(self, type: str, body: bytes) -> bytes:
        """Write one line."""
        return b'{"type":"%s","object":%s}\n' % (type.encode(), body)

    def end_bookmark(self, resource_version: int) -> bytes:
        """Write one line, with the empty parts that Go writes of a pod."""
        rest = b',"spec":{"containers":null},"status":{}' if self._kind is PODS else b""
        version = b'"resourceVersion":"%d"' % resource_version
        annotations = b'"annotations":{"k8s.io/initial-events-end":"true"}'
        ordered = (annotations, version) if self._kind.is_custom else (version, annotations)
        metadata = b'"metadata":{%s}' % b",".join(ordered)
        return self.event("BOOKMARK", b"{%s%s%s}" % (self._kind.type_meta, metadata, rest))

    def expired(self) -> bytes:
        """Write one line with a Status 410."""
        return self.event(
            "ERROR",
            b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
            b'"message":"%s","reason":"Expired","code":410}' % EXPIRED_MESSAGE.encode(),
        )

    def page(self, page: Page, bodies: Iterable[bytes], lengths: Iterable[int]) -> Iterator[bytes]:
        """Write head, items and end; a custom resource's keys are sorted here too."""
        kind = b'"kind":"%sList"' % self._kind.kind.encode()
        version = b'"apiVersion":"%s"' % self._kind.api_version.encode()
        metadata = b'"metadata":{%s}' % self._list_metadata(page)
        if self._kind.is_custom:
            yield b"{%s," % version
            yield from self._items(bodies)
            yield b",%s,%s}\n" % (kind, metadata)
        else:
            yield b"{%s,%s,%s," % (kind, version, metadata)
            yield from self._items(bodies)
            yield b"}\n"

    def _list_metadata(self, page: Page) -> bytes:
        fields = [b'"resourceVersion":"%d"' % page.resource_version]
        if page.left:
            more = [b'"continue":"%d"' % page.stop, b'"remainingItemCount":%d' % page.left]
            fields = [*more, *fields] if self._kind.is_custom else [*fields, *more]
        return b",".join(fields)

    def _items(self, bodies: Iterable[bytes]) -> Iterator[bytes]:
        yield b'"items":['
        separator = b""
        behind_type = 1 + self._type_meta_bytes
        for body in bodies:
            item = body if self._keeps_type else b"{" + body[behind_type:]
            yield separator + item
            separator = b","
        yield b"]"


def accepted_form(accept: str, *, protobuf: bool) -> Form | None:
    """Choose the format of a response; None if no accepted one is available.

    Args:
        accept: the Accept header, the first choice first.
        protobuf: whether that can be offered.
    """
    for choice in accept.split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        shape = next((p.removeprefix("as=") for p in parameters if p.startswith("as=")), "")
        if shape and not shape.startswith("PartialObjectMetadata"):
            continue
        if media in _JSON_TYPES:
            return Form(only_metadata=bool(shape))
        if media == _PROTOBUF_TYPE and protobuf:
            return Form(protobuf=True, only_metadata=bool(shape))
    return None


class _Item(msgspec.Struct):
    metadata: msgspec.Raw


_decode_metadata = msgspec.json.Decoder(_Item).decode
