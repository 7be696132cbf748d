"""The informers whose objects a controller reconciles.

What enters is one informer or several, as the user gave them; what leaves are all of them, checked,
and for sources of owned objects the kind that their owners are of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyinformer.apimachinery import (
    ForbiddenError,
    InvalidTypeError,
    NotFoundError,
    TransportError,
    V,
)
from pyinformer.informer import SharedInformer
from pyinformer.sources._owners import OwnerKind

if TYPE_CHECKING:
    from pyinformer.sources._owned import OwnedSource


def listed(
    primary: SharedInformer[V] | Sequence[SharedInformer[V]] | None,
) -> tuple[SharedInformer[V], ...]:
    """Return the informers as a tuple.

    Raises:
        InvalidTypeError: one of them is none.
    """
    if primary is None:
        return ()
    informers = (primary,) if isinstance(primary, SharedInformer) else tuple(primary)
    for informer in informers:
        if not isinstance(informer, SharedInformer):
            reason = f"must be a SharedInformer, not {type(informer).__name__}"
            raise InvalidTypeError("primary", reason)
    return informers


async def tell_owner(source: OwnedSource[Any], primary: SharedInformer[Any]) -> None:
    """Say what kind the owners are of, once the caches are filled.

    Args:
        source: has to know it.
        primary: of the owners; asked for its kind if the server does not tell.

    Raises:
        APIStatusError: the server does not tell, and no owner is cached.
        TransportError: it cannot be reached, and no owner is cached.

    Cancellation:
        Safe.
    """
    try:
        found = await primary.cluster.discovery.resource(primary.scope.resource)
    except (ForbiddenError, NotFoundError, TransportError):
        for obj in primary.lister.list():
            gvk = obj.gvk
            source.set_owner(OwnerKind(gvk.group, gvk.kind, bool(obj.metadata.namespace)))
            return
        raise
    source.set_owner(OwnerKind(found.resource.group, found.kind, found.namespaced))
