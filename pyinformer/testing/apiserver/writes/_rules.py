"""The rules of writes: which bodies and preconditions are refused, and what the server owns.

What enters are the stored object and what a client sent; what leaves is the next content of the
object, or a Failure. Nothing is stored here, and no argument is changed but where it says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyinformer.apimachinery import JSONObject, JSONValue
from pyinformer.testing.apiserver.managed_fields import Managed, field_managers
from pyinformer.testing.apiserver.requests import Failure, failures
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage import Record, key_of
from pyinformer.testing.apiserver.writes._pruning import pruned

_STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_SERVER_OWNED = (
    "namespace",
    "name",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)

_OMITTED_IF_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences", "generateName")
_CONDITIONAL = ("leases.coordination.k8s.io", "poddisruptionbudgets.policy")
"""Built-in resources that are only updated by who names a resource version."""
_PROPAGATION = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
STATUS_KEEPS = {"pods": ("ownerReferences",), "deployments.apps": ("labels",)}
"""What of the metadata a write of the status of a built-in object leaves alone."""


def identity(resource: ResourceType, namespace: str, body: JSONObject) -> JSONObject:
    """Check that a body fits its URL, and return a copy of its metadata, namespace filled in."""
    metadata = body.get("metadata", {})
    if not isinstance(metadata, dict):
        raise Failure(400, f"metadata of a {resource.kind} has to be an object")
    for name, expected in (("kind", resource.kind), ("apiVersion", resource.api_version)):
        if body.get(name, expected) != expected:
            message = (
                f"the {name} in the data ({body[name]}) does not match the expected"
                f" {name} ({expected})"
            )
            raise Failure(400, message)
    metadata = _without_nulls(resource, metadata)
    if not resource.namespaced:
        metadata.pop("namespace", None)
    elif metadata.setdefault("namespace", namespace) != namespace:
        message = (
            "the namespace of the provided object does not match the namespace sent on the request"
        )
        raise Failure(400, message)
    return metadata


def _without_nulls(resource: ResourceType, metadata: JSONObject) -> JSONObject:
    """Return a copy of metadata in which labels and annotations are text; null is empty text."""
    copied = dict(metadata)
    for name in ("labels", "annotations"):
        given = metadata.get(name) or {}
        if not isinstance(given, dict):
            given = {"": given}
        found = {key: "" if value is None else value for key, value in given.items()}
        if not all(isinstance(value, str) for value in found.values()):
            message = (
                f'{resource.kind} in version "{resource.version}" cannot be handled as a'
                f" {resource.kind}: metadata.{name} has to be a mapping of strings"
            )
            raise Failure(400, message)
        if name in metadata:
            copied[name] = found
    return copied


def typed(resource: ResourceType, body: JSONObject, metadata: JSONObject) -> JSONObject:
    """Return a copy of a body with this metadata and the resource's kind and apiVersion.

    Fields that the type does not have are left out.
    What is empty in the metadata is left out, in place: Go's types do not know it from absence.
    """
    for name in _OMITTED_IF_EMPTY:
        if not metadata.get(name, True):
            del metadata[name]
    fixed = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return pruned(resource, {**body, **fixed})


def check_name(metadata: JSONObject, name: str) -> None:
    """Refuse a body that names another object than the URL; fill in the name, in place."""
    if metadata.setdefault("name", name) != name:
        message = (
            f"the name of the object ({metadata['name']}) does not match the name on the URL"
            f" ({name})"
        )
        raise Failure(400, message)


def without_status(body: JSONObject) -> JSONObject:
    """Return a copy of an object without its status."""
    return {name: value for name, value in body.items() if name != "status"}


def with_status_of(body: JSONObject, other: JSONObject) -> JSONObject:
    """Return a copy of an object with the status of another one, or none."""
    return with_fields_of(body, other, ("status",))


def with_fields_of(body: JSONObject, other: JSONObject, names: Sequence[str]) -> JSONObject:
    """Return a copy of a map with some fields as in another one, or absent as there."""
    kept = {name: value for name, value in body.items() if name not in names}
    return kept | {name: other[name] for name in names if name in other}


def keeps_metadata(resource: ResourceType) -> bool:
    """Tell whether a write of the status leaves labels and the like alone."""
    is_custom = resource.list_shape == "custom"
    return is_custom or resource.group == "apiextensions.k8s.io"


def owned_by(body: JSONObject, managed: Managed | list[JSONValue]) -> JSONObject:
    """Return a copy of an object that says who owns its fields."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    if managed:
        entries = managed if isinstance(managed, list) else field_managers.write(managed)
        metadata["managedFields"] = entries
    return {**body, "metadata": metadata}


