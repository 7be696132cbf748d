"""One fresh look at one object within an informer's scope: the proof that a cache is as new.

A scope and a key enter; whether the object is in that scope leaves, as the server has it at a
resource version no older than the one asked for. It is a list with the informer's own selectors,
never a GET: a GET ignores selectors and needs another right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import msgspec
from msgspec import Struct

from pyinformer.apimachinery import (
    FieldSelector,
    ObjectKey,
    ProtocolError,
    resource_version_is_well_formed,
)
from pyinformer.apimachinery._field_selector import FieldRequirement

if TYPE_CHECKING:
    from pyinformer.cluster import Cluster
    from pyinformer.informer._scope import Scope


class _Meta(Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _Item(Struct, frozen=True):
    metadata: _Meta


class _List(Struct, frozen=True):
    metadata: _Meta
    items: list[_Item] | None = None


_decode = msgspec.json.Decoder(_List).decode


@final
class Fresh(Struct, frozen=True):
    """What the server has of a key, within a scope."""

    resource_version: str
    """The list's own."""
    uid: str
    """Empty if there is no such object, or it is not in the scope."""
    version: str


async def look(cluster: Cluster, scope: Scope, key: str, resource_version: str) -> Fresh:
    """Ask the server what a scope holds under a key.

    Args:
        cluster: the server.
        scope: the informer's.
        key: `namespace/name`, or `name`.
        resource_version: no answer may be older; one that cannot be compared asks for the newest.

    Raises:
        InformerError: the server refused, could not be reached, or gave no list.

    Cancellation:
        Safe; the request is dropped.
    """
    name = FieldRequirement("metadata.name", "=", ObjectKey(key).name)
    list_watch = cluster.list_watch(
        scope.resource,
        namespace=ObjectKey(key).namespace or None,
        label_selector=scope.label_selector,
        field_selector=FieldSelector((*scope.field_selector.requirements, name)),
    )
    at_least = resource_version if resource_version_is_well_formed(resource_version) else ""
    chunks: list[bytes] = []
    async with list_watch.list(resource_version=at_least, limit=1) as body:
        while chunk := await body.read():
            chunks.append(chunk)
    try:
        found = _decode(b"".join(chunks))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"list {scope.resource}", f"it is no list: {error}") from error
    item = found.items[0].metadata if found.items else _Meta()
    return Fresh(found.metadata.resource_version, item.uid, item.resource_version)
