"""The informers whose objects a controller reconciles.

What enters is one informer or several, as the user gave them; what leaves are all of them, checked,
and for sources of owned objects the kind that their owners are of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyinformer.apimachinery import (
    ForbiddenError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    TransportError,
    V,
)
from pyinformer.informer import SharedInformer
from pyinformer.sources._owners import OwnerKind
from pyinformer.sources._request import Request

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


def the_only_cluster(primaries: Sequence[SharedInformer[V]]) -> str | None:
    """Return the name of the cluster that mere keys are of; None if there are several."""
    names = {informer.cluster.name for informer in primaries}
    if not names or "" in names:
        return ""
    return names.pop() if len(names) == 1 else None


def request_among(primaries: Sequence[SharedInformer[V]], request: Request | str) -> Request:
    """Return a request, or make it of a key: in the cluster that the primaries are in.

    Raises:
        InvalidTypeError: it is neither.
        InvalidArgumentError: the key is none, or the primaries are in several clusters.
    """
    if isinstance(request, Request):
        return request
    cluster = the_only_cluster(primaries)
    if cluster is None:
        reason = f"{request!r} is in which cluster? There are several: give a Request"
        raise InvalidArgumentError("request", reason)
    return Request(request, cluster)


def watched_owners(
    primaries: Sequence[SharedInformer[V]],
) -> Callable[[str], bool] | None:
    """Return what tells by its key whether an owner is one that these informers watch.

    One in another namespace, or that selectors leave out, is not in the cache, exactly as one that
    is gone: it would be cleaned up. Where there are selectors, only what is cached is taken for an
    owner; that one is gone, its own informer says.

    Args:
        primaries: of the owners, in one cluster.

    Returns:
        The function, or None if they watch everything.
    """
    scopes = [informer.scope for informer in primaries]
    if any(scope.namespace is None and not scope.is_selective for scope in scopes):
        return None

    def is_watched(key: str) -> bool:
        namespace = key.rpartition("/")[0]
        return any(
            informer.scope.namespace in {None, namespace}
            and not (
                informer.scope.is_selective
                and informer.lister.get(key, allow_unsynced=True) is None
            )
            for informer in primaries
        )

    return is_watched


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
