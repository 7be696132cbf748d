"""What the objects of a resource are, where the server sends their metadata alone.

Such an object calls itself a PartialObjectMetadata, whatever it is. A list that holds nothing still
names its kind; that is asked for, so no more than the right to list is needed, and no body is sent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from pyinformer.apimachinery import BadRequestError
from pyinformer.transport import read_bounded

if TYPE_CHECKING:
    from pyinformer.transport import ListWatch

_MAX_ANSWER_BYTES: Final = 65_536
_LIST: Final = "List"
_head_of = re.compile(rb'\s*\{\s*"kind"\s*:\s*"(\w+)"\s*,\s*"apiVersion"\s*:\s*"([^"\\]+)"').match


class _Named(Struct, frozen=True, gc=False, rename="camel"):
    kind: str = ""
    api_version: str = ""


_decode = msgspec.json.Decoder(_Named).decode


async def kind_of(list_watch: ListWatch) -> str:
    """Return the kind of a resource's objects, or nothing if the server does not tell.

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
    except BadRequestError:  # an API that knows no field selectors
        return ""
    found = _named_in(answer)
    is_list = found.api_version == list_watch.resource.api_version and found.kind.endswith(_LIST)
    return found.kind.removesuffix(_LIST) if is_list else ""


def _named_in(answer: bytes) -> _Named:
    head = _head_of(answer)  # of a server that ignores selectors, no more than this may be there
    if head is not None:
        return _Named(head[1].decode(), head[2].decode("utf-8", "replace"))
    try:
        return _decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Named()