def check_unconditional(
    resource: ResourceType, metadata: JSONObject, name: str, *, whole: bool
) -> None:
    """Refuse a client's update of a resource that wants to be told its resource version."""
    is_strict = resource.list_shape == "custom" or resource.qualified_name in _CONDITIONAL
    if is_strict and not whole and not metadata.get("resourceVersion"):
        sentence = "Invalid value: 0: must be specified for an update"
        cause = ("FieldValueInvalid", "metadata.resourceVersion", sentence)
        raise failures.invalid(resource.plural, resource.group, name, [cause])


def check_update(resource: ResourceType, old: Record, wanted: JSONObject) -> None:
    """Refuse an update whose metadata names another uid or resource version."""
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    if uid not in (None, "", old.uid):
        raise _other_uid(resource, old.key, old.name, str(uid), old.uid)
    if version not in (None, "", str(old.revision)):
        raise failures.conflict(resource, old.name, _STALE)


def check_absent_uid(
    resource: ResourceType, namespace: str, name: str, metadata: JSONObject
) -> None:
    """Refuse to create by an update that means an object that is gone."""
    if metadata.get("uid"):
        key = key_of(namespace, name)
        raise _other_uid(resource, key, name, str(metadata["uid"]), "")


def _other_uid(resource: ResourceType, key: str, name: str, wanted: str, found: str) -> Failure:
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{resource.plural}/{key},"
        " ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition:"
        f" {wanted}, UID in object meta: {found}"
    )
    return failures.conflict(resource, name, why)


def check_named(metadata: JSONValue, name: str) -> None:
    """Refuse a body that does not say what it is called."""
    if not isinstance(metadata, dict) or not metadata.get("name"):
        message = (
            f"the name of the object ({name} based on URL) was undeterminable: name must be"
            " provided"
        )
        raise Failure(400, message)


def check_uid(resource: ResourceType, old: Record, metadata: JSONObject) -> None:
    """Refuse a patch that means another object of this name."""
    uid = metadata.get("uid")
    if uid not in (None, old.uid):
        sentence = f'Invalid value: "{uid}": field is immutable'
        cause = ("FieldValueInvalid", "metadata.uid", sentence)
        raise failures.invalid(resource.kind, resource.group, old.name, [cause])


def check_patched(resource: ResourceType, old: Record, body: JSONObject) -> None:
    """Refuse a patch that leaves the object without a name, or means another one."""
    metadata: JSONObject = body.get("metadata") or {}
    check_named(metadata, old.name)
    check_uid(resource, old, metadata)


def check_delete(resource: ResourceType, old: Record, wanted: JSONObject) -> None:
    """Refuse a deletion whose preconditions name another uid or resource version."""
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    if uid not in (None, "", old.uid):
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({old.uid})."
            " The object might have been deleted and then recreated"
        )
        raise failures.conflict(resource, old.name, why)
    if version not in (None, "", str(old.revision)):
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the"
            f" ResourceVersion in record ({old.revision}). The object might have been modified"
        )
        raise failures.conflict(resource, old.name, why)


def replaced(
    resource: ResourceType,
    before: JSONObject,
    body: JSONObject,
    subresource: str,
    whole: bool,  # noqa: FBT001
) -> JSONObject:
    """Return what an object becomes: its server-owned metadata stays, whatever the body says.

    Args:
        resource: its resource.
        before: the stored object.
        body: the new one, its metadata checked by `identity`.
        subresource: "", "status", "finalize" or "scale".
        whole: take the status with the rest.
    """
    if subresource in ("finalize", "scale"):
        return {**before, "spec": body["spec"]} if "spec" in body else before
    if subresource:
        kept = STATUS_KEEPS.get(resource.qualified_name, ())
        metadata = before["metadata"]
        if not keeps_metadata(resource):
            metadata = with_fields_of(body["metadata"], metadata, kept)
        body = {**with_status_of(before, body), "metadata": metadata}
        whole = True
    owned = {name: before["metadata"][name] for name in _SERVER_OWNED if name in before["metadata"]}
    metadata = {**body["metadata"], **owned}
    for name in _SERVER_OWNED:
        if name not in owned:
            metadata.pop(name, None)
    after = typed(resource, body, metadata)
    if resource.has_status and not whole:
        after.pop("status", None)
        if "status" in before:
            after["status"] = before["status"]
    return after


