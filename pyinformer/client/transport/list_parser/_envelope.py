"""The fields of a list around its items: kind, apiVersion, metadata."""

from __future__ import annotations

import re
from typing import Final, final

import msgspec
from msgspec import Raw, Struct

from pyinformer.errors import ProtocolError
from pyinformer.objects import complaint_of, decoder_of

MAX_ENDS_BYTES: Final = 64 << 10
"""The limit of the bytes before, between and after the items; normal lists have 2 KiB."""

_MAX_MESSAGE_CHARS = 500
_MAX_ARRAYS: Final = 64  # named items before the real ones, each of which is decoded up to there
_KEY = b'"items"'
_items_key = re.compile(rb'"items"[ \t\r\n]*+:[ \t\r\n]*+\[').match
_unfinished_key = re.compile(rb'"items"[ \t\r\n]*+(?::[ \t\r\n]*+)?+\Z').match


@final
class ListMetadata(Struct, frozen=True, gc=False):
    """The metadata of a list, without its items.

    Attributes:
        kind: such as `PodList`.
        api_version: such as `v1`; empty if the server omits it.
        resource_version: the version of the whole list.
        continue_token: the start of the next page; empty for the last page.
        remaining_item_count: how many items follow this page; None if the server omits it.
    """

    kind: str
    api_version: str
    resource_version: str
    continue_token: str
    remaining_item_count: int | None


class _WireListMeta(Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str | None = None
    continue_token: str | None = msgspec.field(name="continue", default=None)
    remaining_item_count: int | None = None


class Envelope(Struct, frozen=True, gc=False, rename="camel"):
    """The fields around the items, as decoded; null is the same as absent, as it is for Go."""

    kind: str | None = None
    api_version: str | None = None
    metadata: _WireListMeta | None = None
    message: str | None = None
    items: Raw = Raw(b"")


decode_envelope = decoder_of(Envelope, skims=True)


def item_kind(list_kind: str) -> str:
    """Return the kind of the items of a list, `Pod` for a `PodList`; empty if it names none.

    A `List` is one of anything: gateways answer with it, as `kubectl get -o json` does.
    """
    return list_kind.removesuffix("List") if list_kind.endswith("List") else ""


def check_kind(envelope: Envelope, what: str) -> None:
    """Refuse a body whose kind is not that of a list; an empty kind is accepted."""
    if envelope.kind and not envelope.kind.endswith("List"):
        words = f": {envelope.message[:_MAX_MESSAGE_CHARS]}" if envelope.message else ""
        raise ProtocolError(what, f"the answer is a {envelope.kind[:100]}, not a list{words}")


def list_metadata(head: Envelope, tail: Envelope, what: str) -> ListMetadata:
    """Merge the fields before and after the items; those after the items win.

    A kind after the items may be any, since that of a custom resource's list may be.
    """
    kind = tail.kind or head.kind
    meta = tail.metadata or head.metadata
    if not kind:
        raise ProtocolError(what, "kind is missing")
    if meta is None:
        raise ProtocolError(what, "metadata is missing")
    return ListMetadata(
        kind,
        tail.api_version or head.api_version or "",
        meta.resource_version or "",
        meta.continue_token or "",
        meta.remaining_item_count,
    )


@final
class HeadReader:
    """Finds where the items of a list begin.

    The head is right if it becomes one JSON object once the array and the object are closed after
    it: then the array is at the top level, and belongs to the key before it.
    """

    __slots__ = ("_arrays", "_head", "_search_from", "_what", "envelope")

    def __init__(self, what: str) -> None:
        self._what = what
        self._head = bytearray()
        self._search_from = 0
        self._arrays = 0
        self.envelope = Envelope()
        """The fields before the items, once those have begun."""

    @property
    def text(self) -> bytes:
        """The bytes that were read, up to the items if those have begun."""
        return bytes(self._head)

    def feed(self, data: bytes, position: int) -> int:
        """Read `data[position:]`.

        Returns:
            The offset behind the opening bracket of the items, or -1 if it is not in this data.

        Raises:
            ProtocolError: the body is not a list.
        """
        self._head += memoryview(data)[position:]
        if bytes(self._head.lstrip()[:1]) not in {b"{", b""}:
            raise ProtocolError(self._what, "the answer is not a JSON object")
        end = self._find_items()
        if end >= 0:
            behind = len(self._head) - end
            del self._head[end:]
            return len(data) - behind
        if len(self._head) > MAX_ENDS_BYTES:
            raise ProtocolError(self._what, f"no items within the first {MAX_ENDS_BYTES} bytes")
        return -1

    def _find_items(self) -> int:
        head = self._head
        while (found := head.find(_KEY, self._search_from)) >= 0:
            match = _items_key(head, found)
            if match is not None and self._is_head(bytes(head[: match.end()])):
                return match.end()
            if match is None and _unfinished_key(head, found):
                self._search_from = found
                return -1
            self._search_from = found + 1
            self._count_arrays()
        self._search_from = max(self._search_from, len(head) - len(_KEY) + 1)
        return -1

    def _count_arrays(self) -> None:
        self._arrays += 1
        if self._arrays > _MAX_ARRAYS:
            reason = f"more than {_MAX_ARRAYS} fields named items stand before those of the list"
            raise ProtocolError(self._what, reason)

    def _is_head(self, head: bytes) -> bool:
        try:
            self.envelope = decode_envelope(head + b"]}")
        except msgspec.ValidationError as error:  # a field before the items is of another type
            raise ProtocolError(self._what, complaint_of(error)) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False  # an array of that name at a deeper level
        check_kind(self.envelope, self._what)
        return True
