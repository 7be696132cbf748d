"""What a cache can answer for: nothing before its first sync, nothing outside its scope.

What enters is the namespace that somebody wants to read; what leaves is silence, or the error that
says why the answer would be a lie. A cache that knows nothing never looks empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, final

from pyinformer.apimachinery import CacheNotSyncedError, NotCachedError, StaleCacheError
from pyinformer.informer._fresh_readiness import FreshReadiness

if TYPE_CHECKING:
    from pyinformer.informer._namespace_caches import NamespaceCaches
    from pyinformer.informer._settings import Scope
    from pyinformer.store import Readiness


class Cached(Protocol):
    """Whose cache it is."""

    @property
    def scope(self) -> Scope:
        """What it follows."""
        ...

    @property
    def staleness(self) -> str:
        """Why it may be behind the server; empty while it is followed."""
        ...

    @property
    def observed_resource_version(self) -> str:
        """The version up to which every change is cached; empty before the first list."""
        ...

    def age_seconds(self) -> float | None:
        """Return how long ago the cache was last proven; None if never."""
        ...

    def reflector_state(self) -> tuple[str, str | None]:
        """Return the reflector's state and its last error."""
        ...


@final
class CacheReadiness:
    """Answers for one informer; safe from any thread."""

    def __init__(self, informer: Cached, members: NamespaceCaches[Any]) -> None:
        self._informer = informer
        self._members = members

    @property
    def staleness(self) -> str:
        """Why the cache may be behind the server; empty while it is followed."""
        return self._informer.staleness

    def within(self, max_age_seconds: float) -> Readiness:
        """Return the readiness for a reader that wants no older answers.

        Raises:
            InvalidArgumentError: the age is negative or no number.
        """
        return FreshReadiness(self, max_age_seconds, age_of=self._age_of, stale=self._stale)

    def _age_of(self, namespace: str | None) -> float | None:
        if namespace is None:
            return self._informer.age_seconds()
        member = self._members.of(f"{namespace}/")
        return None if member is None else member.age_seconds()

    def _stale(
        self, namespace: str | None, max_age_seconds: float, age_seconds: float | None
    ) -> StaleCacheError:
        member = None if namespace is None else self._members.of(f"{namespace}/")
        if member is None:
            state, last_error = self._informer.reflector_state()
            scope, position = self._informer.scope, self._informer.observed_resource_version
        else:  # what befalls the others has nothing to do with it
            state, last_error = member.state.value, member.status().last_error
            scope, position = member.scope, member.reflector.position
        return StaleCacheError(
            informer=str(scope),
            wanted=f"an age of {max_age_seconds:g} s at most",
            position=position,
            waited_seconds=0.0,
            state=state,
            reason=last_error or "",
            max_age_seconds=max_age_seconds,
            age_seconds=age_seconds,
        )

    def check(self, namespace: str | None) -> None:
        """Raise if the cache cannot answer for a namespace, or for all of them if None.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            NotCachedError: the namespace is not watched.
        """
        # Every read of a key comes by here: what is usual is found out first.
        members = self._members
        if members.is_everywhere:
            if not members.has_synced:
                raise self._unsynced()
            return
        member = members.by_namespace.get(namespace)
        if member is not None and member.distribution.has_synced:
            return
        if namespace is None or not members.is_known:
            if not members.has_synced:
                raise self._unsynced()
            return
        if member is None:
            raise NotCachedError(informer=str(self._informer.scope), namespace=namespace)
        status = member.status()
        raise CacheNotSyncedError(
            informer=str(member.scope), state=status.state.value, last_error=status.last_error
        )

    def _unsynced(self) -> CacheNotSyncedError:
        state, last_error = self._informer.reflector_state()
        scope = str(self._informer.scope)
        return CacheNotSyncedError(informer=scope, state=state, last_error=last_error)
