"""Owner references: which objects own an object, and which one controls it.

An object has at most one controller, one reference per owner, and none to an owner in another
namespace: the garbage collector would treat that owner as deleted.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from functools import partial

from pyinformer.controller.conventions._references import AnyObject, Reference, metadata_of
from pyinformer.errors import (
    AlreadyOwnedError,
    InvalidArgumentError,
    InvalidTypeError,
    OwnerScopeError,
)
from pyinformer.objects import JSONObject, KubeObject, check_flag, split_api_version


def set_controller_reference(
    owner: AnyObject, obj: JSONObject, *, block_owner_deletion: bool = True
) -> JSONObject:
    """Make an owner the controller of an object, before the object is written.

        statefulset = set_controller_reference(database, {"apiVersion": "apps/v1", ...})

    `Controller.owns` then finds the object, and the cluster's garbage collector deletes it when its
    owner is gone. Calling it again changes nothing. A reference to an owner of the same kind and
    name, but another uid, belongs to an earlier owner and is replaced.

    Args:
        owner: the owner as the server returned it: it needs a uid.
        obj: the object, which is changed. It needs the namespace of a namespaced owner.
        block_owner_deletion: whether a foreground deletion of the owner waits for this object.

    Returns:
        The same dict.

    Raises:
        AlreadyOwnedError: another object controls it.
        OwnerScopeError: the owner is in a namespace, and the object is not in the same one.
        InvalidArgumentError: the owner has no uid, one of the two has no name or kind, or both are
            the same object.
        InvalidTypeError: `obj` is not a dict.

    Source:
        sigs.k8s.io/controller-runtime pkg/controller/controllerutil, SetControllerReference.
    """
    check_flag("block_owner_deletion", block_owner_deletion)
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
        owner: the owner as the server returned it: it needs a uid.
        obj: the object, which is changed. An owner that controls it already keeps controlling it.
        block_owner_deletion: whether a foreground deletion of the owner waits for this object.

    Returns:
        The same dict.

    Raises:
        OwnerScopeError: the owner is in a namespace, and the object is not in the same one.
        InvalidArgumentError: the owner has no uid, one of the two has no name or kind, or both are
            the same object.
        InvalidTypeError: `obj` is not a dict.
    """
    check_flag("block_owner_deletion", block_owner_deletion)
    reference, references = _checked(owner, obj)
    kept = {"blockOwnerDeletion": True} if block_owner_deletion else {}
    for other in references:
        if _is_same_owner(other, reference):
            names = ("controller", "blockOwnerDeletion")
            kept = {name: other[name] for name in names if name in other} | kept
    return _put(obj, references, reference, {**_entry(reference), **kept})


def remove_owner_reference(
    owner: AnyObject, obj: JSONObject, *, controller_only: bool = False
) -> JSONObject:
    """Remove the reference to an owner: the object no longer depends on it.

        edited = remove_owner_reference(database, secret.to_dict())
        await cluster.patch(secret, edited)

    Without a reference to the owner nothing changes, since a reconcile may run again:
    `has_owner_reference` returns whether there is one. A reference with another uid, to an earlier
    owner of the same kind and name, is removed too.

    Args:
        owner: the owner; it needs no uid.
        obj: the object, which is changed.
        controller_only: remove it only if the owner controls the object (`controller: true`).

    Returns:
        The same dict; without `ownerReferences` if none is left.

    Raises:
        InvalidArgumentError: one of the two has no name or kind.
        InvalidTypeError: `obj` is not a dict.

    Source:
        sigs.k8s.io/controller-runtime pkg/controller/controllerutil, RemoveOwnerReference and
        RemoveControllerReference.
    """
    check_flag("controller_only", controller_only)
    reference, _ = _identities(owner, obj)
    references = _references_of(obj)
    owns = partial(_owns, reference=reference, controller_only=controller_only)
    left = [each for each in references if not owns(each)]
    if len(left) == len(references):
        return obj
    if left:
        obj["metadata"]["ownerReferences"] = left
    else:
        del obj["metadata"]["ownerReferences"]
    return obj


def has_owner_reference(owner: AnyObject, obj: AnyObject, *, controller_only: bool = False) -> bool:
    """Return whether an object refers to an owner, by its group, kind and name.

    Args:
        owner: the owner; it needs no uid.
        obj: the object, cached or a dict; it is not changed.
        controller_only: only a reference of the owner that controls the object
            (`controller: true`) counts.

    Raises:
        InvalidArgumentError: one of the two has no name or kind.
        InvalidTypeError: one of the two is not an object.

    Source:
        sigs.k8s.io/controller-runtime pkg/controller/controllerutil, HasOwnerReference.
    """
    check_flag("controller_only", controller_only)
    reference = Reference.of(owner, "owner")
    Reference.of(obj, "obj")
    owns = partial(_owns, reference=reference, controller_only=controller_only)
    return any(map(owns, _references_of(obj)))


def _checked(owner: AnyObject, obj: JSONObject) -> tuple[Reference, list[JSONObject]]:
    """Return the owner, and the references of the object."""
    reference, dependent = _identities(owner, obj)
    if not (reference.uid and reference.name):
        reason = "must have a uid: create the owner on the server, or read it, first"
        raise InvalidArgumentError("owner", reason)
    if reference.namespace and reference.namespace != dependent.namespace:
        raise OwnerScopeError(owner_namespace=reference.namespace, namespace=dependent.namespace)
    if (reference.group, reference.kind, reference.key) == (
        dependent.group,
        dependent.kind,
        dependent.key,
    ):
        raise InvalidArgumentError(
            "obj", "must not be its own owner: its deletion could wait forever"
        )
    return reference, _references_of(obj)


def _identities(owner: AnyObject, obj: JSONObject) -> tuple[Reference, Reference]:
    """Return the identities of both; the object must be one that can be changed."""
    if isinstance(obj, KubeObject):
        raise InvalidTypeError("obj", "cached objects are immutable; take to_dict() first")
    return Reference.of(owner, "owner"), Reference.of(obj, "obj")


def _references_of(obj: AnyObject) -> list[JSONObject]:
    if isinstance(obj, KubeObject):
        return [
            {
                "apiVersion": each.api_version,
                "kind": each.kind,
                "name": each.name,
                "controller": each.controller,
            }
            for each in obj.metadata.owner_references
        ]
    found = metadata_of(obj, "obj").get("ownerReferences") or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InvalidTypeError("obj", "metadata.ownerReferences must be a list of dicts")
    return found


def _entry(reference: Reference) -> JSONObject:
    return {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "name": reference.name,
        "uid": reference.uid,
    }


def _is_same_owner(entry: JSONObject, reference: Reference) -> bool:
    """Compare as upstream does: names are unique, so another uid is an earlier owner."""
    group, _ = split_api_version(str(entry.get("apiVersion", "")))
    found = (group, entry.get("kind"), entry.get("name"))
    return found == (reference.group, reference.kind, reference.name)


def _owns(entry: JSONObject, *, reference: Reference, controller_only: bool) -> bool:
    is_counted = entry.get("controller") is True or not controller_only
    return is_counted and _is_same_owner(entry, reference)


def _put(
    obj: JSONObject, references: list[JSONObject], reference: Reference, entry: JSONObject
) -> JSONObject:
    others = [other for other in references if not _is_same_owner(other, reference)]
    at = next(
        (i for i, other in enumerate(references) if _is_same_owner(other, reference)), len(others)
    )
    obj["metadata"]["ownerReferences"] = [*others[:at], entry, *others[at:]]
    return obj
