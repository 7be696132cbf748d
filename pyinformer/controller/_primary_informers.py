"""The primary informers of a controller: their clusters, and the kind and keys of owners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.cache.informer import SharedInformer
from pyinformer.controller.sources import OwnerKind, Request
from pyinformer.errors import (
    InformerError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
)
from pyinformer.objects import UidRange, V, check_iterable, check_type

if TYPE_CHECKING:
    from pyinformer.client.cluster import Cluster
    from pyinformer.controller.sources import OwnedSource

_log = get_logger(__name__)

_FIRST_WAIT_SECONDS: Final = 0.2  # doubles: a server that restarts is back within seconds
_LONGEST_WAIT_SECONDS: Final = 5.0
_DISCOVERY_SECONDS: Final = 10.0  # a silent group delays all controllers that start together


def listed(
    primary: SharedInformer[V] | Sequence[SharedInformer[V]] | None,
) -> tuple[SharedInformer[V], ...]:
    """Return the informers as a tuple.

    Raises:
        InvalidTypeError: one of them is not an informer.
    """
    if primary is None:
        return ()
    if not isinstance(primary, SharedInformer):
        check_iterable("primary", primary, shown="a SharedInformer, or several")
    informers = (primary,) if isinstance(primary, SharedInformer) else tuple(primary)
    for informer in informers:
        if not isinstance(informer, SharedInformer):
            reason = f"must be a SharedInformer, not {type(informer).__name__}"
            raise InvalidTypeError("primary", reason)
    return informers


@final
class Clusters:
    """The clusters of one controller, each with a unique name, which its requests carry."""

    def __init__(self) -> None:
        self._by_name: dict[str, Cluster] = {}

    def add(self, informer: SharedInformer[Any], argument: str) -> None:
        """Add the cluster of an informer.

        Args:
            informer: the informer.
            argument: the name of the caller's argument, for the error.

        Raises:
            InvalidArgumentError: another cluster has the same name.
            InvalidTypeError: it is not an informer.
        """
        check_type(argument, informer, SharedInformer)
        cluster = informer.cluster
        known = self._by_name.setdefault(cluster.name, cluster)
        if known is not cluster:
            named = f"are both named {cluster.name!r}" if cluster.name else "have no name"
            reason = (
                f"{cluster!r} and {known!r} {named}, so requests could not distinguish their"
                " objects; give each cluster of a controller a name: connect(..., name='eu')"
            )
            raise InvalidArgumentError(argument, reason)


def the_only_cluster(primaries: Sequence[SharedInformer[V]]) -> str | None:
    """Return the cluster that a key without one belongs to; None if there are several clusters."""
    names = {informer.cluster.name for informer in primaries}
    if not names or "" in names:
        return ""
    return names.pop() if len(names) == 1 else None


def request_among(primaries: Sequence[SharedInformer[V]], request: Request | str) -> Request:
    """Return a request, or make one of a key in the primaries' cluster.

    Raises:
        InvalidTypeError: it is neither.
        InvalidArgumentError: the key is invalid, or the primaries are in several clusters, or in
            none of the request's name.
    """
    if isinstance(request, Request):
        names = {informer.cluster.name for informer in primaries}
        if names and request.cluster not in names:
            known = ", ".join(map(repr, sorted(names)))
            reason = f"is of cluster {request.cluster!r}, and this controller's are {known}"
            raise InvalidArgumentError("request", reason)
        return request
    cluster = the_only_cluster(primaries)
    if cluster is None:
        reason = f"must be a Request, got {request!r}: there are several clusters"
        raise InvalidArgumentError("request", reason)
    return Request(request, cluster)


def watched_owners(
    primaries: Sequence[SharedInformer[V]], *, controller_only: bool = True
) -> Callable[[str], bool] | None:
    """Return a function from an owner's key to whether these informers watch that owner.

    An owner in another namespace, or outside the selectors, is not in the cache, as if it were
    gone: the reconcile would clean up. With selectors, or in a share, only cached objects count as
    owners; the primary informer reports those that are gone, and those that appear later. So it is
    for owners that do not control: one object of a tenant can name thousands that do not exist.

    Args:
        primaries: of the owners, in one cluster.
        controller_only: only owners that control an object count; there is one at most.

    Returns:
        The function, or None if every owner is requested.
    """
    scopes = [informer.scope for informer in primaries]
    is_everything = any(scope.is_everywhere and not scope.is_partial for scope in scopes)
    if is_everything and controller_only:
        return None

    def is_watched(key: str) -> bool:
        namespace = key.rpartition("/")[0]
        return any(
            informer.scope.covers(namespace)
            and not (
                (informer.scope.is_partial or not controller_only)
                and informer.lister.get(key, allow_unsynced=True) is None
            )
            for informer in primaries
        )

    return is_watched


def own_requests(primaries: Sequence[SharedInformer[V]]) -> Callable[[Request], bool] | None:
    """Return a function from a request to whether its object is in this process's share.

    An object in another share is not cached, as if it were gone: the reconcile would clean up.
    Deletions in this share are requested by the primary informer itself.

    Args:
        primaries: whose objects are reconciled.

    Returns:
        The function, or None if they follow all objects.
    """
    if all(one.scope.uid_range is None for one in primaries):
        return None

    def is_own(request: Request) -> bool:
        return any(
            one.cluster.name == request.cluster
            and one.lister.get(request.key, allow_unsynced=True) is not None
            for one in primaries
        )

    return is_own


async def check_own(primaries: Sequence[SharedInformer[V]], request: Request) -> None:
    """Refuse the request of an object that is in another process's share.

    It is not cached here, as if it were gone. The server is asked for what no cache has.

    Raises:
        InvalidArgumentError: naming the process that has the object.
        InformerError: the server was asked, and the request failed.

    Cancellation:
        Safe.
    """
    is_own = own_requests(primaries)
    if is_own is None or is_own(request):
        return
    for informer in primaries:
        own, resource = informer.scope.uid_range, informer.scope.resource
        if own is None or informer.cluster.name != request.cluster:
            continue
        try:
            obj = await informer.cluster.get(resource.api_version, resource.resource, request.key)
        except NotFoundError:
            continue
        uid = obj.metadata.uid
        if not own.has(uid):
            reason = f"{request.key} is of {UidRange.of(uid, own.total)}, and this is {own}"
            raise InvalidArgumentError("request", f"{reason}: reconcile it in that process")


async def resolve_owner(source: OwnedSource[Any], primary: SharedInformer[Any]) -> None:
    """Set the kind of a source's owners, and retry until the server names it, as caches do.

    Of two servers behind a balancer one may not know a definition yet, and a token may be renewed
    just now: no answer ends it. Once owners are cached, their keys decide the scope: what discovery
    said may be older.

    Best called while the caches are being filled: an index of an empty cache costs nothing, that
    of 100,000 objects a step of 0.1 s.

    Args:
        source: the source.
        primary: the informer of the owners; a cached owner names its kind if the server does not.

    Cancellation:
        The only way to end it before.
    """
    wait_seconds = _FIRST_WAIT_SECONDS
    while source.owner is None:
        try:
            with anyio.fail_after(_DISCOVERY_SECONDS):
                found = await primary.cluster.discovery.resource(primary.scope.resource)
            owner = OwnerKind(found.resource.group, found.kind, found.namespaced)
        except (InformerError, TimeoutError) as error:
            cached = _kind_of_cached(primary)
            if cached is None:
                reason = str(error) or f"discovery: no answer within {_DISCOVERY_SECONDS:g} s"
                if reason != source.unknown_because:
                    source.unknown_because = reason
                    _log.warning("%s: the kind of its owners is not known: %s", source.name, reason)
                await anyio.sleep(wait_seconds)
                wait_seconds = min(2 * wait_seconds, _LONGEST_WAIT_SECONDS)
                continue
            owner = cached
        if source.owner is None:  # the early call may have set it meanwhile
            source.set_owner(owner)
    # Discovery may have been read before the definition came back with another scope.
    keys = primary.lister.keys(allow_unsynced=True)
    if keys:
        source.correct_scope(namespaced="/" in keys[0])


def _kind_of_cached(primary: SharedInformer[Any]) -> OwnerKind | None:
    for obj in primary.lister.list(allow_unsynced=True):  # a namespace may be forbidden
        gvk = obj.gvk
        return OwnerKind(gvk.group, gvk.kind, bool(obj.metadata.namespace))
    return None
