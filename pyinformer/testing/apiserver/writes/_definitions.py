"""CustomResourceDefinitions: which are refused, what the server adds to them, and how they end.

Nothing is stored here. No argument is changed, unless a docstring says "in place".

Source:
    apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go,
    pkg/apiserver/schema/validation.go and pkg/controller/finalizer/crd_finalizer.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pyinformer.objects import JSONObject, JSONValue, re2_problem, schema_causes
from pyinformer.objects import SchemaCause as Cause
from pyinformer.testing.apiserver.requests import failures
from pyinformer.testing.apiserver.resources import ResourceType

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
"""The resource."""

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer of a definition whose objects are being deleted."""

_COLUMNS: Final = "spec.additionalPrinterColumns"
_INVALID: Final = "FieldValueInvalid"
_REQUIRED: Final = "FieldValueRequired"
_SCHEMA: Final = "spec.validation.openAPIV3Schema"
_UNTYPED: Final = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string")
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_ALL_TYPES: Final = ", ".join(f'"{one}"' for one in _TYPES)
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
    " alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123',"
    " regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def complete(body: JSONObject) -> None:
    """Set the names and the conversion that a new definition lacks, in place."""
    spec = body["spec"] = dict(body.get("spec") or {})
    names = spec["names"] = dict(spec.get("names") or {})
    kind = str(names.get("kind") or "")
    if kind:
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def refresh_status(body: JSONObject) -> None:
    """Set the status that follows from the spec, in place: stored versions and names."""
    spec, status = body.get("spec") or {}, dict(body.get("status") or {})
    stored = list(status.get("storedVersions") or ())
    names = [str(one["name"]) for one in spec.get("versions") or () if one.get("storage")]
    status["storedVersions"] = stored + [name for name in names if name not in stored]
    status["acceptedNames"] = spec.get("names") or {}
    body["status"] = status


def is_terminating(body: JSONObject) -> bool:
    """Return whether the objects of a definition are being deleted, so that none is created."""
    return CLEANUP in (body["metadata"].get("finalizers") or ())


def doomed(body: JSONObject, now: str) -> JSONObject:
    """Return a deleted definition that waits for the end of its objects."""
    metadata = body["metadata"]
    finalizers = [*(metadata.get("finalizers") or ()), CLEANUP]
    status = body.get("status") or {}
    others = [one for one in status.get("conditions") or () if one["type"] != "Terminating"]
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionInProgress",
        "message": "CustomResource deletion is in progress",
    }
    return {
        **body,
        "metadata": {**metadata, "finalizers": finalizers, "deletionTimestamp": now},
        "status": {**status, "conditions": [*others, condition]},
    }


def released(body: JSONObject) -> JSONObject:
    """Return a definition whose objects are gone."""
    metadata = body["metadata"]
    finalizers = [one for one in metadata.get("finalizers") or () if one != CLEANUP]
    kept = {name: value for name, value in metadata.items() if name != "finalizers"}
    return {**body, "metadata": {**kept, **({"finalizers": finalizers} if finalizers else {})}}


def check_definition(resource: ResourceType, body: JSONObject) -> None:
    """Refuse a definition that a real server refuses, as far as programs generate such.

    Raises:
        Failure: 422, with one cause per finding.
    """
    if resource.qualified_name != DEFINITIONS:
        return
    causes = [*_identity(body), *_versions(body), *_stored(body)]
    if causes:
        raise failures.invalid(resource.kind, resource.group, str(body["metadata"]["name"]), causes)


def _identity(body: JSONObject) -> Iterator[Cause]:
    spec = body["spec"]
    names, group = spec.get("names") or {}, str(spec.get("group") or "")
    if body["metadata"]["name"] != f"{names.get('plural')}.{group}":
        sentence = 'must be spec.names.plural+"."+spec.group'
        yield _invalid("metadata.name", body["metadata"]["name"], sentence)
    if not group:
        yield _REQUIRED, "spec.group", "Required value"
    elif "." not in group:
        yield _invalid("spec.group", group, "should be a domain with at least one dot")
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        if spec.get("scope"):
            sentence = (
                f'Unsupported value: "{spec["scope"]}": supported values: "Cluster", "Namespaced"'
            )
            yield "FieldValueNotSupported", "spec.scope", sentence
        else:
            yield _REQUIRED, "spec.scope", "Required value"
    for field in ("plural", "singular", "kind", "listKind"):
        text = str(names.get(field) or "")
        if not text:
            yield _REQUIRED, f"spec.names.{field}", "Required value"
        elif not _LABEL.fullmatch(text.lower() if "ind" in field else text):
            yield _invalid(f"spec.names.{field}", text, _LABEL_RULE)


