"""The fields of a model that the server drops, because its definition lacks them."""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, final

import msgspec

_OF_THE_SERVER: Final = frozenset({"apiVersion", "kind", "metadata"})


class GroupVersionKind(msgspec.Struct):
    """Whose schema a server publishes."""

    group: str
    version: str
    kind: str


@final
class Schema(msgspec.Struct):
    """What decides in an OpenAPI schema whether fields are kept."""

    properties: dict[str, Schema] | None = None
    items: Schema | None = None
    others: bool | Schema = msgspec.field(default=False, name="additionalProperties")
    keeps_unknown: bool = msgspec.field(default=False, name="x-kubernetes-preserve-unknown-fields")
    is_embedded: bool = msgspec.field(default=False, name="x-kubernetes-embedded-resource")
    reference: str = msgspec.field(default="", name="$ref")
    all_of: list[Any] = msgspec.field(default_factory=list, name="allOf")
    kinds: list[GroupVersionKind] = msgspec.field(
        default_factory=list, name="x-kubernetes-group-version-kind"
    )


def dropped_fields(model: Schema, definition: Schema) -> Iterator[str]:
    """Yield the outermost fields of a model that a definition lacks.

    What a definition leaves open is kept: unknown fields that it preserves, and the values of a
    map. A path names the elements of a list by `[]` and the values of a map by `*`:
    `spec.volumes[].size`, `spec.labels.*`.

    Args:
        model: of the model.
        definition: of the objects, as the server publishes it.

    Source:
        apiextensions-apiserver pkg/apiserver/schema/pruning/algorithm.go.
    """
    if definition.properties is not None:  # otherwise the server does not publish it
        yield from _dropped(model, definition, "", is_object=True)


def _dropped(model: Schema, definition: Schema, path: str, *, is_object: bool) -> Iterator[str]:
    if definition.reference or definition.all_of:  # a type of the server's
        return
    fields, others = definition.properties or {}, definition.others
    values = None if isinstance(others, bool) else others
    keeps = others is True or definition.keeps_unknown
    for name, field in (model.properties or {}).items():
        below = f"{path}.{name}".lstrip(".")
        if is_object and name in _OF_THE_SERVER:
            continue
        if (found := fields.get(name, values)) is not None:
            yield from _dropped(field, found, below, is_object=found.is_embedded)
        elif not keeps:
            yield below
    if model.items is not None and (items := definition.items) is not None:
        yield from _dropped(model.items, items, f"{path}[]", is_object=items.is_embedded)
    if not isinstance(model.others, bool):
        if values is not None:
            yield from _dropped(model.others, values, f"{path}.*", is_object=values.is_embedded)
        elif not keeps and not fields:  # a dict may also stand for fields that are known
            yield f"{path}.*"
