"""The rules of writes: which bodies and preconditions are refused, what the server itself sets.

Nothing is stored here. No argument is changed, unless a docstring says "in place".
"""

from __future__ import annotations

from collections.abc import Sequence

from pyinformer.objects import JSONObject, JSONValue
from pyinformer.testing.apiserver.managed_fields import Managed, field_managers
from pyinformer.testing.apiserver.requests import Failure, failures, parse_revision
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage import Record, key_of
from pyinformer.testing.apiserver.writes._pods import with_debug_containers
from pyinformer.testing.apiserver.writes._prune_and_default import pruned

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
_CONDITIONAL = (
    "leases.coordination.k8s.io",
    "poddisruptionbudgets.policy",
    "customresourcedefinitions.apiextensions.k8s.io",
)
"""Built-in resources whose updates must name a resource version."""
_PROPAGATION = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
STATUS_KEEPS = {"pods": ("ownerReferences",), "deployments.apps": ("labels",)}
"""The metadata of a built-in object that a write of its status does not change."""


def identity(resource: ResourceType, namespace: str, body: JSONObject) -> JSONObject:
    """Check that a body fits its URL; return a copy of its metadata with the namespace set."""
    metadata = body.get("metadata")
    metadata = {} if metadata is None else metadata
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
    elif not metadata.get("namespace"):
        metadata["namespace"] = namespace
    elif metadata["namespace"] != namespace:
        message = (
            "the namespace of the provided object does not match the namespace sent on the request"
        )
        raise Failure(400, message)
    return metadata


def _without_nulls(resource: ResourceType, metadata: JSONObject) -> JSONObject:
    """Return a copy of metadata without null labels and annotations: they become empty text."""
    copied = dict(metadata)
    for name in ("labels", "annotations"):
        given = metadata.get(name) or {}
        if not isinstance(given, dict):
            given = {"": given}
        found = {key: "" if value is None else value for key, value in given.items()}
        if not all(isinstance(value, str) for value in found.values()):
            message = (
                f'{resource.kind} in version "{resource.version}" cannot be handled as a'
                f" {resource.kind}: metadata.{name} must be a mapping of strings"
            )
            raise Failure(400, message)
        if name in metadata:
            copied[name] = found
    return copied


def typed(resource: ResourceType, body: JSONObject, metadata: JSONObject) -> JSONObject:
    """Return a copy of a body with this metadata and the resource's kind and apiVersion.

    Fields that the type does not have are left out. Empty metadata is removed in place, since
    Go's types do not distinguish it from absent metadata.
    """
    for name in _OMITTED_IF_EMPTY:
        if not metadata.get(name, True):
            del metadata[name]
    fixed = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return pruned(resource, {**body, **fixed})


def check_name(metadata: JSONObject, name: str) -> None:
    """Refuse a body whose name is not that of the URL; set a missing name in place."""
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
    """Return a copy of an object with the status of another one, or without a status."""
    return with_fields_of(body, other, ("status",))


def with_fields_of(body: JSONObject, other: JSONObject, names: Sequence[str]) -> JSONObject:
    """Return a copy of a map with some fields taken from another map, or removed as there."""
    kept = {name: value for name, value in body.items() if name not in names}
    return kept | {name: other[name] for name in names if name in other}


def keeps_metadata(resource: ResourceType) -> bool:
    """Return whether a write of the status leaves the metadata unchanged."""
    is_custom = resource.list_shape == "custom"
    return is_custom or resource.group == "apiextensions.k8s.io"


