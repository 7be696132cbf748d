"""What no update of a built-in object changes, such as selectors and the specs of pods.

The real server also prints the differences of a pod, a claim or a volume.

Source:
    ValidateImmutableField and the functions `Validate<Kind>Update` in
    k8s.io/kubernetes pkg/apis/*/validation/validation.go and of apiextensions-apiserver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from pyinformer.objects import JSONObject, JSONValue
from pyinformer.testing.apiserver.storage import go_json

Cause: TypeAlias = tuple[str, str, str]
"""The reason, the field and the sentence of one finding."""

_RBAC: Final = "rbac.authorization.k8s.io"
_FIELDS: Final[Mapping[str, Sequence[str]]] = {
    "controllerrevisions.apps": ("data",),
    "customresourcedefinitions.apiextensions.k8s.io": (  # here established from the start
        "spec.scope",
        "spec.names.kind",
        "spec.group",
        "spec.names.plural",
    ),
    "daemonsets.apps": ("spec.selector",),
    "deployments.apps": ("spec.selector",),
    "replicasets.apps": ("spec.selector",),
    "statefulsets.apps": (
        "spec.selector",
        "spec.volumeClaimTemplates",
        "spec.serviceName",
        "spec.podManagementPolicy",
    ),
    "jobs.batch": (
        "spec.selector",
        "spec.completionMode",
        "spec.podFailurePolicy",
        "spec.backoffLimitPerIndex",
        "spec.managedBy",
        "spec.successPolicy",
    ),
    "endpointslices.discovery.k8s.io": ("addressType",),
    "priorityclasses.scheduling.k8s.io": ("preemptionPolicy",),
    "resourcequotas": ("spec.scopes",),
    f"clusterrolebindings.{_RBAC}": ("roleRef",),
    f"rolebindings.{_RBAC}": ("roleRef",),
    "secrets": ("type",),
    "storageclasses.storage.k8s.io": (
        "parameters",
        "provisioner",
        "reclaimPolicy",
        "volumeBindingMode",
    ),
}
_FROZEN: Final = {"configmaps": ("data", "binaryData"), "secrets": ("data",)}
"""What stays of an object whose field `immutable` is set, which stays itself."""
_OF_PODS: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only"
    " additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set"
    " to 1 if it was previously negative)"
)
_OF_CLAIMS: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for"
    " bound claims"
)
_CONTAINERS: Final = ("containers", "initContainers")
# Of a pod's spec; debug containers have a subresource, and what may be done to gates and
# tolerations is looked at by itself.
_FREE_IN_PODS: Final = (
    "activeDeadlineSeconds",
    "ephemeralContainers",
    "schedulingGates",
    "tolerations",
)
_FREE_IN_SUSPENDED: Final = ("nodeSelector", "tolerations", "schedulingGates", "affinity")
_NOT_A_SOURCE: Final = frozenset(
    (
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    )
)


def changes_of_immutables(resource: str, before: JSONObject, after: JSONObject) -> Iterator[Cause]:
    """Yield what an update changes although it must not.

    Args:
        resource: such as `deployments.apps`.
        before: the stored object.
        after: what the update makes of it, with all defaults.
    """
    if resource in _FROZEN and before.get("immutable"):
        yield from _frozen(_FROZEN[resource], before, after)
    for field in _FIELDS.get(resource, ()):
        value = _at(after, field)
        if not _is_same(value, _at(before, field)):
            yield immutable(field, value)
    check = _CHECKS.get(resource)
    if check is not None:
        yield from check(before, after)


def _frozen(names: Sequence[str], before: JSONObject, after: JSONObject) -> Iterator[Cause]:
    changed = [name for name in names if (after.get(name) or {}) != (before.get(name) or {})]
    released = [] if after.get("immutable") else ["immutable"]
    for name in (*released, *changed):
        yield _forbidden(name, "field is immutable when `immutable` is set")


def _pod(before: JSONObject, after: JSONObject) -> Iterator[Cause]:
    old, new = _spec(before), _spec(after)
    for name in _CONTAINERS:
        if len(old.get(name) or ()) != len(new.get(name) or ()):
            path = f"spec.{name}"
            yield _forbidden(path, "pod updates may not add or remove containers")
            return
    kept = [_without_seconds(one) for one in new.get("tolerations") or ()]
    if any(_without_seconds(one) not in kept for one in old.get("tolerations") or ()):
        sentence = "existing toleration can not be modified except its tolerationSeconds"
        yield _forbidden("spec.tolerations", sentence)
    gates = [gate["name"] for gate in old.get("schedulingGates") or ()]
    for place, gate in enumerate(new.get("schedulingGates") or ()):
        if gate["name"] not in gates:
            sentence = "only deletion is allowed, but found new scheduling gate"
            path = f"spec.schedulingGates[{place}].name"
            yield _forbidden(path, f"{sentence} '{gate['name']}'")
    free = (*_FREE_IN_PODS, "nodeSelector", "affinity") if gates else _FREE_IN_PODS
    if not _is_same(_pod_spec(new, free), _pod_spec(old, free)):
        yield _forbidden("spec", _OF_PODS)


def _pod_spec(spec: JSONObject, free: Sequence[str]) -> JSONObject:
    """Return what of a pod's spec stays as it is."""
    found = {name: value for name, value in spec.items() if name not in free}
    for name in _CONTAINERS:
        found[name] = [{**one, "image": ""} for one in spec.get(name) or ()]
    return found


