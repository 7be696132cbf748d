"""Defaults that a real server sets on creation, as far as clients select by them or wait for them.

Pods get a phase and selectable fields, namespaces their finalizer and label, secrets their data,
and CustomResourceDefinitions the conditions of a served one. The object is changed in place.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable

from pyinformer.apimachinery import JSONObject
from pyinformer.testing.apiserver.resources import ResourceType, ScalePaths
from pyinformer.testing.apiserver.writes import _definitions


def apply(resource: ResourceType, body: JSONObject) -> None:
    """Set the defaults of a new object, in place."""
    default = _DEFAULTS.get(resource.qualified_name)
    if default is not None:
        default(body)


def refill(resource: ResourceType, body: JSONObject) -> None:
    """Set the defaults that a later write has left out, in place."""
    if resource.qualified_name == "pods":
        _pod(body)
    elif resource.qualified_name == "secrets":
        _secret(body)
    elif resource.qualified_name == _definitions.DEFINITIONS:
        _definitions.complete(body)
        _definitions.refresh_status(body)


def custom_resources(definition: JSONObject) -> list[ResourceType]:
    """Return the resources that a CustomResourceDefinition defines.

    Each served version is a separate resource with its own objects: nothing is converted.
    """
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    return [
        ResourceType(
            group=str(spec.get("group", "")),
            version=str(version.get("name", "")),
            kind=str(names.get("kind", "")),
            plural=str(names.get("plural", "")),
            namespaced=spec.get("scope", "Namespaced") == "Namespaced",
            list_shape="custom",
            field_labels=tuple(
                str(field.get("jsonPath", "")).lstrip(".")
                for field in version.get("selectableFields") or ()
            ),
            has_status="status" in (version.get("subresources") or {}),
            schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
            singular=str(names.get("singular") or ""),
            short_names=tuple(map(str, names.get("shortNames") or ())),
            categories=tuple(map(str, names.get("categories") or ())),
            printer_columns=tuple(version.get("additionalPrinterColumns") or ()),
            scale=_scale((version.get("subresources") or {}).get("scale")),
        )
        for version in spec.get("versions") or ()
        if version.get("served", True)
    ]


def _scale(wanted: JSONObject | None) -> ScalePaths | None:
    """Return the scale paths of a custom resource version, or None."""
    if not wanted:
        return None
    selector = str(wanted.get("labelSelectorPath") or "")
    return ScalePaths(
        spec=_path(str(wanted.get("specReplicasPath", ""))),
        status=_path(str(wanted.get("statusReplicasPath", ""))),
        selector=_path(selector) if selector else None,
        default=0,
    )


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.lstrip(".").split("."))


def _pod(body: JSONObject) -> None:
    spec = {
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
    }
    body["spec"] = {**spec, **(body.get("spec") or {})}
    body["status"] = {"phase": "Pending", **(body.get("status") or {})}


def _secret(body: JSONObject) -> None:
    """Move the plain `stringData` of a secret into `data`, in place."""
    plain = body.pop("stringData", None) or {}
    if plain:
        encoded = {name: b64encode(str(text).encode()).decode() for name, text in plain.items()}
        body["data"] = {**(body.get("data") or {}), **encoded}
    body.setdefault("type", "Opaque")


def _namespace(body: JSONObject) -> None:
    metadata = body["metadata"]
    label = {"kubernetes.io/metadata.name": metadata["name"]}
    metadata["labels"] = {**(metadata.get("labels") or {}), **label}
    body["spec"] = {"finalizers": ["kubernetes"], **(body.get("spec") or {})}
    body["status"] = {"phase": "Active", **(body.get("status") or {})}


def _definition(body: JSONObject) -> None:
    condition = {"status": "True", "lastTransitionTime": body["metadata"]["creationTimestamp"]}
    body["status"] = {
        "conditions": [
            {
                "type": "NamesAccepted",
                "reason": "NoConflicts",
                "message": "no conflicts found",
                **condition,
            },
            {
                "type": "Established",
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
                **condition,
            },
        ],
    }
    _definitions.complete(body)
    _definitions.refresh_status(body)


_DEFAULTS: dict[str, Callable[[JSONObject], None]] = {
    "pods": _pod,
    "secrets": _secret,
    "namespaces": _namespace,
    _definitions.DEFINITIONS: _definition,
}
