"""The kind of a resource's objects: what it is, and whether an answer has that of another one.

A list may name its kind behind items that have none, or be a `List`: discovery has the kind then.

An object that is sent as metadata alone names PartialObjectMetadata as its kind. An empty list
still names the real one, so a list that matches nothing is requested: it has no objects, and
seldom needs another right than list. Where it is refused, discovery is asked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from pyinformer.cache.reflector._availability import served_beside
from pyinformer.client.transport import item_kind, read_bounded
from pyinformer.errors import (
    APIStatusError,
    ProtocolError,
    ServerError,
    TooManyRequestsError,
)
from pyinformer.objects import null_as_absent

if TYPE_CHECKING:
    from pyinformer.client.transport import APIResource, ListWatch

_MAX_ANSWER_BYTES: Final = 65_536
_LIST: Final = "List"
_match_head = re.compile(
    rb'\s*\{\s*"kind"\s*:\s*"(\w+)"\s*,\s*"apiVersion"\s*:\s*"([^"\\]+)"'
).match


class _Named(Struct, frozen=True, gc=False, rename="camel"):
    kind: str = ""
    api_version: str = ""


_decode = null_as_absent(_Named)


async def kind_of(list_watch: ListWatch) -> str:
    """Return the kind of a resource's objects, or an empty text if the server does not name it.

    Args:
        list_watch: the resource and the scope.

    Raises:
        ServerError: discovery failed as well.
        TooManyRequestsError: the server is overloaded.
        InformerError: the server could not be reached, or did not answer with a list.

    Cancellation:
        Safe; the request is dropped.
    """
    try:
        async with list_watch.nothing().list(resource_version="0", limit=1) as body:
            answer = await read_bounded(body, _MAX_ANSWER_BYTES)
    except TooManyRequestsError:
        raise
    except APIStatusError:  # an API without field selectors, or a role of another name
        return await served_kind_of(list_watch)
    found = _named_in(answer)
    is_list = found.api_version == list_watch.resource.api_version and found.kind.endswith(_LIST)
    return item_kind(found.kind) if is_list else ""


async def served_kind_of(list_watch: ListWatch) -> str:
    """Return the kind of a resource's objects as discovery names it; empty if that is refused.

    Raises:
        ServerError: discovery failed.
        TooManyRequestsError: the server is overloaded.
        TransportError: it was not reached.

    Cancellation:
        Safe; the connection is closed.
    """
    table = await _readable_table(list_watch)
    return next((one.kind for one in table if one.resource == list_watch.resource), "")


async def wrong_kind_of(list_watch: ListWatch, list_kind: str) -> str:
    """Return what a list has in place of a resource's objects, by its kind.

    Discovery is read only if the kind is not made of the singular of the resource's own name. What
    it does not say is not held against the server: a definition may give its lists any kind.

    Args:
        list_watch: the resource.
        list_kind: the kind of the list that the server sent for it.

    Returns:
        The objects of another resource of the same group and version, or one object in place of a
        list, in words; empty if it is neither, or discovery is refused.

    Raises:
        ServerError: discovery failed.
        TooManyRequestsError: the server is overloaded.
        TransportError: it was not reached.

    Cancellation:
        Safe; the connection is closed.
    """
    name, kind = list_watch.resource.resource, list_kind.removesuffix(_LIST)
    singular = kind.lower()
    if name in {f"{singular}s", f"{singular}es", f"{singular[:-1]}ies", singular}:
        having = [name]
    else:
        having = await _resources_of(kind, list_watch)
    if not having or (name in having and kind != list_kind):
        return ""
    if kind == list_kind:
        return f"one {kind[:100]}, not a list"
    return f"{kind[:100]} objects, which are of {having[0]!r}"


async def _resources_of(kind: str, list_watch: ListWatch) -> list[str]:
    """Return the resources with a kind in a resource's group and version, if discovery is open."""
    table = await _readable_table(list_watch)
    return [one.resource.resource for one in table if one.kind == kind]


async def _readable_table(list_watch: ListWatch) -> list[APIResource]:
    """Return what is served in a resource's group and version; nothing if discovery is refused."""
    try:
        return await served_beside(list_watch)
    except (ServerError, TooManyRequestsError):
        raise
    except (APIStatusError, ProtocolError):
        return []


def _named_in(answer: bytes) -> _Named:
    head = _match_head(answer)  # a server that ignores selectors may have sent more than this
    if head is not None:
        return _Named(head[1].decode(), head[2].decode("utf-8", "replace"))
    try:
        return _decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Named()
