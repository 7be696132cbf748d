"""Owner references: who an object belongs to, and who controls it.

What enters is an owner that the server knows and a dict that is about to be written; what leaves is
that dict with the reference in it. Invariants: one controller at most, one reference per owner, and
no reference across namespaces, which the garbage collector would take for an owner that is gone.
"""

from __future__ import annotations

from pyinformer.apimachinery import (
    AlreadyOwnedError,
    InvalidArgumentError,
    InvalidTypeError,
    JSONObject,
    KubeObject,
    OwnerScopeError,
)
from pyinformer.controllerutil._references import AnyObject, Reference, metadata_of


def set_controller_reference(
    owner: AnyObject, obj: JSONObject, *, block_owner_deletion: bool = True
) -> JSONObject:
    """Make an owner the controller of an object that is about to be written.

        statefulset = set_controller_reference(database, {"apiVersion": "apps/v1", ...})

    The object is found again by `Controller.owns`, and deleted by the cluster's garbage collector
    when its owner is gone. Calling it again changes nothing. A reference to an owner of the same
    kind and name, but another uid, is a reference to one that is gone: it is replaced.

    Args:
        owner: what owns, as the server knows it: it needs a uid.
        obj: the object, of the caller's own; it is changed. It needs the namespace of an owner
            that lives in one.
        block_owner_deletion: whether a foreground deletion of the owner waits for this object.

    Returns:
        The same dict.

    Raises:
        AlreadyOwnedError: another object controls it.
        OwnerScopeError: the owner lives in a namespace, and the object not in the same one.
        InvalidArgumentError: the owner has no uid, or one of the two no name or kind, or both are
            the same object.
        InvalidTypeError: `obj` is no dict.

    Source:
        sigs.k8s.io/controller-runtime pkg/controller/controllerutil, SetControllerReference.
    """
    reference, references = _checked(owner, obj)
    for other in references:
        if other.get("controller") is True and not _is_same_owner(other, reference):
            raise AlreadyOwnedError(
                key=Reference.of(obj, "obj").key,
                controller=f"{other.get('kind')} {other.get('name')}",
                owner=f"{reference.kind} {reference.name}",
            )
    entry = {
        **_entry(reference),
        "controller": True,
        "blockOwnerDeletion": block_owner_deletion,
    }
    return _put(obj, references, reference, entry)


def set_owner_reference(
    owner: AnyObject, obj: JSONObject, *, block_owner_deletion: bool = False
) -> JSONObject:
    """Add an owner that does not control: the object lives as long as one of its owners does.

    Args:
        owner: what owns, as the server knows it: it needs a uid.
        obj: the object, of the caller's own; it is changed. If the owner controls it already,
            it goes on doing so.
        block_owner_deletion: whether a foreground deletion of the owner waits for this object.

    Returns:
        The same dict.

    Raises:
        OwnerScopeError: the owner lives in a namespace, and the object not in the same one.
        InvalidArgumentError: the owner has no uid, or one of the two no name or kind, or both are
            the same object.
        InvalidTypeError: `obj` is no dict.
    """
    reference, references = _checked(owner, obj)
    kept = {"blockOwnerDeletion": True} if block_owner_deletion else {}
    for other in references:
        if _is_same_owner(other, reference):
            names = ("controller", "blockOwnerDeletion")
            kept = {name: other[name] for name in names if name in other} | kept
    return _put(obj, references, reference, {**_entry(reference), **kept})


def _checked(owner: AnyObject, obj: JSONObject) -> tuple[Reference, list[JSONObject]]:
    """Return who owns, and the references that the object has."""
    if isinstance(obj, KubeObject):
        raise InvalidTypeError("obj", "cached objects are immutable; take to_dict() first")
    reference, dependent = Reference.of(owner, "owner"), Reference.of(obj, "obj")
    if not (reference.uid and reference.name):
        reason = "has no uid: only what the server has stored can own; create or read it first"
        raise InvalidArgumentError("owner", reason)
    if reference.namespace and reference.namespace != dependent.namespace:
        raise OwnerScopeError(owner_namespace=reference.namespace, namespace=dependent.namespace)
    if (reference.group, reference.kind, reference.key) == (
        dependent.group,
        dependent.kind,
        dependent.key,
    ):
        raise InvalidArgumentError("obj", "would own itself: a deletion could wait for ever")
    found = metadata_of(obj, "obj").get("ownerReferences") or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InvalidTypeError("obj", "metadata.ownerReferences is no list of dicts")
    return reference, found


def _entry(reference: Reference) -> JSONObject:
    return {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "name": reference.name,
        "uid": reference.uid,
    }


def _is_same_owner(entry: JSONObject, reference: Reference) -> bool:
    """Compare as upstream does: names are unique, so another uid is an owner that is gone."""
    group = str(entry.get("apiVersion", "")).rpartition("/")[0]
    found = (group, entry.get("kind"), entry.get("name"))
    return found == (reference.group, reference.kind, reference.name)


def _put(
    obj: JSONObject, references: list[JSONObject], reference: Reference, entry: JSONObject
) -> JSONObject:
    others = [other for other in references if not _is_same_owner(other, reference)]
    at = next(
        (i for i, other in enumerate(references) if _is_same_owner(other, reference)), len(others)
    )
    obj["metadata"]["ownerReferences"] = [*others[:at], entry, *others[at:]]
    return obj
