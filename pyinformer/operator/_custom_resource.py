"""Custom resources that are declared on their model, and their CustomResourceDefinition.

The declaration is stored on the class; there is no registry.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar, final, get_args

from pyinformer.errors import InvalidArgumentError, InvalidModelError, InvalidTypeError
from pyinformer.objects import GroupVersionResource, JSONObject, check_choice, check_iterable
from pyinformer.operator._schema import ANYTHING, structural_schema

ResourceScope: TypeAlias = Literal["Namespaced", "Cluster"]
M = TypeVar("M")

_ATTRIBUTE: Final = "__custom_resource__"
_LABEL: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,58}")  # with `List` at most 63
_DNS_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_MAX_NAME, _MAX_LABEL = 253, 63
# Groups of Kubernetes itself need a review, or say that they have none.
_PROTECTED: Final = re.compile(r"(.+\.)?(k8s|kubernetes)\.io")
_UNAPPROVED: Final = {"api-approved.kubernetes.io": "unapproved"}
# A step of a column's path: a name, or an item of a list, by number or by one of its fields.
_STEP: Final = re.compile(
    r"\.?(?P<name>[^.\[\]]+)"
    r"""|\[(?:\d+|\*|\?\(@\.(?P<field>[\w.]+) ?== ?(?:"[^"\\]*"|'[^'\\]*'|\d+|true|false)\))\]"""
)
_PARENT_TYPE: Final = "applyset.kubernetes.io/is-parent-type"
_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The fields of the scale subresource, with which `kubectl scale` and autoscalers work."""

    spec_replicas_path: str = "spec.replicas"
    """The wanted number of replicas: an integer under `spec`."""
    status_replicas_path: str = "status.replicas"
    """The observed number of replicas: an integer under `status`."""
    label_selector_path: str | None = None
    """The selector of the pods, as text: a string under `status` or `spec`. A
    HorizontalPodAutoscaler needs it; None for none."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CustomResource:
    """One version of a custom resource: its names, and how `kubectl get` shows it."""

    resource: GroupVersionResource
    """Its group, version and plural name."""
    kind: str
    """The kind of its objects."""
    scope: ResourceScope = "Namespaced"
    """Whether its objects are in namespaces."""
    short_names: tuple[str, ...] = ()
    """Short names for `kubectl get`."""
    categories: tuple[str, ...] = ()
    """The groups in which `kubectl get` shows it, such as `all`."""
    columns: tuple[tuple[str, str], ...] = ()
    """The columns of `kubectl get`: titles, and paths such as `status.ready` or
    `status.conditions[?(@.type=="Ready")].status`."""
    scale: Scale | None = None
    """The scale subresource; None for none."""
    served: bool = True
    """Whether clients can use this version."""
    storage: bool = True
    """Whether objects are stored in this version: true for one version of a resource."""
    versions: tuple[type, ...] = ()
    """The models of its other versions."""


def custom_resource(
    api_version: str,
    plural: str,
    *,
    kind: str | None = None,
    scope: ResourceScope = "Namespaced",
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    scale: Scale | None = None,
    served: bool = True,
    storage: bool = True,
    versions: Sequence[type] = (),
) -> Callable[[type[M]], type[M]]:
    """Declare the custom resource of a model: a decorator that returns the same class.

        @custom_resource("acme.io/v1", "databases", columns={"Ready": "status.ready"})
        class Database(msgspec.Struct):
            spec: DatabaseSpec
            status: DatabaseStatus = DatabaseStatus()

    A model with a field `status` gets the status subresource. A resource with several versions has
    a model for each, and one of them names the others:

        @custom_resource("acme.io/v1beta1", "databases", kind="Database", storage=False)
        class OldDatabase(msgspec.Struct): ...

        @custom_resource("acme.io/v1", "databases", versions=[OldDatabase])
        class Database(msgspec.Struct): ...

    The server converts between versions by changing `apiVersion`, and drops fields that a version
    does not have, unless functions of an `Operator` convert them: see `Operator.convert`.

    Args:
        api_version: `group/version`.
        plural: the resource's plural name, as in its URL.
        kind: the kind of its objects; None for the name of the class.
        scope: whether its objects are in namespaces.
        short_names: short names for `kubectl get`.
        categories: the groups in which `kubectl get` shows it, such as `all`.
        columns: the columns of `kubectl get`: a title, and the path of a field, such as
            `status.ready` or `status.conditions[?(@.type=="Ready")].status`. The age is last,
            unless a column has its title.
        scale: the scale subresource, `Scale()` for `spec.replicas` and `status.replicas`; None for
            none.
        served: whether clients can use this version.
        storage: whether objects are stored in this version: true for one version of a resource.
        versions: the models of the other versions.

    Raises:
        InvalidArgumentError: a custom resource cannot have such a name, or an argument is of
            another type.
    """
    resource = _resource(api_version, plural)
    check_choice("scope", scope, get_args(ResourceScope))
    _check_labels("plural", [plural])
    for name, words in (("short_names", short_names), ("categories", categories)):
        if isinstance(words, str):
            raise InvalidArgumentError(name, f"must be a list: [{words!r}]")
        check_iterable(name, words, shown="a sequence of texts")
        _check_labels(name, words)
    if scale is not None and not isinstance(scale, Scale):
        raise InvalidArgumentError("scale", f"must be Scale(...), not {scale!r}")
    if columns is not None and not isinstance(columns, Mapping):
        reason = f"must be a dict such as {{'Ready': 'status.ready'}}, not {columns!r}"
        raise InvalidArgumentError("columns", reason)
    if isinstance(versions, type):
        raise InvalidArgumentError("versions", f"must be a list: [{versions.__name__}]")
    check_iterable("versions", versions, shown="a sequence of models", items=type)

    def declare(model: type[M]) -> type[M]:
        declared = CustomResource(
            resource=resource,
            kind=kind or model.__name__,
            scope=scope,
            short_names=tuple(short_names),
            categories=tuple(categories),
            columns=tuple((columns or {}).items()),
            scale=scale,
            served=served,
            storage=storage,
            versions=tuple(versions),
        )
        setattr(model, _ATTRIBUTE, declared)
        return model

    return declare


def _check_labels(argument: str, words: Iterable[str]) -> None:
    """Refuse words that the server does not take: DNS labels with a letter first."""
    for word in words:
        if not isinstance(word, str) or not _LABEL.fullmatch(word):
            reason = "must be lower-case letters, digits and '-', at most 63, with a letter first"
            raise InvalidArgumentError(argument, f"{reason}; got {word!r}")


def _resource(api_version: str, plural: str) -> GroupVersionResource:
    resource = GroupVersionResource.of(api_version, plural)
    name = f"{resource.resource}.{resource.group}"
    is_name = _DNS_NAME.fullmatch(resource.group) and len(name) <= _MAX_NAME
    if not is_name or len(resource.version) > _MAX_LABEL:
        reason = f"must have a group with a dot, such as acme.io/v1, not {api_version!r}"
        raise InvalidArgumentError("api_version", reason)
    return resource


def declared_resource(model: type) -> CustomResource | None:
    """Return the declaration of this class, not of a base; None without one."""
    declared = vars(model).get(_ATTRIBUTE)
    return declared if isinstance(declared, CustomResource) else None


def custom_resource_definition(model: type) -> JSONObject:
    """Return the CustomResourceDefinition of a model that `custom_resource` declares.

    The dict is yours: create it on a server, write it into a file, or add fields that a model
    cannot declare.

    Args:
        model: a msgspec Struct, a dataclass or a pydantic model.

    Raises:
        InvalidTypeError: the class declares no custom resource.
        InvalidModelError: a definition cannot describe a field, or the versions do not fit
            together; names the field.

    Source:
        apiextensions.k8s.io/v1; structural schemas.
    """
    return definition_of(model, declaration_of(model))


def declaration_of(model: type) -> CustomResource:
    """Return the declaration of this class.

    Raises:
        InvalidTypeError: it has none.
    """
    declared = declared_resource(model) if isinstance(model, type) else None
    if declared is None:
        name = getattr(model, "__name__", repr(model))
        reason = f"{name} must be decorated with @custom_resource(...)"
        raise InvalidTypeError("model", reason)
    return declared


def definition_of(model: type, declared: CustomResource) -> JSONObject:
    """Return the CustomResourceDefinition of a model under a given declaration."""
    versions = {model: declared}
    for other in declared.versions:
        versions[other] = declaration_of(other)
        _check_names(model, declared, other, versions[other])
    _check_storage(model, versions)
    if not _KIND.fullmatch(declared.kind):
        reason = f"a kind is 1 to 59 letters and digits, such as Database: not {declared.kind!r}"
        raise InvalidModelError(model.__name__, "", f"{reason}; give kind= another")
    resource, kind = declared.resource, declared.kind
    names: JSONObject = {"plural": resource.resource, "singular": kind.lower(), "kind": kind}
    if declared.short_names:
        names["shortNames"] = list(declared.short_names)
    if declared.categories:
        names["categories"] = list(declared.categories)
    spec: JSONObject = {"group": resource.group, "names": names, "scope": declared.scope}
    if len(versions) > 1:
        spec["conversion"] = {"strategy": "None"}
    spec["versions"] = [_version(each, its) for each, its in versions.items()]
    metadata: JSONObject = {"name": f"{resource.resource}.{resource.group}"}
    if _PROTECTED.fullmatch(resource.group):
        metadata["annotations"] = dict(_UNAPPROVED)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def definitions_of(models: Iterable[tuple[type, CustomResource]]) -> list[JSONObject]:
    """Return the definitions of several models; versions of one resource share theirs.

    Raises:
        InvalidModelError: two versions of a resource, neither of which names the other.
    """
    given = list(models)
    others = {other for _, declared in given for other in declared.versions}
    found: dict[tuple[str, str], tuple[type, CustomResource]] = {}
    for model, declared in given:
        if model in others:
            continue
        resource = (declared.resource.group, declared.resource.resource)
        first, its = found.setdefault(resource, (model, declared))
        if its.resource != declared.resource:
            versions = f"{declared.resource.api_version} and {its.resource.api_version}"
            cure = f"declare {first.__name__} with versions=[{model.__name__}]"
            reason = f"{resource[1]} of {versions} are two versions of one resource: {cure}"
            raise InvalidModelError(model.__name__, "", reason)
    return [definition_of(model, declared) for model, declared in found.values()]


def label_parents(definitions: Iterable[JSONObject], owners: Collection[str]) -> list[JSONObject]:
    """Return definitions of which those of owners of ApplySets have the label of such a kind.

    Args:
        definitions: the definitions.
        owners: the names of those whose objects have children.

    Source:
        KEP-3659, ApplySet specification: custom kinds as parents.
    """
    return [
        {**one, "metadata": {**one["metadata"], "labels": {_PARENT_TYPE: "true"}}}
        if one["metadata"]["name"] in owners
        else one
        for one in definitions
    ]


def _check_names(model: type, declared: CustomResource, other: type, its: CustomResource) -> None:
    """Refuse another version whose names or scope differ."""
    mine = (declared.resource.group, declared.resource.resource, declared.kind, declared.scope)
    theirs = (its.resource.group, its.resource.resource, its.kind, its.scope)
    for word, one, two in zip(("group", "plural name", "kind", "scope"), mine, theirs, strict=True):
        if one != two:
            reason = f"all versions have one {word}; it is {one!r}, and {two!r} in {other.__name__}"
            raise InvalidModelError(model.__name__, "", reason)
    for option, value in (
        ("versions", its.versions),
        ("short_names", its.short_names),
        ("categories", its.categories),
    ):
        if value:
            reason = f"{option} belongs to {model.__name__}; remove it from {other.__name__}"
            raise InvalidModelError(model.__name__, "", reason)


def _check_storage(model: type, versions: Mapping[type, CustomResource]) -> None:
    """Refuse versions of one name, and anything but one storage version."""
    names = [declared.resource.version for declared in versions.values()]
    if len(set(names)) < len(names):
        reason = f"each version needs a model of its own, got {', '.join(names)}"
        raise InvalidModelError(model.__name__, "", reason)
    stored = [each.__name__ for each, declared in versions.items() if declared.storage]
    if not stored:
        reason = "no version is the storage version: declare one without storage=False"
        if len(versions) == 1:
            reason += ", or get the definition of the model that names this one in versions="
        raise InvalidModelError(model.__name__, "", reason)
    if len(stored) > 1:
        listed = " and ".join(stored)
        reason = f"{listed} are both the storage version: declare all but one with storage=False"
        raise InvalidModelError(model.__name__, "", reason)


def _version(model: type, declared: CustomResource) -> JSONObject:
    schema = structural_schema(model)
    version: JSONObject = {
        "name": declared.resource.version,
        "served": declared.served,
        "storage": declared.storage,
        "schema": {"openAPIV3Schema": schema},
    }
    subresources: JSONObject = {"status": {}} if "status" in schema["properties"] else {}
    if declared.scale is not None:
        subresources["scale"] = _scale(model, declared.scale, schema)
    if subresources:
        version["subresources"] = subresources
    if declared.columns:
        columns = [_column(model, title, path, schema) for title, path in declared.columns]
        own = [] if any(title == _AGE["name"] for title, _ in declared.columns) else [dict(_AGE)]
        version["additionalPrinterColumns"] = [*columns, *own]
    return version


def _scale(model: type, scale: Scale, schema: JSONObject) -> JSONObject:
    found = {
        "specReplicasPath": (scale.spec_replicas_path, ("spec",), "integer"),
        "statusReplicasPath": (scale.status_replicas_path, ("status",), "integer"),
        "labelSelectorPath": (scale.label_selector_path, ("status", "spec"), "string"),
    }
    for name, (path, parts, kind) in found.items():
        if path is None:
            continue
        names = _names_in(path)
        if names[0] not in parts or _at(schema, names).get("type") != kind:
            place = " or ".join(parts)
            reason = f"{name} of the scale subresource must be of type {kind}, under {place}"
            raise InvalidModelError(model.__name__, path, reason)
    return {name: f".{'.'.join(_names_in(path))}" for name, (path, _, _) in found.items() if path}


def _names_in(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _at(schema: JSONObject, names: Sequence[str]) -> JSONObject:
    """Return the schema of a field; empty if there is no such field.

    An open object, such as one of `dict[str, Any]`, may have any field, of which nothing is known.
    """
    field: JSONObject = schema
    for name in names:
        rest = field.get("additionalProperties") or (ANYTHING if _is_open(field) else {})
        field = field.get("properties", {}).get(name, rest)
    return field


def _is_open(schema: JSONObject) -> bool:
    return ANYTHING.items() <= schema.items()


def _column(model: type, title: str, path: str, schema: JSONObject) -> JSONObject:
    if not title:
        raise InvalidModelError(model.__name__, path, "a column must have a title")
    path = path.removeprefix(".")
    found = {"name": title, "type": "string", "jsonPath": f".{path}"}
    if re.match(r"metadata\b", path):  # whose schema the server has
        return {**found, "type": "date"} if path.endswith("Timestamp") else found
    field = _shown(schema, path)
    if not field:
        reason = f"the model has no such field, which the column {title!r} shows"
        if "[" in path:
            reason += '; items of a list are chosen by [0], [*] or [?(@.type=="Ready")]'
        raise InvalidModelError(model.__name__, path, reason)
    kind = "date" if field.get("format") == "date-time" else field.get("type", "string")
    if kind not in {"object", "array"}:  # which it shows as JSON text
        found["type"] = kind
    return found


def _shown(schema: JSONObject, path: str) -> JSONObject:
    """Return the schema of what a column shows; empty if there is no such field."""
    field, at = schema if path else {}, 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return {}
        if step["name"] is not None:
            field = _at(field, [step["name"]])
        else:
            field = field.get("items") or (ANYTHING if _is_open(field) else {})
            if step["field"] and not _at(field, step["field"].split(".")):
                return {}
        at = step.end()
    return field