def check_finalizers(resource: ResourceType, before: JSONObject, after: JSONObject) -> None:
    """Refuse to hold an object by something new once it is being deleted.

    Source:
        k8s.io/apimachinery/pkg/api/validation/objectmeta.go, ValidateObjectMetaUpdate.
    """
    old = before["metadata"].get("finalizers") or []
    new = sorted(set(after["metadata"].get("finalizers") or []).difference(old))
    if "deletionTimestamp" in before["metadata"] and new:
        found = ", ".join(f'"{name}"' for name in new)
        sentence = (
            "Forbidden: no new finalizers can be added if the object is being deleted, found new"
            f" finalizers []string{{{found}}}"
        )
        causes = [("FieldValueForbidden", "metadata.finalizers", sentence)]
        raise failures.invalid(resource.kind, resource.group, before["metadata"]["name"], causes)


def held_for_dependents(before: JSONObject, options: JSONObject) -> JSONObject:
    """Return an object that is being deleted, held as long as its dependents ask for.

    Nobody collects them here, as beside a lone kube-apiserver: whoever asks for that has to remove
    the finalizer too.
    """
    policy = str(options.get("propagationPolicy") or "")
    orphans = options.get("orphanDependents")
    if not policy and orphans is not None:  # what older clients say
        policy = "Orphan" if orphans else "Background"
    if not policy:
        return before
    finalizers = before["metadata"].get("finalizers") or []
    kept = [name for name in finalizers if name not in _PROPAGATION.values()]
    wanted = [*kept, *([_PROPAGATION[policy]] if policy in _PROPAGATION else [])]
    if sorted(wanted) == sorted(finalizers):
        return before
    return {**before, "metadata": {**before["metadata"], "finalizers": wanted}}


def check_dependents(options: JSONObject) -> None:
    """Refuse a deletion that says in two ways what becomes of dependents."""
    if options.get("orphanDependents") is not None and options.get("propagationPolicy"):
        sentence = (
            f'Invalid value: "{options["propagationPolicy"]}": orphanDependents and'
            " deletionPropagation cannot be both set"
        )
        cause = ("FieldValueInvalid", "propagationPolicy", sentence)
        raise failures.invalid("DeleteOptions", "meta.k8s.io", "", [cause])


def is_free_to_go(before: JSONObject, after: JSONObject) -> bool:
    """Tell whether an update removed the last thing that a deletion waited for."""
    if "deletionTimestamp" not in before["metadata"]:
        return False
    if before["kind"] == "Namespace" and (after.get("spec") or {}).get("finalizers"):
        return False
    waits_for_kubelet = bool(before["metadata"].get("deletionGracePeriodSeconds"))
    return not after["metadata"].get("finalizers") and not waits_for_kubelet


def bump_generation(resource: ResourceType, before: JSONObject, after: JSONObject) -> None:
    """Count a change of anything but metadata and status, in `after` itself.

    The status of a custom resource counts if it has no subresource of its own, and of deployments
    the annotations.
    """
    is_plain = resource.list_shape == "custom" and not resource.has_status
    apart = ("metadata",) if is_plain else ("metadata", "status")
    old = {name: value for name, value in before.items() if name not in apart}
    new = {name: value for name, value in after.items() if name not in apart}
    if resource.qualified_name == "deployments.apps":
        old["annotations"] = before["metadata"].get("annotations")
        new["annotations"] = after["metadata"].get("annotations")
    if "generation" in before["metadata"] and old != new:
        metadata = {**after["metadata"], "generation": before["metadata"]["generation"] + 1}
        after["metadata"] = metadata


def grace_seconds(resource: ResourceType, before: JSONObject, options: JSONObject) -> int:
    """Return how long a deletion waits for a kubelet: 0 but for pods that somebody may run."""
    spec = before.get("spec") or {}
    if resource.qualified_name != "pods" or not spec.get("nodeName"):
        return 0  # nobody runs it: it goes at once
    if (before.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    return int(spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked)
