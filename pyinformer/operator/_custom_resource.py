"""Custom resources that are declared on their model, and their CustomResourceDefinition.

The declaration is stored on the class; there is no registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar, final, get_args

from pyinformer.apimachinery import GroupVersionResource, JSONObject, JSONValue, check_choice
from pyinformer.errors import InvalidArgumentError, InvalidModelError, InvalidTypeError
from pyinformer.operator._schema import structural_schema

ResourceScope: TypeAlias = Literal["Namespaced", "Cluster"]
M = TypeVar("M")

_ATTRIBUTE: Final = "__custom_resource__"
_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CustomResource:
    """The names of a custom resource, and how `kubectl get` shows it."""

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
    """The columns of `kubectl get`: titles, and paths such as `status.ready`."""


def custom_resource(
    api_version: str,
    plural: str,
    *,
    kind: str | None = None,
    scope: ResourceScope = "Namespaced",
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
) -> Callable[[type[M]], type[M]]:
    """Declare the custom resource of a model: a decorator that returns the same class.

        @custom_resource("acme.io/v1", "databases", columns={"Ready": "status.ready"})
        class Database(msgspec.Struct):
            spec: DatabaseSpec
            status: DatabaseStatus = DatabaseStatus()

    A model with a field `status` gets the status subresource.

    Args:
        api_version: `group/version`.
        plural: the resource's plural name, as in its URL.
        kind: the kind of its objects; None for the name of the class.
        scope: whether its objects are in namespaces.
        short_names: short names for `kubectl get`.
        categories: the groups in which `kubectl get` shows it, such as `all`.
        columns: the columns of `kubectl get`: a title, and the path of a field. The age is last.

    Raises:
        InvalidArgumentError: a custom resource cannot have such a name.
    """
    resource = _resource(api_version, plural)
    check_choice("scope", scope, get_args(ResourceScope))
    for name, words in (("short_names", short_names), ("categories", categories)):
        if isinstance(words, str):
            raise InvalidArgumentError(name, f"must be a list: [{words!r}]")

    def declare(model: type[M]) -> type[M]:
        declared = CustomResource(
            resource=resource,
            kind=kind or model.__name__,
            scope=scope,
            short_names=tuple(short_names),
            categories=tuple(categories),
            columns=tuple((columns or {}).items()),
        )
        setattr(model, _ATTRIBUTE, declared)
        return model

    return declare


def _resource(api_version: str, plural: str) -> GroupVersionResource:
    resource = GroupVersionResource.of(api_version, plural)
    if "." not in resource.group:
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
        InvalidModelError: a definition cannot describe a field; names the field.

    Source:
        apiextensions.k8s.io/v1; structural schemas.
    """
    declared = declared_resource(model) if isinstance(model, type) else None
    if declared is None:
        name = getattr(model, "__name__", repr(model))
        reason = f"{name} must be decorated with @custom_resource(...)"
        raise InvalidTypeError("model", reason)
    return definition_of(model, declared)


def definition_of(model: type, declared: CustomResource) -> JSONObject:
    """Return the CustomResourceDefinition of a model under a given declaration."""
    schema = structural_schema(model)
    resource, kind = declared.resource, declared.kind
    names: JSONObject = {"plural": resource.resource, "singular": kind.lower(), "kind": kind}
    if declared.short_names:
        names["shortNames"] = list(declared.short_names)
    if declared.categories:
        names["categories"] = list(declared.categories)
    version: JSONObject = {"name": resource.version, "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": schema}
    if "status" in schema["properties"]:
        version["subresources"] = {"status": {}}
    if declared.columns:
        columns = [_column(model, title, path, schema) for title, path in declared.columns]
        version["additionalPrinterColumns"] = [*columns, dict(_AGE)]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.resource}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": declared.scope,
            "versions": [version],
        },
    }


def _column(model: type, title: str, path: str, schema: JSONObject) -> JSONObject:
    field: JSONValue = schema
    names = path.removeprefix(".").split(".")
    for name in names:
        field = field.get("properties", {}).get(name) if isinstance(field, dict) else None
        if field == {"type": "object"} and name == "metadata":
            return {"name": title, "type": "string", "jsonPath": f".{'.'.join(names)}"}
    if field is None:
        reason = f"the model has no such field, which the column {title!r} shows"
        raise InvalidModelError(model.__name__, path, reason)
    kind = "date" if field.get("format") == "date-time" else field.get("type", "string")
    if kind in {"object", "array"}:
        kind = "string"  # which shows it as JSON
    return {"name": title, "type": kind, "jsonPath": f".{'.'.join(names)}"}
