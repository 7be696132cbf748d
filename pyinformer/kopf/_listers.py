"""Listers over what the streams of an operator keep, for its handlers."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, final

from pyinformer.cache.store import Indexer, JointIndexer, Lister
from pyinformer.errors import (
    CacheNotSyncedError,
    InvalidArgumentError,
    LifecycleError,
    NotCachedError,
)
from pyinformer.kopf._stream_cache import CachedObjects
from pyinformer.objects import GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kopf._cogs.structs.references import Resource

    from pyinformer.cache.store import IndexFunction, Readiness
    from pyinformer.kopf._stream import Stream

NO_INDEXES: Final[Mapping[str, str | IndexFunction]] = MappingProxyType({})


@final
class Informers:
    """The listers of one operator; `memo.informers` in its handlers.

    Operators may share a memo: a handler always reads the listers of its own operator.

    Args:
        caches: what the streams of the operator keep.
        current: returns that of the operator in whose context it is called, or None.
    """

    def __init__(self, caches: StreamCaches, current: Callable[[], StreamCaches | None]) -> None:
        self._caches = caches
        self._current = current

    def lister(
        self,
        api_version: str,
        resource: str,
        *,
        indexes: Mapping[str, str | IndexFunction] = NO_INDEXES,
    ) -> Lister[None]:
        """Return the lister of a resource that the operator watches.

        Call it in a startup handler first: then the streams of the resource keep bodies.

        Args:
            api_version: `v1` or `apps/v1`.
            resource: the plural, such as `pods`.
            indexes: field paths or functions by the name of the index, for `lister.by_index`; only
                before the first stream of the resource begins.

        Returns:
            The lister; each read raises LifecycleError if no stream keeps the objects, and
            CacheNotSyncedError before the first list.

        Raises:
            InvalidArgumentError: an index of the same name is by another path or function.
            LifecycleError: a stream of the resource runs without one of the indexes.
        """
        caches = self._current() or self._caches
        return caches.lister(GroupVersionResource.of(api_version, resource), indexes)


@final
class StreamCaches:
    """What the streams of one operator keep, by resource."""

    def __init__(self) -> None:
        self._caches: dict[GroupVersionResource, _Cache] = {}

    def lister(
        self, resource: GroupVersionResource, indexes: Mapping[str, str | IndexFunction]
    ) -> Lister[None]:
        """Return the lister of a resource, with these indexes.

        Raises:
            InvalidArgumentError: an index of the same name is by another path or function.
            LifecycleError: a stream of the resource runs without one of the indexes.
        """
        cache = self._cache_of(resource)
        cache.add_indexes(indexes)
        return cache.lister

    def wants(self, resource: Resource) -> bool:
        """Return whether a lister of a resource was requested."""
        return _gvr(resource) in self._caches

    def leave_to_kopf(self, resource: Resource, why: str) -> None:
        """Record why a stream of a resource is plain kopf, for the errors of its lister."""
        self._cache_of(_gvr(resource)).why_plain = why

    def join(self, stream: Stream) -> None:
        """Add a stream that begins."""
        self._cache_of(_gvr(stream.resource)).join(stream)

    def leave(self, stream: Stream) -> None:
        """Remove a stream that has ended."""
        self._cache_of(_gvr(stream.resource)).leave(stream)

    def _cache_of(self, resource: GroupVersionResource) -> _Cache:
        return self._caches.setdefault(resource, _Cache(resource))


def _gvr(resource: Resource) -> GroupVersionResource:
    return GroupVersionResource(resource.group, resource.version, resource.plural)


@final
class _Cache:
    """The objects of one resource, in one cache or one per namespace."""

    def __init__(self, resource: GroupVersionResource) -> None:
        self._resource = resource
        self._streams: dict[str, Stream] = {}
        self._indexes: dict[str, str | IndexFunction] = {}
        self._have_ended = False
        self.why_plain: str = ""
        """Why a stream of the resource is plain kopf; empty if none is."""
        self.lister: Lister[None] = Lister(Indexer(), resource=resource.resource, readiness=self)

    def add_indexes(self, indexes: Mapping[str, str | IndexFunction]) -> None:
        """Give an index to every cache that begins from now on.

        Raises:
            InvalidArgumentError: the name is taken by an index of another path or function.
            LifecycleError: a cache has begun.
        """
        for name, by in indexes.items():
            if self._indexes.get(name, by) != by:
                reason = f"an index called {name!r} of {self._resource} exists already, by another"
                raise InvalidArgumentError(
                    "indexes", f"{reason} path or function: give one of them another name"
                )
        missing = {name: by for name, by in indexes.items() if name not in self._indexes}
        if missing and self._streams:
            reason = f"the index {min(missing)!r} of {self._resource} must be there before its"
            raise LifecycleError(f"{reason} first stream: request it in @kopf.on.startup()")
        self._indexes.update(missing)

    def join(self, stream: Stream) -> None:
        """Read the objects of a stream as well."""
        if isinstance(stream.known, CachedObjects):
            for name, by in self._indexes.items():
                stream.known.indexer.add_index(name, by)
        self._streams = {**self._streams, stream.namespace or "": stream}
        self._renew()

    def leave(self, stream: Stream) -> None:
        """Read the objects of a stream no longer."""
        rest = {name: each for name, each in self._streams.items() if each is not stream}
        self._streams = rest
        self._have_ended = not rest
        self._renew()

    def _renew(self) -> None:
        caches = {
            name: stream.known.indexer
            for name, stream in self._streams.items()
            if isinstance(stream.known, CachedObjects)
        }
        if set(caches) == {""}:
            self.lister.read_from_nowait(caches[""])
        elif caches:
            self.lister.read_from_nowait(JointIndexer(caches))

    @property
    def staleness(self) -> str:
        """Why the cache may be behind the server; empty while it follows the server."""
        failing = (each for each in self._streams.values() if each.last_error)
        return next((f"{each.name}: {each.last_error}" for each in failing), "")

    def check(self, namespace: str | None) -> None:
        """Raise if the cache cannot be read for a namespace, or for all of them if None.

        Raises:
            LifecycleError: no stream watches the resource or all have ended, or its streams keep
                no bodies, or one of them is plain kopf.
            NotCachedError: no stream watches the namespace.
            CacheNotSyncedError: a stream that is needed has not listed yet.
        """
        streams = self._streams
        if self.why_plain:
            reason = f"the stream of {self._resource} is plain kopf, which keeps no cache"
            raise LifecycleError(f"{reason}: {self.why_plain}")
        if not streams and self._have_ended:
            reason = f"the streams of {self._resource} have ended: the operator is stopping, or the"
            raise LifecycleError(f"{reason} namespaces of the objects are gone")
        if not streams:
            reason = f"no stream of this operator watches {self._resource}: add a handler for it,"
            raise LifecycleError(f"{reason} such as @kopf.index({self._resource.resource!r})")
        if namespace is not None and "" not in streams and namespace not in streams:
            raise NotCachedError(informer=str(self._resource), namespace=namespace)
        for stream in self._streams_of(namespace):
            if not isinstance(stream.known, CachedObjects):
                reason = f"{stream.name} keeps no bodies: request the lister in"
                raise LifecycleError(f"{reason} @kopf.on.startup(), or install(bodies=True)")
            if not stream.has_listed:
                raise CacheNotSyncedError(
                    informer=stream.name, state=stream.state, last_error=stream.last_error or None
                )

    def _streams_of(self, namespace: str | None) -> Iterable[Stream]:
        """Return the streams that show the objects of a namespace, or of all of them if None."""
        mine = None if namespace is None else self._streams.get(namespace)
        return self._streams.values() if mine is None else (mine,)

    def within(self, max_age_seconds: float) -> Readiness:
        """Raise: the age of these caches is unknown."""
        reason = f"must not be used: kopf's streams have no age, got {max_age_seconds}"
        raise InvalidArgumentError("max_age_seconds", reason)
