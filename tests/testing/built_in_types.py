"""Write the types of the built-in resources, as a real kube-apiserver describes them, to a file.

    python -m tests.testing.built_in_types

writes pyinformer's data file again, from the real server that tests use.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pyinformer.testing import KubeAPIServer
from pyinformer.testing.apiserver import resources
from pyinformer.testing.apiserver.resources import BUILT_IN

FILE: Final = Path(resources.__file__).with_name("built_in_types.txt")
_VIRTUAL: Final = (("", "v1", "Binding"), ("autoscaling", "v1", "Scale"))
_REFERENCE: Final = "#/components/schemas/"
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_NAMED: Final = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intstr",
    f"{_EXTENSIONS}.JSONSchemaPropsOrArray": "?apiextensions.v1.JSONSchemaProps",
    f"{_EXTENSIONS}.JSONSchemaPropsOrBool": "?apiextensions.v1.JSONSchemaProps",
}
_PLAIN: Final = {"string": "string", "boolean": "bool", "number": "float64"}
_FORMATS: Final = {"byte": "[]uint8", "int32": "int32", "int64": "int64"}


def built_in_types_of(server: KubeAPIServer) -> str:
    """Return the content of the file, from a server's OpenAPI documents."""
    wanted = {(one.group, one.version, one.kind) for one in BUILT_IN if not one.is_virtual}
    wanted |= {*_VIRTUAL}
    schemas: dict[str, Any] = {}
    for group, version in sorted({one[:2] for one in wanted}):
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        schemas |= server.request("GET", f"/openapi/v3/{path}")["components"]["schemas"]
    waiting = [name for name, schema in schemas.items() if wanted & _kinds(schema)]
    lines: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        if _short(name) not in lines:
            fields = schemas[name].get("properties", {})
            texts = [f"{field}:{_type(fields[field], schemas)}" for field in sorted(fields)]
            package = f"{_short(name).rpartition('.')[0]}."
            line = " ".join(texts).replace(package, ".")
            lines[_short(name)] = f"{_short(name)} {line}".strip()
            waiting += [one for field in fields.values() for one in _references(field)]
            waiting = [one for one in waiting if _is_struct(one, schemas)]
    return "".join(f"{lines[name]}\n" for name in sorted(lines))


def _kinds(schema: dict[str, Any]) -> set[tuple[str, str, str]]:
    found = schema.get("x-kubernetes-group-version-kind", ())
    return {(one["group"], one["version"], one["kind"]) for one in found if len(found) == 1}


def _short(name: str) -> str:
    return ".".join(name.split(".")[-3:])


def _is_struct(name: str, schemas: dict[str, Any]) -> bool:
    return name not in _NAMED and "properties" in schemas[name]


def _references(schema: dict[str, Any]) -> list[str]:
    below = [
        schema,
        *schema.get("allOf", ()),
        schema.get("items"),
        schema.get("additionalProperties"),
    ]
    found = [one["$ref"].removeprefix(_REFERENCE) for one in below if one and "$ref" in one]
    for one in below[1:]:
        if one and "$ref" not in one:
            found += _references(one)
    return found


def _type(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    reference = next(
        (one["$ref"] for one in (schema, *schema.get("allOf", ())) if "$ref" in one), ""
    )
    if reference:
        name = reference.removeprefix(_REFERENCE)
        return _NAMED.get(name) or (_short(name) if _is_struct(name, schemas) else "any")
    if "items" in schema:
        return f"[{_type(schema['items'], schemas)}]"
    if "additionalProperties" in schema:
        return f"{{{_type(schema['additionalProperties'], schemas)}}}"
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    return _PLAIN.get(schema.get("type", ""), "any")


def _write() -> None:
    with KubeAPIServer(build=True) as server:
        FILE.write_text(built_in_types_of(server))


if __name__ == "__main__":
    _write()
