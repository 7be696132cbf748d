"""What a cache can answer: nothing before its first sync, outside of its scope, or after its end.

A cache that knows nothing never looks empty, and one that is not followed any more never looks
current: the read raises an error that says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from pyinformer.errors import (
    CacheNotSyncedError,
    LifecycleError,
    NotCachedError,
    StaleCacheError,
)
from pyinformer.objects import check_seconds

if TYPE_CHECKING:
    from pyinformer.cache.informer._introspection import Introspection
    from pyinformer.cache.informer._lifecycle import InformerLifecycle
    from pyinformer.cache.informer._namespace_caches import NamespaceCaches
    from pyinformer.cache.store import Readiness


@final
@dataclass(frozen=True, slots=True)
class CacheReadiness:
    """The readiness of one informer's cache; usable from any thread."""

    caches: NamespaceCaches[Any]
    introspection: Introspection[Any]
    lifecycle: InformerLifecycle

    @property
    def staleness(self) -> str:
        """Why the cache may be behind the server; empty while it is followed."""
        return self.introspection.staleness

    def within(self, max_age_seconds: float) -> Readiness:
        """Return the readiness for a reader that wants no older answers.

        Raises:
            InvalidArgumentError: the age is not a duration.
        """
        check_seconds("max_age_seconds", max_age_seconds)
        for cache in self.caches.all:  # so that the first read finds it young
            cache.reflector.want_age(max_age_seconds)
        return _BoundedAgeReadiness(self, max_age_seconds)

    def check(self, namespace: str | None) -> None:
        """Raise if the cache cannot answer for a namespace, or for all of them if None.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            NotCachedError: the namespace is not followed.
            LifecycleError: the informer is closed, or has crashed.
        """
        # Every read of a key comes here: the usual cases are first.
        caches = self.caches
        if caches.is_everywhere:
            if not caches.is_readable:
                raise self._unreadable()
            return
        cache = caches.readable.get(namespace)
        if cache is not None and cache.sink.has_synced:
            return
        if caches.has_ended or namespace is None or not caches.is_known:
            if not caches.is_readable:
                raise self._unreadable()
            return
        if cache is None:
            raise NotCachedError(informer=str(caches.scope), namespace=namespace)
        status = cache.status()
        raise CacheNotSyncedError(
            informer=str(cache.scope), state=status.state.value, last_error=status.last_error
        )

    def check_age(self, namespace: str | None, max_age_seconds: float) -> None:
        """Raise if the cache of a namespace, or of all for None, may be older than a limit.

        Every read asks the server to confirm the cache more often for a minute.

        Raises:
            StaleCacheError: it may be.
        """
        cache = None if namespace is None else self.caches.of(f"{namespace}/")
        for one in self.caches.all if cache is None else (cache,):
            one.reflector.want_age(max_age_seconds)
        if cache is not None:
            age = cache.age_seconds()
        else:
            age = self.introspection.age_seconds() if namespace is None else None
        if age is not None and age <= max_age_seconds:
            return
        if cache is None:
            state, last_error = self.introspection.reflector_state()
            scope, position = self.caches.scope, self.introspection.observed_resource_version
        else:  # other namespaces do not matter
            state, last_error = cache.state.value, cache.status().last_error
            scope, position = cache.scope, cache.reflector.position
        raise StaleCacheError(
            informer=str(scope),
            wanted=f"an age of {max_age_seconds:g} s at most",
            position=position,
            waited_seconds=0.0,
            state=state,
            reason=last_error or "",
            max_age_seconds=max_age_seconds,
            age_seconds=age,
        )

    def _unreadable(self) -> CacheNotSyncedError | LifecycleError:
        if self.caches.has_ended:
            what = "is closed" if self.lifecycle.is_closed else "has crashed"
            return LifecycleError(
                f"the informer of {self.caches.name} {what}, so its cache is not followed any more:"
                " make a new informer; with allow_unsynced=True a read returns what it held last"
            )
        state, last_error = self.introspection.reflector_state()
        return CacheNotSyncedError(
            informer=str(self.caches.scope), state=state, last_error=last_error
        )


@final
@dataclass(frozen=True, slots=True)
class _BoundedAgeReadiness:
    """The readiness for a reader that wants no older answers."""

    readiness: CacheReadiness
    max_age_seconds: float

    @property
    def staleness(self) -> str:
        """Why the cache may be behind the server; empty while it is followed."""
        return self.readiness.staleness

    def within(self, max_age_seconds: float) -> Readiness:
        """Return the readiness for another age; the stricter of two holds."""
        return self.readiness.within(min(max_age_seconds, self.max_age_seconds))

    def check(self, namespace: str | None) -> None:
        """Raise if the cache cannot answer for a namespace, or its answer may be too old.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            NotCachedError: the namespace is not followed.
            LifecycleError: the informer is closed, or has crashed.
            StaleCacheError: the cache may be older than that.
        """
        self.readiness.check(namespace)
        self.readiness.check_age(namespace, self.max_age_seconds)
