"""The representations of objects: whole, metadata only, or rows of a table.

The first known media type of the Accept header wins. Protobuf and YAML are not supported: a client
that accepts nothing else gets JSON, as the content type states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final, Protocol, final

import msgspec

from pyinformer.objects import JSONObject, JSONValue, decoder_of
from pyinformer.testing.apiserver.reads._listing import (
    Page,
    list_metadata,
    only_metadata,
    render_page,
)
from pyinformer.testing.apiserver.reads._tables import columns_of
from pyinformer.testing.apiserver.requests import Failure
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage import Record

_GROUP_VERSION: Final = ("meta.k8s.io", "v1")
_PARTIAL: Final = {"kind": "PartialObjectMetadata", "apiVersion": "/".join(_GROUP_VERSION)}
_decode: Final = decoder_of(JSONObject)
_JSON_TYPES: Final = ("application/json", "*/*")  # and no application/*, as on a real server
_OTHER_TYPES: Final = ("application/yaml", "application/vnd.kubernetes.protobuf")
"""Media types that a real server also supports; a protobuf watch adds `;stream=watch`."""
_AVAILABLE: Final = ", ".join((_JSON_TYPES[0], *_OTHER_TYPES))


class Representation(Protocol):
    """A representation of the objects of one resource other than whole objects."""

    def one(self, record: Record) -> bytes:
        """Return the representation of a single object."""
        ...

    def written(self, body: bytes) -> bytes:
        """Return the representation of the object that answers a write."""
        ...

    def page(self, page: Page) -> Iterator[bytes]:
        """Return the representation of a list, in blocks."""
        ...

    def bookmark(self, metadata: JSONObject) -> JSONObject:
        """Return the object of a bookmark."""
        ...


def negotiate(
    accept: str, resource: ResourceType, *, is_list: bool, include: str, now: Callable[[], str]
) -> Representation | None:
    """Choose the representation for an Accept header.

    Args:
        accept: the Accept header; "" accepts all.
        resource: the resource of the objects.
        is_list: whether the request is a list; watches send single objects.
        include: the query's `includeObject`: None, Metadata or Object; for tables.
        now: the current time, as Kubernetes writes it.

    Returns:
        The representation; None for whole objects.

    Raises:
        Failure: 406.
    """
    asked_for_kind = can_be_whole = False
    clauses = accept.replace(" ", "").split(",") if accept else ["*/*"]
    for clause in clauses:
        media_type, *parameters = clause.split(";")
        asked = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media_type not in _JSON_TYPES:
            can_be_whole |= media_type in _OTHER_TYPES and "as" not in asked
            continue
        if "as" not in asked:
            return None
        asked_for_kind = True
        if (asked.get("g"), asked.get("v")) != _GROUP_VERSION:
            continue
        if asked["as"] == "Table":
            return _Table(resource, include or "Metadata", now)
        if asked["as"] == "PartialObjectMetadata" + ("List" if is_list else ""):
            return _Metadata(resource)
    if can_be_whole:
        return None
    if asked_for_kind:
        raise Failure(406, f"only the following media types are accepted: {_AVAILABLE}")
    message = f"406: Not Acceptable\n\nAvailable representations: {_AVAILABLE}"
    raise Failure(406, message, details={})


@final
class _Metadata:
    """PartialObjectMetadata, for metadata-only clients."""

    def __init__(self, resource: ResourceType) -> None:
        self._resource = resource

    def one(self, record: Record) -> bytes:
        """See Representation."""
        return only_metadata(record.item)

    def written(self, body: bytes) -> bytes:
        """See Representation."""
        return only_metadata(body) + b"\n"

    def page(self, page: Page) -> Iterator[bytes]:
        """See Representation."""
        return render_page(self._resource, page, metadata_only=True)

    def bookmark(self, metadata: JSONObject) -> JSONObject:
        """See Representation."""
        return {**_PARTIAL, "metadata": metadata}


@final
class _Table:
    """Table, for kubectl; only the first table of a watch has column definitions."""

    def __init__(self, resource: ResourceType, include: str, now: Callable[[], str]) -> None:
        self._resource = resource
        self._include = include
        self._now = now
        self._columns = columns_of(resource)
        self._definitions: list[JSONValue] | None = [one.definition() for one in self._columns]

    def one(self, record: Record) -> bytes:
        """See Representation."""
        return msgspec.json.encode(self._one(record.to_dict()))

    def written(self, body: bytes) -> bytes:
        """See Representation."""
        return msgspec.json.encode(self._one(_decode(body))) + b"\n"

    def page(self, page: Page) -> Iterator[bytes]:
        """See Representation."""
        rows: list[JSONValue] = [self._row(record.to_dict()) for record in page.records]
        metadata = list_metadata(self._resource, page)
        yield msgspec.json.encode(self._table(metadata, rows)) + b"\n"

    def bookmark(self, metadata: JSONObject) -> JSONObject:
        """See Representation."""
        return self._one({"metadata": metadata})

    def _one(self, obj: JSONObject) -> JSONObject:
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        table = self._table(metadata, [self._row(obj)])
        self._definitions = None
        return table

    def _table(self, metadata: JSONObject, rows: list[JSONValue]) -> JSONObject:
        return {
            "kind": "Table",
            "apiVersion": "/".join(_GROUP_VERSION),
            "metadata": metadata,
            "columnDefinitions": self._definitions,
            "rows": rows,
        }

    def _row(self, obj: JSONObject) -> JSONObject:
        now = datetime.fromisoformat(self._now())
        shown: JSONObject | None = None
        if self._include == "Object":
            shown = obj
        elif self._include == "Metadata":
            shown = {**_PARTIAL, "metadata": obj["metadata"]}
        return {"cells": [column.cell(obj, now) for column in self._columns], "object": shown}