def _versions(body: JSONObject) -> Iterator[Cause]:
    versions = body["spec"].get("versions") or []
    if sum(bool(one.get("storage")) for one in versions) != 1:
        sentence = "must have exactly one version marked as storage version"
        yield _INVALID, "spec.versions", f"Invalid value: {sentence}"
    for number, version in enumerate(versions):
        path = f"spec.versions[{number}]"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not _LABEL.fullmatch(str(version.get("name") or "")):
            yield _invalid(f"{path}.name", str(version.get("name")), _LABEL_RULE)
        if not isinstance(schema, dict):
            yield _REQUIRED, f"{path}.schema.openAPIV3Schema", "Required value"
            continue
        where = _SCHEMA if len(versions) == 1 else f"{path}.schema.openAPIV3Schema"
        if not schema.get("type"):
            yield _REQUIRED, f"{where}.type", "Required value: must not be empty at the root"
        yield from _structure(schema, where, is_root=True)
        columns = f"{path}.additionalPrinterColumns" if len(versions) > 1 else _COLUMNS
        for place, column in enumerate(version.get("additionalPrinterColumns") or ()):
            if column.get("type") not in _COLUMN_TYPES:
                sentence = f"must be one of {','.join(_COLUMN_TYPES)}"
                yield _invalid(f"{columns}[{place}].type", str(column.get("type")), sentence)


def _structure(schema: JSONObject, path: str, *, is_root: bool = False) -> Iterator[Cause]:
    """Yield what makes a schema not structural, and defaults that it does not allow itself."""
    yield from _own(schema, path, is_root=is_root)
    yield from _list_keys(schema, path)
    properties = schema.get("properties") or {}
    for name, below in properties.items():
        if is_root and name == "metadata":
            yield from _metadata(below, f"{path}.properties[metadata]")
        elif isinstance(below, dict) and not (is_root and name in ("apiVersion", "kind")):
            yield from _structure(below, f"{path}.properties[{name}]")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from _structure(schema[word], f"{path}.{word}")


def _own(schema: JSONObject, path: str, *, is_root: bool) -> Iterator[Cause]:
    """Yield what is wrong with a schema itself, without those below it."""
    is_open = any(schema.get(one) is True for one in _UNTYPED)
    if not (is_root or schema.get("type") or is_open):
        yield _REQUIRED, f"{path}.type", "Required value: must not be empty for specified fields"
    if schema.get("type") and schema["type"] not in _TYPES:
        sentence = f'Unsupported value: "{schema["type"]}": supported values: {_ALL_TYPES}'
        yield "FieldValueNotSupported", f"{path}.type", sentence
    if schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
        yield _REQUIRED, f"{path}.items", "Required value: must be specified"
    if schema.get("uniqueItems") is True:
        sentence = (
            "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes"
            " quadratic"
        )
        yield "FieldValueForbidden", f"{path}.uniqueItems", sentence
    is_embedded = schema.get("x-kubernetes-embedded-resource") is True
    is_pruned = schema.get("x-kubernetes-preserve-unknown-fields") is not True
    if is_embedded and is_pruned and not schema.get("properties"):
        sentence = (
            "Required value: must not be empty if x-kubernetes-embedded-resource is true without"
            " x-kubernetes-preserve-unknown-fields"
        )
        yield _REQUIRED, f"{path}.properties", sentence
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and (problem := re2_problem(pattern)):
        sentence = f"must be a valid regular expression, but isn't: {problem}"
        yield _invalid(f"{path}.pattern", pattern, sentence)
    if "default" in schema:
        for reason, field, sentence in schema_causes(schema["default"], schema):
            yield reason, f"{path}.default{'.' if field else ''}{field}", sentence


def _metadata(schema: JSONValue, path: str) -> Iterator[Cause]:
    known = set((schema or {}).get("properties") or ()) if isinstance(schema, dict) else set()
    if known - {"name", "generateName"}:
        sentence = (
            "Forbidden: must not specify anything other than name and generateName, but metadata is"
            " implicitly specified"
        )
        yield "FieldValueForbidden", path, sentence


def _list_keys(schema: JSONObject, path: str) -> Iterator[Cause]:
    if schema.get("x-kubernetes-list-type") != "map":
        return
    items = schema.get("items")
    if not isinstance(items, dict):
        return
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        below = (items.get("properties") or {}).get(key) or {}
        if "default" not in below and key not in (items.get("required") or ()):
            sentence = (
                "Required value: this property is in x-kubernetes-list-map-keys, so it must have a"
                " default or be a required property"
            )
            yield _REQUIRED, f"{path}.items.properties[{key}].default", sentence


def _stored(body: JSONObject) -> Iterator[Cause]:
    versions = {str(one.get("name")) for one in body["spec"].get("versions") or ()}
    for number, name in enumerate((body.get("status") or {}).get("storedVersions") or ()):
        if name not in versions:
            sentence = (
                f"missing from spec.versions; {name} was previously a storage version, and must"
                " remain in spec.versions until a storage migration ensures no data remains"
                f" persisted in {name} and removes {name} from status.storedVersions"
            )
            yield _invalid(f"status.storedVersions[{number}]", str(name), sentence)


def _invalid(path: str, value: str, why: str) -> Cause:
    return _INVALID, path, f'Invalid value: "{value}": {why}'
