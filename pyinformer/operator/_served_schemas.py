"""Warns of fields of models that the server's definitions lack, so that it drops what is in them.

The server publishes the schemas of custom resources to every account that may use discovery, so no
right on definitions is needed. Whatever stands in the way of this check, a start does not fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import msgspec

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.errors import InformerError, InvalidModelError
from pyinformer.objects import decoder_of
from pyinformer.operator._custom_resource import declared_resource
from pyinformer.operator._dropped_fields import Schema, dropped_fields
from pyinformer.operator._schema import structural_schema

if TYPE_CHECKING:
    from pyinformer.client.cluster import Cluster
    from pyinformer.objects import GroupVersionResource

_log = get_logger(__name__)

_READ_SECONDS: Final = 2.0  # some hundred times what a server takes; a start waits for it
_MAX_FIELDS: Final = 20


class _Components(msgspec.Struct):
    schemas: dict[str, Schema]


class _Document(msgspec.Struct):
    components: _Components


_decode = decoder_of(_Document)


class _Used(NamedTuple):
    """A model that is used for the objects of one version of a resource."""

    resource: GroupVersionResource
    kind: str
    model: type


async def warn_of_dropped_fields(
    cluster: Cluster,
    *,
    hooked: Sequence[tuple[GroupVersionResource, type]],
    reconciled: Sequence[type],
) -> None:
    """Log a line for each kind whose definition lacks fields of the models that are used for it.

    Args:
        cluster: has loaded the discovery of the resources.
        hooked: the models of hooks.
        reconciled: the models of reconciles; those that declare no custom resource may name what
            some versions of a foreign definition lack.

    Cancellation:
        Safe.
    """
    used = list(dict.fromkeys([*_declared(hooked, reconciled), *_foreign(cluster, hooked)]))
    if not used:
        return
    schemas = await _published(cluster, {one.resource.api_version for one in used})
    found: dict[str, dict[str, type]] = {}
    for one in used:
        definition = schemas.get((one.resource.api_version, one.kind))
        for field in () if definition is None else _fields(one.model, definition):
            lacking = found.setdefault(f"{one.resource.resource}.{one.resource.group}", {})
            lacking[f"{field} of {one.resource.version}"] = one.model
    for name, lacking in found.items():
        _warn(name, lacking, used)


def _declared(
    hooked: Sequence[tuple[GroupVersionResource, type]], reconciled: Sequence[type]
) -> Iterator[_Used]:
    for model in (*reconciled, *(model for _, model in hooked)):
        declared = declared_resource(model)
        for each in () if declared is None else (model, *declared.versions):
            its = declared_resource(each)
            if its is not None:
                yield _Used(its.resource, its.kind, each)


def _foreign(
    cluster: Cluster, hooked: Sequence[tuple[GroupVersionResource, type]]
) -> Iterator[_Used]:
    for resource, model in hooked:
        known = cluster.discovery.known(resource)
        if declared_resource(model) is None and known is not None and "." in resource.group:
            yield _Used(resource, known.kind, model)


def _warn(name: str, lacking: Mapping[str, type], used: Sequence[_Used]) -> None:
    fields = ", ".join(list(lacking)[:_MAX_FIELDS])
    if len(lacking) > _MAX_FIELDS:
        fields += f", and {len(lacking) - _MAX_FIELDS} more"
    model = next(iter(lacking.values()))
    cure = "add them to it"
    if declared_resource(model) is not None:
        shown = next((one.model for one in used if _names(one.model, model)), model)
        target = f"{shown.__module__}:{shown.__qualname__}"
        cure = f"pyinformer crd {target} | kubectl apply -f -"
    _log.warning(
        "the server's definition of %s lacks %s, which %s has, so the server drops them from"
        " objects: %s, or let the definition preserve unknown fields",
        name,
        fields,
        model.__name__,
        cure,
    )


def _names(model: type, other: type) -> bool:
    """Return whether the definition of a model has another one as a version."""
    declared = declared_resource(model)
    return declared is not None and other in declared.versions


async def _published(
    cluster: Cluster, api_versions: Iterable[str]
) -> dict[tuple[str, str], Schema]:
    """Return the schemas of kinds, by their version and name, as far as they can be read."""
    found: dict[tuple[str, str], Schema] = {}

    async def read(api_version: str) -> None:
        """Read those of one version of a group."""
        try:
            answer = await cluster.request("GET", f"/openapi/v3/apis/{api_version}")
            schemas = _decode(answer).components.schemas
        except (InformerError, ValueError):
            return  # an old server, or a gateway that lets only the resources through
        for schema in schemas.values():
            for one in schema.kinds:
                found[f"{one.group}/{one.version}", one.kind] = schema

    with anyio.move_on_after(_READ_SECONDS):
        async with anyio.create_task_group() as group:
            for api_version in sorted(api_versions):
                group.start_soon(read, api_version)
    return found


def _fields(model: type, definition: Schema) -> list[str]:
    try:
        schema = msgspec.convert(structural_schema(model), Schema)
    except InvalidModelError:  # a definition cannot describe it: of another program
        return []
    return list(dropped_fields(schema, definition))
