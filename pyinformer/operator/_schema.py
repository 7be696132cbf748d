"""Structural OpenAPI v3 schemas of models, for CustomResourceDefinitions.

A schema has no references, and every field has a type or preserves unknown fields. A field that a
CustomResourceDefinition cannot describe is an error that names the field, never an approximation.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NoReturn, cast, final

import msgspec

from pyinformer import objects
from pyinformer.errors import InvalidModelError
from pyinformer.objects import WRITTEN_OTHERWISE, JSONObject, JSONValue
from pyinformer.operator._rules import FieldPath, Rule, rules_of

_KEPT: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("pattern", "minLength", "maxLength"),
    "integer": ("minimum", "maximum", "multipleOf"),
    "number": ("minimum", "maximum", "multipleOf"),
    "boolean": (),
    "object": ("minProperties", "maxProperties"),
    "array": ("minItems", "maxItems"),
}
# Formats that the server checks with the meaning that they have in Python. `duration` differs: Go's
# is 1h30m, JSON Schema's PT1H30M. `byte` differs, too: the server refuses empty text as base64.
_FORMATS: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset(
        {"date", "date-time", "email", "hostname", "ipv4", "ipv6", "uri", "uuid", "password"}
    ),
    "integer": frozenset({"int32", "int64"}),
    "number": frozenset({"float", "double"}),
    "boolean": frozenset(),
}
_LENGTHS: Final = frozenset(
    f"{least}{what}" for least in ("min", "max") for what in ("Length", "Items", "Properties")
)
_EXTENSIONS: Final[Mapping[str, tuple[str, tuple[object, ...]]]] = {
    "x-kubernetes-list-type": ("array", ("atomic", "set", "map")),
    "x-kubernetes-map-type": ("object", ("atomic", "granular")),
    "x-kubernetes-embedded-resource": ("object", (True, False)),
}
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})
_WORDS_OF: Final = {"minimum": "an exclusive minimum", "maximum": "an exclusive maximum"}
_BOUNDS: Final = frozenset({"minimum", "maximum", "multipleOf"})
_MAX_INT64: Final = (1 << 63) - 1
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
# It allows objects that are nested too deeply to be decoded: only for a field of type `Any`.
ANYTHING: Final[JSONObject] = {"x-kubernetes-preserve-unknown-fields": True}
_UNKNOWN: Final = "x-unknown-type"
_WHAT_SAYS_A_SHAPE: Final = ("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref")
_OF_THE_SERVER: Final = ("apiVersion", "kind", "metadata")  # the server has their schemas
_PLACES_OF_THE_SERVER: Final = tuple((name,) for name in _OF_THE_SERVER)


def structural_schema(model: type) -> JSONObject:
    """Return the schema of a custom resource from its model.

    Args:
        model: a class that `KubeObject.as_type` can decode into. Fields called `apiVersion`, `kind`
            and `metadata` are the server's.

    Raises:
        InvalidModelError: the model is not a class with fields, or the server refuses the schema
            of a field: a recursion, a union, a tuple; or the model writes a field under another
            name than it reads, or with another type; or a part of it would be read wrongly. It
            names the field.
    """
    name = getattr(model, "__name__", repr(model))
    objects.check_parts(model)
    root = _json_schema(model, name)
    _compare_written(model, name, root)
    found = _Conversion(name, root.get("$defs", {})).root(root)
    _add_rules(found, model)
    return found


def _compare_written(model: type, name: str, read: JSONObject) -> None:
    """Add what a pydantic model writes and does not read; refuse other names or types."""
    if not hasattr(model, "model_json_schema"):
        return
    try:
        written = _json_schema(model, name, mode="serialization")
    except InvalidModelError:  # it has no schema, so nothing is known of it
        return
    _Comparison(name, read, written).check(read, written, "")


def _add_rules(schema: JSONObject, model: type) -> None:
    """Add the rules of a model to their places in its schema."""
    for path, rule in rules_of(model):
        place = None if path[:1] in _PLACES_OF_THE_SERVER else _place(schema, path)
        field = "".join(step if step == "[]" else f".{step}" for step in path).lstrip(".")
        if not isinstance(rule, Rule):
            reason = "must have a pyinformer.operator.Rule, got a pyinformer.policies.Rule"
            raise InvalidModelError(model.__name__, field, reason)
        if place is None:
            reason = f"has the rule {rule.expression!r}, but no schema of its own"
            raise InvalidModelError(model.__name__, field, reason)
        place.setdefault("x-kubernetes-validations", []).append(rule.to_dict())


def _place(schema: JSONObject, path: FieldPath) -> JSONObject | None:
    """Return the part of a schema that describes a place in the model; None if there is none."""
    place: JSONObject | None = schema
    for step in path:
        if place is None:
            break
        keyword = {"[]": "items", "*": "additionalProperties"}.get(step)
        place = place.get(keyword) if keyword else place.get("properties", {}).get(step)
    return place


def _json_schema(
    model: Any,  # noqa: ANN401 - any kind of model
    name: str,
    *,
    mode: Literal["validation", "serialization"] = "validation",
) -> JSONObject:
    try:
        if hasattr(model, "model_json_schema"):
            return cast("JSONObject", model.model_json_schema(mode=mode))
        return msgspec.json.schema(model, schema_hook=_unknown)
    except (TypeError, RuntimeError, NameError) as error:  # a type without a schema
        raise InvalidModelError(name, "", " ".join(str(error).split())) from error


def _unknown(kind: object) -> JSONObject:
    """Stand for a type without a schema until its field is known."""
    return {_UNKNOWN: getattr(kind, "__name__", repr(kind))}


@final
class _Conversion:
    """Converts one JSON Schema with its definitions to a structural schema."""

    def __init__(self, model: str, definitions: JSONObject) -> None:
        self._model = model
        self._definitions = definitions
        self._open: list[str] = []  # the references that lead to the place being converted
        self._null_enums: set[str] = set()  # choices that may be null, where null is refused

    def root(self, node: JSONObject) -> JSONObject:
        """Convert the whole model."""
        if "$ref" in node:
            self._open.append(_name_of(node))
        node = self._resolved(node, "")
        if node.get("type") != "object" or "properties" not in node:
            raise InvalidModelError(self._model, "", "must be a class with fields")
        own = {
            name: value for name, value in node["properties"].items() if name not in _OF_THE_SERVER
        }
        required = [name for name in node.get("required", ()) if name in own]
        if "status" in required:
            reason = "needs a default: an object is created without a status"
            raise InvalidModelError(self._model, "status", reason)
        found = self._convert({**node, "properties": own, "required": required}, "")
        for path in sorted(self._null_enums):
            self._refuse(
                path,
                "is a choice that may be null, which is allowed only for a field with a default",
            )
        # A status is set by the reconcile; a default would look like an observation.
        found["properties"].get("status", {}).pop("default", None)
        self._check_places(found, "")
        found["properties"] = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            **found["properties"],
        }
        return found

    def _convert(self, node: JSONValue, path: str) -> JSONObject:
        if isinstance(node, dict) and "$ref" in node:
            return self._inside(node, path)
        if isinstance(node, dict) and _UNKNOWN in node:
            reason = f"is of type {node[_UNKNOWN]}, of which nothing is known; Any may be anything"
            self._refuse(path, reason)
        if not isinstance(node, dict) or not any(word in node for word in _WHAT_SAYS_A_SHAPE):
            described = _described(node) if isinstance(node, dict) else {}
            return {**ANYTHING, **described}
        for word in ("anyOf", "oneOf", "allOf"):
            if word in node:
                return self._alternatives(node, word, path)
        if "const" in node or "enum" in node:
            return self._enumerated(node, path)
        return self._typed(node, path)

    def _inside(self, node: JSONObject, path: str) -> JSONObject:
        """Convert what a reference leads to, in the place of the reference."""
        name = _name_of(node)
        if name in self._open:
            self._refuse(path, f"{name} holds itself; a schema of the server is finite")
        self._open.append(name)
        try:
            return self._convert(self._resolved(node, path), path)
        finally:
            self._open.pop()

    def _resolved(self, node: JSONObject, path: str) -> JSONObject:
        if "$ref" not in node:
            return node
        target = self._definitions.get(_name_of(node))
        if not isinstance(target, dict):
            self._refuse(path, f"refers to {node['$ref']}, which the model does not define")
        return {**target, **{name: value for name, value in node.items() if name != "$ref"}}

    def _alternatives(self, node: JSONObject, word: str, path: str) -> JSONObject:
        kinds = [each for each in node[word] if each != {"type": "null"}]
        shared = {name: value for name, value in node.items() if name != word}
        names = {each.get("type") for each in kinds}
        if len(kinds) == 1:
            found = self._convert({**kinds[0], **shared}, path)
        elif word == "allOf" or not all("type" in each for each in kinds):
            self._refuse(path, f"is a union; {_NO_UNION}")
        elif names == {"integer", "string"}:
            found = {"x-kubernetes-int-or-string": True, **_described(shared)}
        elif names == {"integer", "number"}:
            found = self._typed({**shared, "type": "number"}, path)
        else:
            self._refuse(path, f"is a union of {', '.join(sorted(map(str, names)))}; {_NO_UNION}")
        return found if len(kinds) == len(node[word]) else self._nullable(found, path)

    def _enumerated(self, node: JSONObject, path: str) -> JSONObject:
        values = node["enum"] if "enum" in node else [node["const"]]
        kinds = {_KINDS.get(type(value)) for value in values if value is not None}
        if len(kinds) != 1 or None in kinds:
            self._refuse(path, "is a choice between values of several types; the server wants one")
        found = {
            "type": kinds.pop(),
            "enum": [value for value in values if value is not None],
            **_described(node),
        }
        return self._nullable(found, path) if None in values else found

    def _typed(self, node: JSONObject, path: str) -> JSONObject:
        kind = node["type"]
        if kind not in _KEPT:
            self._refuse(path, f"is of type {kind!r}, which the server does not know")
        default = node.get("default")
        if (
            node.get("writeOnly")
            and isinstance(default, str)
            and default
            and not default.strip("*")
        ):
            self._refuse(path, "is a secret whose default pydantic hides; let it have none")
        found: JSONObject = {"type": kind, **_described(node)}
        found.update({word: node[word] for word in _KEPT[kind] if word in node})
        self._check_constraints(found, path)
        if kind == "object":
            found.update(self._fields(node, path))
        elif kind == "array":
            found.update(self._items(node, path))
        elif kind == "string":
            found.update(_format_of(node, "string"))
        else:
            found.update({**_bounds_of(node), **_format_of(node, kind)})
            self._check_bounds(found, path)
        return found

    def _check_constraints(self, found: JSONObject, path: str) -> None:
        """Refuse a pattern that Go does not have, and a length that is not an int64."""
        problem = objects.re2_problem(found.get("pattern", ""))
        if problem:
            self._refuse(
                path, f"has the pattern {found['pattern']!r}, but the server is Go: {problem}"
            )
        for word in _LENGTHS & found.keys():
            if not 0 <= found[word] <= _MAX_INT64:
                self._refuse(path, f"{word} must be 0 to 2^63 - 1, got {found[word]}")

    def _check_bounds(self, found: JSONObject, path: str) -> None:
        """Refuse bounds that the server does not take, or with which it refuses every object."""
        for word in _BOUNDS & found.keys():
            bound = found[word]
            if not abs(bound) <= sys.float_info.max:  # NaN is not, either
                self._refuse(path, f"{word} must be a finite number of 64 bits, or absent")
            power, whose = 31 if found.get("format") == "int32" else 63, "every object"
            if found["type"] == "number":
                power, whose = 63, "every whole number"
            if not abs(float(bound)) < 2.0**power:
                reason = f"{word} must be between -2^{power} and 2^{power} as a float, got {bound}"
                self._refuse(path, f"{reason}: the server would refuse {whose}")
            # It cuts the bound where the value is whole: 2 is not less than 2.5 there.
            is_strict = word == "multipleOf" or f"exclusive{word.title()}" in found
            if is_strict and float(bound) % 1:
                reason = f"must be whole, got {bound}: the server would refuse whole numbers"
                self._refuse(path, f"{_WORDS_OF.get(word, word)} {reason}; a Rule can say it")

    def _check_extensions(self, schema: JSONObject, path: str) -> None:
        """Refuse extensions of Kubernetes that do not fit the type of the field."""
        for word, (kind, allowed) in _EXTENSIONS.items():
            if word in schema and (schema.get("type") != kind or schema[word] not in allowed):
                listed = ", ".join(map(str, allowed))
                reason = f"{word} must be one of {listed}, on a field of type {kind}"
                self._refuse(path, f"{reason}; got {schema[word]!r} on {schema.get('type')}")
        if schema.get("x-kubernetes-list-type") != "map":
            return
        keys, item = schema.get("x-kubernetes-list-map-keys"), schema["items"]
        if not keys:
            self._refuse(path, "is a keyed list and needs x-kubernetes-list-map-keys")
        for key in keys:
            field = item.get("properties", {}).get(key, {})
            is_set = key in item.get("required", ()) or "default" in field
            if field.get("type") not in _SCALARS or not is_set:
                reason = "must be a required field of its items, or have a default, and be a scalar"
                self._refuse(path, f"the key {key!r} of the list {reason}")

    def _check_places(self, schema: JSONObject, path: str) -> None:
        """Refuse extensions that do not fit, and defaults that are not valid by their schema.

        None in a field that may not be null stands for absent, as in the model.
        """
        self._check_extensions(schema, path)
        if "default" in schema:
            default = schema["default"] = _without_nulls(schema["default"], schema)
            for where, problem in _problems(default, schema):
                self._refuse(f"{path}{where}", f"has a default that the server refuses: {problem}")
        for name, field in schema.get("properties", {}).items():
            self._check_places(field, f"{path}.{name}" if path else name)
        for word, step in (("items", "[]"), ("additionalProperties", ".*")):
            if isinstance(schema.get(word), dict):
                self._check_places(schema[word], f"{path}{step}")

    def _fields(self, node: JSONObject, path: str) -> JSONObject:
        if "properties" in node:
            paths = {name: f"{path}.{name}" if path else name for name in node["properties"]}
            found: JSONObject = {
                "properties": {
                    name: self._convert(value, paths[name])
                    for name, value in node["properties"].items()
                }
            }
            required = list(node.get("required", ()))
            for name in required:
                if found["properties"].get(name, {}).get("nullable"):
                    reason = "may be None, which is never written, and must be there: let None be"
                    self._refuse(paths[name], f"{reason} its default")
            self._null_enums.difference_update(paths[name] for name in paths.keys() - required)
            if required:
                found["required"] = required
            return {**found, **ANYTHING} if node.get("additionalProperties") is True else found
        values = node.get("additionalProperties", True)
        if isinstance(values, bool):
            return dict(ANYTHING)
        return {"additionalProperties": self._convert(values, f"{path}.*")}

    def _items(self, node: JSONObject, path: str) -> JSONObject:
        if "prefixItems" in node:
            self._refuse(path, "is a list in which each place has a type of its own, like a tuple")
        found: JSONObject = {"items": self._convert(node.get("items", {}), f"{path}[]")}
        if node.get("uniqueItems"):
            if found["items"].get("type") in {"object", "array", None}:
                self._refuse(path, "is a set of objects or lists")
            found["x-kubernetes-list-type"] = "set"  # uniqueItems itself is refused: O(n^2)
        return found

    def _nullable(self, found: JSONObject, path: str) -> JSONObject:
        if "enum" not in found:
            return {**found, "nullable": True}
        # kube-apiserver refuses null in an enum, whether it lists null or not. Where a field is
        # not nullable, it takes null for absent, which is what the model's default stands for.
        self._null_enums.add(path)
        return found

    def _refuse(self, path: str, reason: str) -> NoReturn:
        raise InvalidModelError(self._model, path, reason)


@final
class _Comparison:
    """Compares the JSON Schema of what a model reads with that of what it writes.

    Fields that are only written are added to those that are read.
    """

    def __init__(self, model: str, read: JSONObject, written: JSONObject) -> None:
        self._model = model
        self._read: JSONObject = read.setdefault("$defs", {})
        self._written: JSONObject = written.get("$defs", {})
        for each, definition in self._written.items():  # perhaps of a computed field alone
            self._read.setdefault(each, definition)

    def check(self, read: JSONObject, written: JSONObject, path: str) -> None:
        """Refuse a field that is not written under its name, or with another type.

        A type that is not known may be the right one.
        """
        reads, writes = _kinds(read, self._read), _kinds(written, self._written)
        self._check_types(reads, writes, path)
        for word, step in (("items", "[]"), ("additionalProperties", ".*")):
            self._check_inner(_sole(reads, word), _sole(writes, word), f"{path}{step}")
        fields, found = _sole(reads, "properties"), _sole(writes, "properties")
        if fields is not None and found is not None:
            for name, field in fields.items():
                where = f"{path}.{name}" if path else name
                if where in {"apiVersion", "kind"}:  # they cannot be edited
                    continue
                if name not in found:
                    self._refuse(where, WRITTEN_OTHERWISE)
                if where != "metadata":  # what is in it is the server's, and a model may omit it
                    self._check_inner(field, found[name], where)
            # A computed field is written as others are: the server has to know it, to store it.
            fields.update({name: field for name, field in found.items() if name not in fields})

    def _check_inner(self, read: JSONValue, written: JSONValue, path: str) -> None:
        if isinstance(read, dict) and isinstance(written, dict):
            self.check(read, written, path)

    def _check_types(self, reads: list[JSONObject], writes: list[JSONObject], path: str) -> None:
        known, found = _types(reads), _types(writes)
        fits = known | {"integer"} if "number" in known else known
        if known and not found <= fits:
            words = " or ".join(sorted(known)), " or ".join(sorted(found))
            reason = "is read as {} and written as {}, which the server would refuse".format(*words)
            self._refuse(path, reason)

    def _refuse(self, path: str, reason: str) -> NoReturn:
        raise InvalidModelError(self._model, path, reason)


def _kinds(node: JSONObject, definitions: JSONObject) -> list[JSONObject]:
    """Return the alternatives of a place; null is not one."""
    if "$ref" in node:
        node = definitions.get(_name_of(node), {})
    for word in ("anyOf", "oneOf", "allOf"):
        if word in node:
            return [kind for each in node[word] for kind in _kinds(each, definitions)]
    return [] if node.get("type") == "null" else [node]


def _sole(kinds: list[JSONObject], word: str) -> JSONValue:
    """Return what the one alternative that has a keyword says there; None if several have it."""
    found = [kind[word] for kind in kinds if word in kind]
    return found[0] if len(found) == 1 else None


def _types(kinds: list[JSONObject]) -> set[str]:
    """Return the types that a place may have; none if one of them is not known."""
    if not all(isinstance(kind.get("type"), str) for kind in kinds):
        return set()
    return {kind["type"] for kind in kinds}


_NO_UNION = "the server knows one type for a field, or an integer or string, and null"
_KINDS: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}


def _name_of(node: JSONObject) -> str:
    return str(node["$ref"]).rpartition("/")[2]


def _described(node: JSONObject) -> JSONObject:
    """Return what any place may have beside its type."""
    found: JSONObject = {}
    # A dataclass without a docstring gets its signature for one.
    if node.get("description") and not node["description"].startswith(f"{node.get('title')}("):
        found["description"] = node["description"]
    if node.get("default") is not None:  # null is what an absent field is anyway
        found["default"] = node["default"]
    extensions = {name: value for name, value in node.items() if name.startswith("x-kubernetes-")}
    return {**found, **extensions}


def _format_of(node: JSONObject, kind: str) -> JSONObject:
    return {"format": node["format"]} if node.get("format") in _FORMATS[kind] else {}


def _without_nulls(value: JSONValue, schema: JSONObject) -> JSONValue:
    """Return a default without the fields that are null and may not be."""
    if isinstance(value, dict):
        fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
        return {
            name: _without_nulls(one, fields.get(name) or others or {})
            for name, one in value.items()
            if one is not None or name not in fields or _may_be_null(fields[name])
        }
    if isinstance(value, list | tuple):
        return [_without_nulls(one, schema.get("items") or {}) for one in value]
    return value


def _may_be_null(schema: JSONObject) -> bool:
    return bool(schema.get("nullable")) or schema.keys() & {"type", _INT_OR_STRING} == set()


def _problems(default: JSONValue, schema: JSONObject) -> Iterator[tuple[str, str]]:
    """Yield the places in a default that are not valid, and what is wrong."""
    yield from _not_finite(default, "")  # others assume JSON
    for _, path, sentence in objects.schema_causes(_as_stored(default), schema):
        where = f".{path}" if path and not path.startswith(("[", ".")) else path
        yield where, sentence.replace(f": {path} in body ", ": ").rstrip()
    yield from _unknown_fields(default, schema, "")


def _as_stored(value: JSONValue) -> JSONValue:
    """Return a default as the server has it, where 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _as_stored(one) for name, one in value.items()}
    return [_as_stored(one) for one in value] if isinstance(value, list) else value


def _not_finite(value: JSONValue, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path, f"JSON has no {value}"
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _not_finite(one, f"{path}.{name}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _not_finite(one, f"{path}[{number}]")


def _unknown_fields(value: JSONValue, schema: JSONObject, path: str) -> Iterator[tuple[str, str]]:
    """Yield fields of a default that the server would drop."""
    if isinstance(value, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, one in value.items():
            known = fields.get(name, others)
            if known is None:
                yield f"{path}.{name}", "must not have unknown fields"
            else:
                yield from _unknown_fields(one, known, f"{path}.{name}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _unknown_fields(one, schema.get("items") or {}, f"{path}[{number}]")


def _bounds_of(node: JSONObject) -> JSONObject:
    """Return exclusive bounds as OpenAPI v3 has them: a bound, and whether it counts."""
    found: JSONObject = {}
    for word, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if exclusive in node:
            found[word], found[exclusive] = node[exclusive], True
    return found
