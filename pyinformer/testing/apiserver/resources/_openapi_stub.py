"""The OpenAPI documents: version 2 has a PATCH with `dryRun` for each resource, and no schemas.

Without schemas clients validate nothing themselves. kubectl accepts only the protobuf form, and
refuses a dry run of a resource that is not listed. Version 3 has the schemas of custom resources
and nothing else. Its index does not list them, so only who knows their path finds them.

Source:
    kubectl pkg/cmd/util/openapi/dryrun.go; the message numbers of gnostic-models OpenAPIv2.proto;
    apiextensions-apiserver pkg/controller/openapi/builder/builder.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pyinformer.objects import JSONObject
from pyinformer.testing.apiserver.resources._resource_types import ResourceType

_PROTOBUF_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_KIND: Final = "x-kubernetes-group-version-kind"
_INFO: Final = {"title": "Kubernetes", "version": "1.37"}
_TYPED: Final[JSONObject] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}
_SMALL: Final = 0x80  # a varint byte holds 7 bits
_BYTES: Final = 2  # the wire type of length-delimited fields


def openapi_v2(accept: str, resources: Sequence[ResourceType]) -> tuple[bytes, str]:
    """Return an OpenAPI document without definitions, and its content type."""
    if "proto-openapi.spec.v2" in accept:
        return _protobuf(resources), _PROTOBUF_TYPE
    paths: JSONObject = {_path(one): {"patch": _operation(one)} for one in resources}
    document = {"swagger": "2.0", "info": _INFO, "paths": paths}
    return msgspec.json.encode(document) + b"\n", "application/json"


def openapi_v3(parts: Sequence[str], resources: Sequence[ResourceType]) -> JSONObject | None:
    """Return the index, the document of one version of a group, or None if there is none.

    Args:
        parts: those of the path below `/openapi/v3`.
        resources: the served resources.
    """
    if not parts:
        return {"paths": {}}
    served = [one for one in resources if ["apis", one.group, one.version] == [*parts]]
    found = {
        ".".join((*reversed(one.group.split(".")), one.version, one.kind)): {
            **one.schema,
            "properties": {**one.schema.get("properties", {}), **_TYPED},
            _KIND: [{"group": one.group, "kind": one.kind, "version": one.version}],
        }
        for one in served
        if one.schema
    }
    if not found:
        return None
    return {"openapi": "3.0.0", "info": _INFO, "paths": {}, "components": {"schemas": found}}


def _path(resource: ResourceType) -> str:
    root = f"/apis/{resource.api_version}" if resource.group else "/api/v1"
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"{root}{namespace}/{resource.plural}/{{name}}"


def _operation(resource: ResourceType) -> JSONObject:
    kind = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    query = {"name": "dryRun", "in": "query", "type": "string"}
    return {"parameters": [query], "responses": {}, _KIND: kind}


def _protobuf(resources: Sequence[ResourceType]) -> bytes:
    query = _field(2, b"query") + _field(4, b"dryRun")
    parameter = _field(8, _field(1, _field(2, _field(3, query))))
    paths = b""
    for one in resources:
        text = f"group: {one.group}\nkind: {one.kind}\nversion: {one.version}\n"
        kind = _field(13, _field(1, _KIND.encode()) + _field(2, _field(2, text.encode())))
        item = _field(8, parameter + kind)
        paths += _field(2, _field(1, _path(one).encode()) + _field(2, item))
    info = _field(1, _INFO["title"].encode()) + _field(2, _INFO["version"].encode())
    return _field(1, b"2.0") + _field(2, info) + _field(8, paths)


def _field(number: int, content: bytes) -> bytes:
    """Encode a length-delimited field of a protobuf message."""
    length, size = len(content), bytearray()
    while length >= _SMALL:
        size.append(length % _SMALL + _SMALL)
        length //= _SMALL
    size.append(length)
    return bytes((number << 3 | _BYTES,)) + bytes(size) + content
