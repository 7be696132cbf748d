"""What a real server sets in objects: defaults of their type, and what their kind needs.

Workloads, Services and volumes get the defaults of their fields, pods a phase, namespaces their
finalizer and label, secrets their data, Services an address, and CustomResourceDefinitions the
conditions of a served one. The object is changed in place.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Final

from pyinformer.objects import JSONObject
from pyinformer.testing.apiserver.resources import ResourceType, ScalePaths
from pyinformer.testing.apiserver.writes import (
    _admission_defaults,
    _definitions,
    _workload_defaults,
)

_TEMPLATES: Final = "deprecated.daemonset.template.generation"
_RBAC: Final = "rbac.authorization.k8s.io"
_ADDRESS: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort")
_PRIORITY: Final = ("priority", "preemptionPolicy")
_FIRST_NODE_PORT: Final = 30_000
_NODE_PORTS: Final = 2768


def apply(resource: ResourceType, body: JSONObject) -> None:
    """Set the defaults of a new object, in place: its creator owns these fields."""
    default = _DEFAULTS.get(resource.qualified_name)
    if default is not None:
        default(body)
    fill(resource, body)
    if resource.qualified_name == "daemonsets.apps":
        _count_templates(body, 1)
    elif resource.qualified_name == "jobs.batch" and not body["metadata"].get("labels"):
        labels = (body["spec"]["template"].get("metadata") or {}).get("labels")
        if labels:
            body["metadata"]["labels"] = dict(labels)


def _count_templates(daemon_set: JSONObject, number: int) -> None:
    """Set the annotation that counts the templates of a DaemonSet."""
    metadata = daemon_set["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _TEMPLATES: str(number)}


def allocate(resource: ResourceType, body: JSONObject, number: int) -> None:
    """Set in place what the server decides for a new object, and what no manager owns.

    Args:
        resource: its resource.
        body: the object with complete metadata.
        number: the number of writes before it, from which a Service gets its address.
    """
    status = _workload_defaults.STATUSES.get(resource.qualified_name)
    if status is not None:
        body["status"] = {**status, **(body.get("status") or {})}
    match resource.qualified_name:
        case "services":
            body["spec"] = dict(body["spec"])
            _address(body["spec"], number)
        case "pods":
            body["spec"] = dict(body["spec"])
            _workload_defaults.tolerate(body["spec"])
            quality = _workload_defaults.quality_of_service(body["spec"])
            body["status"] = {"qosClass": quality, **body["status"]}
        case "jobs.batch":
            _controlled(body)
        case "persistentvolumeclaims":
            finalizers = body["metadata"].get("finalizers") or []
            protection = "kubernetes.io/pvc-protection"
            if protection not in finalizers:
                body["metadata"]["finalizers"] = [*finalizers, protection]


def _controlled(job: JSONObject) -> None:
    """Give a Job the labels and the selector by which its controller finds its pods."""
    spec = job["spec"] = dict(job["spec"])
    if spec.get("manualSelector"):
        return
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    own = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    template = spec["template"] = dict(spec["template"])
    metadata = template["metadata"] = dict(template.get("metadata") or {})
    given = metadata.get("labels") or {}
    metadata["labels"] = {**given, **own}
    if given and job["metadata"].get("labels") == given:  # they were taken from the template
        job["metadata"]["labels"] = {**given, **own}


def refill(resource: ResourceType, body: JSONObject, before: JSONObject) -> None:
    """Set the defaults that a later write has left out, in place.

    Args:
        resource: its resource.
        body: what the write makes of the object.
        before: the stored object; a Service keeps its address, and a pod its priority.
    """
    fill(resource, body)
    if resource.qualified_name == "pods":
        _pod(body)
        given, old_spec = body.get("spec") or {}, before.get("spec") or {}
        body["spec"] = {name: old_spec[name] for name in _PRIORITY if name in old_spec} | given
        _workload_defaults.tolerate(body["spec"])
        quality = (before.get("status") or {}).get("qosClass")
        if quality is not None:  # no writer of the status changes it
            body["status"] = {**body["status"], "qosClass": quality}
    elif resource.qualified_name == "daemonsets.apps":
        old = (before["metadata"].get("annotations") or {}).get(_TEMPLATES)
        if old is not None:
            is_new = body["spec"].get("template") != before["spec"].get("template")
            _count_templates(body, int(old) + is_new)
    elif resource.qualified_name == "secrets":
        _secret(body)
    elif resource.qualified_name == _definitions.DEFINITIONS:
        _definitions.complete(body)
        _definitions.refresh_status(body)
    elif resource.qualified_name == "services":
        old = before.get("spec") or {}
        spec = body["spec"] = dict(body.get("spec") or {})
        kept = {name: old[name] for name in _ADDRESS if name in old and name not in spec}
        if spec.get("type") != "ExternalName":
            spec.update(kept)


def fill(resource: ResourceType, body: JSONObject) -> None:
    """Set the defaults of the fields of a built-in object, in place."""
    name = resource.qualified_name
    if name in _admission_defaults.CONFIGURATIONS:
        _admission_defaults.complete_configuration(body)
    complete = _workload_defaults.SPECS.get(name, _admission_defaults.SPECS.get(name))
    if complete is not None:
        spec = body["spec"] = dict(body.get("spec") or {})
        complete(spec)
    if resource.group == _RBAC:
        _subjects(body)
    for field, value in _workload_defaults.TOP.get(name, {}).items():
        body.setdefault(field, value)


def _subjects(binding: JSONObject) -> None:
    """Name the API group of the users and groups of a binding."""
    subjects = binding.get("subjects")
    if isinstance(subjects, list):
        binding["subjects"] = [
            {**one, "apiGroup": _RBAC}
            if one.get("kind") in ("User", "Group") and not one.get("apiGroup")
            else one
            for one in subjects
        ]


def _address(spec: JSONObject, number: int) -> None:
    """Give a Service an address of its own, as real servers do from their range."""
    if spec.get("type") == "ExternalName":
        return
    if not spec.get("clusterIP"):
        place = number + 10  # the first ones are those of the servers themselves
        high, middle, low = place >> 16, place >> 8 & 255, place & 255
        spec["clusterIP"] = f"10.{96 + high % 16}.{middle}.{low}"
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec.get("externalTrafficPolicy") == "Local" and spec["type"] == "LoadBalancer":
        spec.setdefault("healthCheckNodePort", _FIRST_NODE_PORT + (number * 8 + 7) % _NODE_PORTS)
    if spec["type"] in ("NodePort", "LoadBalancer"):
        first = _FIRST_NODE_PORT + number * 8 % _NODE_PORTS
        ports = enumerate(spec.get("ports") or (), first)
        spec["ports"] = [{"nodePort": place, **port} for place, port in ports]


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
            is_terminating=_definitions.is_terminating(definition),
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
