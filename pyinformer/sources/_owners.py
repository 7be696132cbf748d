"""From an object to its owners, and back.

What enters are objects with owner references; what leaves are the keys of those owners that are of
one kind, in any version of it, and an index function that says the same: an informer's index is the
way back, kept with the cache, readable from any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from pyinformer.apimachinery import KubeObject, View, is_object_name, object_key

if TYPE_CHECKING:
    from pyinformer.apimachinery import OwnerReference


@final
@dataclass(frozen=True, slots=True)
class OwnerKind:
    """What kind of owner to look for."""

    group: str
    """Empty for the core group."""
    kind: str
    namespaced: bool
    """Whether such owners live in namespaces; a cluster-scoped one may own namespaced objects."""

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


def owner_keys(
    obj: KubeObject[View | None], owner: OwnerKind, *, controller_only: bool
) -> tuple[str, ...]:
    """Return the keys of an object's owners of one kind, each once.

    Args:
        obj: the owned object.
        owner: the kind; references to it may name any version of it.
        controller_only: only the owner that controls the object (`controller: true`).

    Returns:
        `namespace/name` with the object's own namespace, or `name` for cluster-scoped owners. A
        reference whose name no object can have is left out.

    Source:
        controller-runtime pkg/handler/enqueue_owner.go.
    """
    namespace = obj.metadata.namespace if owner.namespaced else ""
    keys = [
        object_key(namespace, reference.name)
        for reference in obj.metadata.owner_references
        if (reference.controller or not controller_only)
        and _is_of(reference, owner)
        and is_object_name(reference.name)
    ]
    return tuple(keys) if len(keys) < 2 else tuple(dict.fromkeys(keys))  # noqa: PLR2004 - each once


def owner_names(
    obj: KubeObject[View | None], owner: OwnerKind, *, controller_only: bool
) -> list[str]:
    """Return what an object's references to owners of one kind say, whatever it is.

    The server takes any text for a name in a reference: who may write the object writes the text.

    Args:
        obj: the owned object.
        owner: the kind.
        controller_only: only the owner that controls the object.
    """
    return [
        reference.name
        for reference in obj.metadata.owner_references
        if _is_of(reference, owner) and (reference.controller or not controller_only)
    ]


def _is_of(reference: OwnerReference, owner: OwnerKind) -> bool:
    if reference.kind != owner.kind:
        return False
    group, slash, _ = reference.api_version.partition("/")
    return group == owner.group if slash else not owner.group


def owner_index_name(owner: OwnerKind, *, controller_only: bool) -> str:
    """Return the name of the index of such owners; the same for everybody who asks the same."""
    return f"{'controlled' if controller_only else 'owned'} by {owner}"


def owner_index(
    owner: OwnerKind, *, controller_only: bool
) -> Callable[[KubeObject[View | None]], str | tuple[str, ...] | None]:
    """Return an index function from an object to the keys of its owners."""

    def read(obj: KubeObject[View | None]) -> str | tuple[str, ...] | None:
        if not obj.metadata.owner_references:
            return None
        keys = owner_keys(obj, owner, controller_only=controller_only)
        return keys[0] if len(keys) == 1 else keys or None  # plain text is an index's fast path

    return read
