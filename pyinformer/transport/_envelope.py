"""What stands around the items of a list: kind, apiVersion, metadata.

What enters is JSON of a whole object; what leaves are its fields, or a ProtocolError that says why
this is no list.
"""

from __future__ import annotations

from typing import final

import msgspec
from msgspec import Raw, Struct

from pyinformer.apimachinery import ProtocolError

_MAX_MESSAGE_CHARS = 500


@final
class ListMetadata(Struct, frozen=True, gc=False):
    """What a list says about itself.

    Attributes:
        kind: such as `PodList`.
        api_version: such as `v1`; empty if the server left it out.
        resource_version: the version of the whole list.
        continue_token: where the next page starts; empty at the last page.
        remaining_item_count: how many items follow this page, or None if the server does not say.
    """

    kind: str
    api_version: str
    resource_version: str
    continue_token: str
    remaining_item_count: int | None


class _WireListMeta(Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class Envelope(Struct, frozen=True, gc=False, rename="camel"):
    kind: str = ""
    api_version: str = ""
    metadata: _WireListMeta | None = None
    message: str = ""
    items: Raw = Raw(b"")


decode_envelope = msgspec.json.Decoder(Envelope).decode


def check_kind(envelope: Envelope, what: str) -> None:
    """Refuse a body that says that it is something else; one that says nothing yet passes."""
    if envelope.kind and not envelope.kind.endswith("List"):
        words = f": {envelope.message[:_MAX_MESSAGE_CHARS]}" if envelope.message else ""
        raise ProtocolError(what, f"the answer is a {envelope.kind}, no list{words}")


def list_metadata(head: Envelope, tail: Envelope, what: str) -> ListMetadata:
    """Put together what stood before and behind the items; what stands twice counts as it ends."""
    kind = tail.kind or head.kind
    meta = tail.metadata or head.metadata
    if not kind.endswith("List"):
        raise ProtocolError(what, f"kind {kind!r} is no list")
    if meta is None or not meta.resource_version:
        raise ProtocolError(what, "metadata.resourceVersion is missing")
    return ListMetadata(
        kind,
        tail.api_version or head.api_version,
        meta.resource_version,
        meta.continue_token,
        meta.remaining_item_count,
    )
