"""The types of built-in objects: the fields of each, as OpenAPI schemas.

They are read from a data file that is written from a real server's OpenAPI documents. It has one
line for each Go type: its name, then `field:type` for each field, where `[x]` is a list, `{x}` a
map with keys of text, `?x` an x or a value of any other type than a map, and a name with a dot
another line (`.Name` is of the same package).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from pyinformer.objects import JSONObject

GO_TYPE: Final = "x-go-type"
"""The member of a schema that has its Go type, such as `int32` or `v1.Container`."""
IF_MAP: Final = "x-if-map"
"""The member of a schema that has the schema of a value that is a map; others may be anything."""
_PLAIN: Final = {
    "string": "string",
    "time": "string",
    "microtime": "string",
    "[]uint8": "string",
    "bool": "boolean",
    "float64": "number",
    "int32": "integer",
    "int64": "integer",
}
_ANY: Final[JSONObject] = {"x-kubernetes-preserve-unknown-fields": True}
_NUMBER_OR_TEXT: Final = ("intstr", "quantity")
_METADATA: Final = "meta.v1.ObjectMeta"


def built_in_schema(group: str, version: str, kind: str) -> JSONObject:
    """Return the schema of a built-in kind; it is shared and must not be changed.

    Returns:
        A schema with `properties`, `items`, `additionalProperties`, `type` and GO_TYPE; types may
        contain themselves. {} if the kind is unknown.
    """
    package = group.partition(".")[0] or "core"
    return _types().get(f"{package}.{version}.{kind}", {})


def metadata_schema() -> JSONObject:
    """Return the schema of the metadata of every object; it is shared and must not be changed."""
    return _types()[_METADATA]


@cache
def _types() -> dict[str, JSONObject]:
    file = files("pyinformer.testing.apiserver.resources") / "built_in_types.txt"
    lines = [line.split() for line in file.read_text("ascii").splitlines()]
    found: dict[str, JSONObject] = {
        name: {"type": "object", GO_TYPE: ".".join(name.split(".")[1:])} for name, *_ in lines
    }
    for name, *fields in lines:
        package = name.rpartition(".")[0]
        pairs = (field.split(":") for field in fields)
        found[name]["properties"] = {field: _schema(text, package, found) for field, text in pairs}
    return found


def _schema(text: str, package: str, types: dict[str, JSONObject]) -> JSONObject:
    if text.startswith("[") and text.endswith("]"):
        items = _schema(text[1:-1], package, types)
        return {"type": "array", "items": items, GO_TYPE: f"[]{items.get(GO_TYPE, 'any')}"}
    if text.startswith("{"):
        below = _schema(text[1:-1], package, types)
        go_type = f"map[string]{below.get(GO_TYPE, 'any')}"
        return {"type": "object", "additionalProperties": below, GO_TYPE: go_type}
    if text.startswith("?"):
        return {IF_MAP: _schema(text[1:], package, types)}
    if text in _PLAIN:
        return {"type": _PLAIN[text], GO_TYPE: text}
    if text in _NUMBER_OR_TEXT:
        return {"x-kubernetes-int-or-string": True, GO_TYPE: text}
    return types.get(f"{package}{text}" if text.startswith(".") else text, _ANY)
