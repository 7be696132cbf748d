"""The kind of a resource's objects, where the server sends only their metadata.

Such an object names PartialObjectMetadata as its kind. An empty list still names the real one, so a
list that matches nothing is requested: it needs no other right than list, and has no objects.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from pyinformer.errors import BadRequestError
from pyinformer.transport import read_bounded

if TYPE_CHECKING:
    from pyinformer.transport import ListWatch

_MAX_ANSWER_BYTES: Final = 65_536
_LIST: Final = "List"
_match_head = re.compile(
    rb'\s*\{\s*"kind"\s*:\s*"(\w+)"\s*,\s*"apiVersion"\s*:\s*"([^"\\]+)"'
).match


class _Named(Struct, frozen=True, gc=False, rename="camel"):
    kind: str = ""
    api_version: str = ""


_decode = msgspec.json.Decoder(_Named).decode


async def kind_of(list_watch: ListWatch) -> str:
    """Return the kind of a resource's objects, or an empty text if the server does not name it.

    Args:
        list_watch: the resource and the scope.

    Raises:
        InformerError: the server refused, or could not be reached.

    Cancellation:
        Safe; the request is dropped.
    """
    try:
        async with list_watch.nothing().list(resource_version="0", limit=1) as body:
            answer = await read_bounded(body, _MAX_ANSWER_BYTES)
    except BadRequestError:  # an API without field selectors
        return ""
    found = _named_in(answer)
    is_list = found.api_version == list_watch.resource.api_version and found.kind.endswith(_LIST)
    return found.kind.removesuffix(_LIST) if is_list else ""


def _named_in(answer: bytes) -> _Named:
    head = _match_head(answer)  # a server that ignores selectors may have sent more than this
    if head is not None:
        return _Named(head[1].decode(), head[2].decode("utf-8", "replace"))
    try:
        return _decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Named()
