"""The merge schema of objects: which maps and lists are atomic, and the keys of list items.

Server-side apply and strategic merge need it for every field. Built-in types are described by a
table of field names, custom ones by their OpenAPI schema.

Source:
    x-kubernetes-list-type, -list-map-keys, -map-type, -patch-strategy and -patch-merge-key in the
    OpenAPI document of kube-apiserver 1.37.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

from pyinformer.objects import JSONObject, JSONValue

_NAME = ("name",)
_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
_LIST_KEYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_CONTAINER_LISTS, _NAME),
    **{f"{containers}.ports": ("containerPort", "protocol") for containers in _CONTAINER_LISTS},
    "spec.ports": ("port", "protocol"),
    "metadata.finalizers": (),
    "metadata.ownerReferences": ("uid",),
    "resources.claims": _NAME,
    "spec.podCIDRs": (),
    "spec.resourceClaims": _NAME,
    "status.addresses": ("type",),
    "status.conditions": ("type",),
    "status.podIPs": ("ip",),
    "env": _NAME,
    "hostAliases": ("ip",),
    "imagePullSecrets": _NAME,
    "schedulingGates": _NAME,
    "secrets": _NAME,
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": _NAME,
    "webhooks": _NAME,
    "matchConditions": _NAME,
    "spec.variables": _NAME,
    "spec.validationActions": (),
}
"""The item keys of keyed lists in built-in types, by the end of their path; () is a set."""
_ATOMIC_LISTS = {
    "jobs.batch": ("status.conditions",),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": ("spec.variables",),
}
_ATOMIC_MAPS = frozenset(
    (
        "configMapKeyRef",
        "dataSource",
        "fieldRef",
        "imagePullSecrets",
        "involvedObject",
        "labelSelector",
        "matchConstraints",
        "matchResources",
        "namespaceSelector",
        "nodeSelector",
        "objectSelector",
        "ownerReferences",
        "paramKind",
        "paramRef",
        "podSelector",
        "preference",
        "regarding",
        "related",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "resourceFieldRef",
        "roleRef",
        "scopeSelector",
        "secretKeyRef",
        "secretRef",
        "secrets",
        "selector",
        "service.port",
        "targetRef",
    )
)
"""Atomic maps and items of built-in types, by the end of their path."""
_OTHER_MERGE_KEYS = {"status.hostIPs": "ip", "resources.claims": None}
"""Lists whose strategic merge key is not the first of the list keys."""
_KEPT_FIELDS = 128  # more than any type has
_WITHOUT_OWNER = frozenset(
    (
        "metadata",
        "spec",
        "status",
        "template",
        "jobTemplate",
        "containers",
        "names",
        "resources",
        "scaleTargetRef",
        "strategy",
        "updateStrategy",
    )
)
"""Fields that a Go struct always has: a write below them does not write the field itself."""
_KEY_DEFAULTS: dict[str, JSONValue] = {"protocol": "TCP"}


class Shape(Protocol):
    """The merge rules of one place in an object."""

    @property
    def is_atomic_map(self) -> bool:
        """Whether a map here is atomic: owned and replaced as a whole."""
        ...

    @property
    def list_keys(self) -> tuple[str, ...] | None:
        """The fields that identify items of a list here; () for a set, None for an atomic list."""
        ...

    @property
    def is_implied(self) -> bool:
        """Whether only the fields below this place have owners."""
        ...

    def declares(self, name: str) -> bool:
        """Return whether a name here is a field of the type, not a key of a free map."""
        ...

    def field(self, name: str) -> Shape:
        """Return the place of a field of the map here."""
        ...

    def item(self) -> Shape:
        """Return the place of the items of the list here."""
        ...


@final
class BuiltInShape:
    """The merge rules of one place in an object of a built-in type.

    Places are cached, since every write visits them again; keys of free maps are not.

    Args:
        resource: `pods` or `deployments.apps`; "" if the rules do not depend on it.
        names: the fields that lead here.

    Attributes:
        merge_key: the field by which strategic merge identifies items; "" for plain values, None if
            the list is replaced.
    """

    def __init__(self, resource: str, names: tuple[str, ...] = ()) -> None:
        self._resource = resource
        self._names = names
        self._fields: dict[str, BuiltInShape] = {}
        last, end = names[-1] if names else "", ".".join(names[-2:])
        keys = _LIST_KEYS.get(end, _LIST_KEYS.get(last))
        is_atomic_list = end in _ATOMIC_LISTS.get(resource, ())
        self.is_atomic_map: bool = last in _ATOMIC_MAPS or end in _ATOMIC_MAPS
        self.list_keys: tuple[str, ...] | None = None if is_atomic_list else keys
        is_of_container = last == "resources" and names[-2:-1] and names[-2] in _CONTAINER_LISTS
        self.is_implied: bool = not names or (last in _WITHOUT_OWNER and not is_of_container)
        self.merge_key: str | None = None if keys is None else (*keys, "")[0]
        if end in _OTHER_MERGE_KEYS:
            self.merge_key = _OTHER_MERGE_KEYS[end]

    def declares(self, name: str) -> bool:
        """See Shape."""
        return bool(name)

    def field(self, name: str) -> BuiltInShape:
        """See Shape."""
        found = self._fields.get(name)
        if found is None:
            found = BuiltInShape(self._resource, (*self._names, name))
            if len(self._fields) < _KEPT_FIELDS:
                self._fields[name] = found
        return found

    def item(self) -> BuiltInShape:
        """See Shape; items add nothing to the names."""
        return self


@final
@dataclass(frozen=True, slots=True)
class SchemaShape:
    """The merge rules of one place in a custom resource, from its OpenAPI schema; {} has none."""

    schema: JSONObject
    is_root: bool = False

    @property
    def is_atomic_map(self) -> bool:
        """See Shape."""
        return self.schema.get("x-kubernetes-map-type") == "atomic"

    @property
    def list_keys(self) -> tuple[str, ...] | None:
        """See Shape."""
        match self.schema.get("x-kubernetes-list-type"):
            case "set":
                return ()
            case "map":
                return tuple(self.schema.get("x-kubernetes-list-map-keys") or ()) or None
        return None

    @property
    def is_implied(self) -> bool:
        """See Shape."""
        return self.is_root

    def declares(self, name: str) -> bool:
        """See Shape."""
        return name in (self.schema.get("properties") or {}) or (self.is_root and name in _ROOT)

    def field(self, name: str) -> Shape:
        """See Shape."""
        if self.is_root and name == "metadata":
            return BuiltInShape("", (name,))
        properties = self.schema.get("properties") or {}
        found = properties.get(name, self.schema.get("additionalProperties"))
        return SchemaShape(found if isinstance(found, dict) else {})

    def item(self) -> SchemaShape:
        """See Shape."""
        found = self.schema.get("items")
        return SchemaShape(found if isinstance(found, dict) else {})


_ROOT = ("apiVersion", "kind", "metadata")


def identity_of(item: JSONValue, keys: tuple[str, ...]) -> JSONObject | None:
    """Return the key values of an item of a keyed list; None if one is missing."""
    if not isinstance(item, dict):
        return None
    found = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in sorted(keys)}
    return None if None in found.values() else found