def _without_seconds(toleration: JSONObject) -> JSONObject:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _job(before: JSONObject, after: JSONObject) -> Iterator[Cause]:
    old, new = _spec(before), _spec(after)
    is_suspended = bool(old.get("suspend"))
    if not _is_same(_template(new, is_suspended), _template(old, is_suspended)):
        field = "spec.template.spec" if is_suspended else "spec.template"
        yield immutable(field, new.get("template"))
    completions = new.get("completions")
    if completions == old.get("completions"):
        return
    if new.get("completionMode") != "Indexed":
        yield immutable("spec.completions", completions)
    elif completions is not None and completions != new.get("parallelism"):
        shown = go_json(completions).decode()
        sentence = f"Invalid value: {shown}: can only be modified in tandem with spec.parallelism"
        yield "FieldValueInvalid", "spec.completions", sentence


def _template(spec: JSONObject, is_suspended: bool) -> JSONObject:  # noqa: FBT001
    """Return what of a Job's template stays as it is.

    Before a suspended Job has pods, where they run and what they may use can be changed.
    """
    template: JSONObject = spec.get("template") or {}
    if not is_suspended:
        return template
    pod = template.get("spec") or {}
    found = {name: value for name, value in pod.items() if name not in _FREE_IN_SUSPENDED}
    for name in _CONTAINERS:
        found[name] = [{**one, "resources": {}} for one in pod.get(name) or ()]
    return found


def _claim(before: JSONObject, after: JSONObject) -> Iterator[Cause]:
    old, new = dict(_spec(before)), dict(_spec(after))
    for name in ("volumeName", "storageClassName"):  # a binder sets them once
        if not old.get(name):
            old.pop(name, None)
            new.pop(name, None)
    if _at(after, "status.phase") == "Bound":
        for spec in (old, new):
            spec.pop("volumeAttributesClassName", None)
            resources = spec.get("resources") or {}
            spec["resources"] = {**resources, "requests": None}
    if not _is_same(new, old):
        yield _forbidden("spec", _OF_CLAIMS)


def _volume(before: JSONObject, after: JSONObject) -> Iterator[Cause]:
    old, new = (
        {name: value for name, value in _spec(one).items() if name not in _NOT_A_SOURCE}
        for one in (before, after)
    )
    if not _is_same(new, old):
        sentence = "spec.persistentvolumesource is immutable after creation"
        yield _forbidden("spec.persistentvolumesource", sentence)
    if _at(before, "spec.volumeMode") != _at(after, "spec.volumeMode"):
        yield immutable("volumeMode", _at(after, "spec.volumeMode"))


def _service(before: JSONObject, after: JSONObject) -> Iterator[Cause]:
    old, new = _spec(before), _spec(after)
    if "ExternalName" in (old.get("type"), new.get("type")):
        return
    addresses = new.get("clusterIPs") or []
    first = (old.get("clusterIPs") or [None])[0]
    if new.get("clusterIP") and addresses and new["clusterIP"] != addresses[0]:
        # Who changes only the one field means its list as well.
        addresses = [new["clusterIP"], *addresses[1:]]
    if first is not None and not addresses:
        sentence = "Invalid value: null: primary clusterIP can not be unset"
        yield "FieldValueInvalid", "spec.clusterIPs[0]", sentence
    elif first is not None and addresses[0] != first:
        shown = go_json(addresses).decode()
        sentence = f"Invalid value: {shown}: may not change once set"
        yield "FieldValueInvalid", "spec.clusterIPs[0]", sentence


def _priority(before: JSONObject, after: JSONObject) -> Iterator[Cause]:
    if (before.get("value") or 0) != (after.get("value") or 0):
        yield _forbidden("value", "may not be changed in an update.")


_CHECKS: Final[Mapping[str, Callable[[JSONObject, JSONObject], Iterator[Cause]]]] = {
    "jobs.batch": _job,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "pods": _pod,
    "priorityclasses.scheduling.k8s.io": _priority,
    "services": _service,
}


def _spec(body: JSONObject) -> JSONObject:
    return body.get("spec") or {}


def immutable(field: str, value: JSONValue) -> Cause:
    """Return the finding for a field that an update would set to another value."""
    shown = go_json(value).decode()
    return "FieldValueInvalid", field, f"Invalid value: {shown}: field is immutable"


def _forbidden(field: str, sentence: str) -> Cause:
    return "FieldValueForbidden", field, f"Forbidden: {sentence}"


def _at(body: JSONObject, path: str) -> JSONValue:
    """Return what is at a path; None if nothing is."""
    found: JSONValue = body
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _is_same(one: JSONValue, other: JSONValue) -> bool:
    """Return whether two values are the same in Go, where empty and absent are the same."""
    return bool(_significant(one) == _significant(other))


def _significant(value: JSONValue) -> JSONValue:
    if isinstance(value, dict):
        found = {name: _significant(one) for name, one in value.items()}
        return {name: one for name, one in found.items() if one is not None} or None
    if isinstance(value, list):
        return [_significant(one) for one in value] or None
    return value or None