def owned_by(body: JSONObject, managed: Managed | list[JSONValue]) -> JSONObject:
    """Return a copy of an object with these managedFields."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    if managed:
        entries = managed if isinstance(managed, list) else field_managers.write(managed)
        metadata["managedFields"] = entries
    return {**body, "metadata": metadata}


def check_unconditional(
    resource: ResourceType, metadata: JSONObject, name: str, *, whole: bool
) -> None:
    """Refuse an update without a resource version if the resource requires one."""
    is_strict = resource.list_shape == "custom" or resource.qualified_name in _CONDITIONAL
    if is_strict and not whole and not _revision(metadata):
        sentence = "Invalid value: 0: must be specified for an update"
        cause = ("FieldValueInvalid", "metadata.resourceVersion", sentence)
        raise failures.invalid(resource.plural, resource.group, name, [cause])


def check_update(resource: ResourceType, old: Record, wanted: JSONObject) -> None:
    """Refuse an update whose metadata names another uid or resource version."""
    uid = wanted.get("uid")
    if uid not in (None, "", old.uid):
        raise _other_uid(resource, old.key, old.name, str(uid), old.uid)
    if _revision(wanted) not in (0, old.revision):
        raise failures.conflict(resource, old.name, _STALE)


def check_unversioned(metadata: JSONObject) -> None:
    """Refuse a new object with a resource version; one that is not a number is ignored."""
    text = str(metadata.get("resourceVersion") or "")
    if text.isascii() and text.isdigit() and int(text):
        message = "resourceVersion should not be set on objects to be created"
        raise Failure(500, message, reason="")


def _revision(metadata: JSONObject) -> int:
    """Return the resource version of metadata as a number; 0 is none.

    Raises:
        Failure: it is not a number (500).
    """
    try:
        return parse_revision(str(metadata.get("resourceVersion") or ""))
    except Failure as failure:
        raise Failure(500, failure.message.partition(": ")[2], reason="") from None


def check_absent_uid(
    resource: ResourceType, namespace: str, name: str, metadata: JSONObject
) -> None:
    """Refuse to create an object by an update that names a uid."""
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
    """Refuse a body without a name."""
    if not isinstance(metadata, dict) or not metadata.get("name"):
        message = (
            f"the name of the object ({name} based on URL) was undeterminable: name must be"
            " provided"
        )
        raise Failure(400, message)


def check_uid(resource: ResourceType, old: Record, metadata: JSONObject) -> None:
    """Refuse a patch that names another uid."""
    uid = metadata.get("uid")
    if uid not in (None, old.uid):
        sentence = f'Invalid value: "{uid}": field is immutable'
        cause = ("FieldValueInvalid", "metadata.uid", sentence)
        raise failures.invalid(resource.kind, resource.group, old.name, [cause])


def check_patched(resource: ResourceType, old: Record, body: JSONObject) -> None:
    """Refuse a patch that removes the name of the object, or changes it."""
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
    """Return the next content of an object: a body with the server-owned metadata of the old one.

    Args:
        resource: its resource.
        before: the stored object.
        body: the new object, with metadata checked by `identity`.
        subresource: "", or the part that is written.
        whole: write the status with the rest.
    """
    if subresource in ("finalize", "scale"):
        return {**before, "spec": body["spec"]} if "spec" in body else before
    if subresource == "ephemeralcontainers":
        return with_debug_containers(before, body)
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
    """Refuse new finalizers of an object that is being deleted.

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
    """Return an object that is being deleted, with the finalizer of its propagation policy.

    Without a garbage collector, as beside a lone kube-apiserver, a client must remove the
    finalizer itself.
    """
    policy = str(options.get("propagationPolicy") or "")
    orphans = options.get("orphanDependents")
    if not policy and orphans is not None:  # sent by older clients
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
    """Refuse a deletion with both orphanDependents and a propagation policy."""
    if options.get("orphanDependents") is not None and options.get("propagationPolicy"):
        sentence = (
            f'Invalid value: "{options["propagationPolicy"]}": orphanDependents and'
            " deletionPropagation cannot be both set"
        )
        cause = ("FieldValueInvalid", "propagationPolicy", sentence)
        raise failures.invalid("DeleteOptions", "meta.k8s.io", "", [cause])


def is_free_to_go(before: JSONObject, after: JSONObject) -> bool:
    """Return whether an update removed the last finalizer of an object being deleted."""
    if "deletionTimestamp" not in before["metadata"]:
        return False
    if before["kind"] == "Namespace" and (after.get("spec") or {}).get("finalizers"):
        return False
    waits_for_kubelet = bool(before["metadata"].get("deletionGracePeriodSeconds"))
    return not after["metadata"].get("finalizers") and not waits_for_kubelet


def bump_generation(resource: ResourceType, before: JSONObject, after: JSONObject) -> None:
    """Increment the generation of `after` in place, if more than metadata and status changed.

    The status counts for custom resources without a status subresource, and annotations count
    for deployments.
    """
    is_plain = resource.list_shape == "custom" and not resource.has_status
    apart = ("metadata",) if is_plain else ("metadata", "status")
    old = {name: value for name, value in before.items() if name not in apart}
    new = {name: value for name, value in after.items() if name not in apart}
    if resource.qualified_name == "deployments.apps":
        old["annotations"] = before["metadata"].get("annotations")
        new["annotations"] = after["metadata"].get("annotations")
    if resource.has_generation and "generation" in before["metadata"] and old != new:
        metadata = {**after["metadata"], "generation": before["metadata"]["generation"] + 1}
        after["metadata"] = metadata


def grace_seconds(resource: ResourceType, before: JSONObject, options: JSONObject) -> int:
    """Return how long a deletion waits for a kubelet: 0, except for pods that may be running."""
    spec = before.get("spec") or {}
    if resource.qualified_name != "pods" or not spec.get("nodeName"):
        return 0  # not running: it is deleted at once
    if (before.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    return int(spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked)
