"""What a cache can answer for: nothing before its first sync, nothing outside its scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from pyinformer.apimachinery import CacheNotSyncedError, NotCachedError

if TYPE_CHECKING:
    from pyinformer.informer._shared_informer import SharedInformer


@final
class CacheReadiness:
    """Answers for one informer; safe from any thread."""

    def __init__(self, informer: SharedInformer[Any]) -> None:
        self._informer = informer

    def check(self, namespace: str | None) -> None:
        """Raise if the cache cannot answer for a namespace, or for all of them if None.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            NotCachedError: the namespace is not watched.
        """
        informer = self._informer
        watched = informer.scope.namespace
        if watched is not None and namespace is not None and namespace != watched:
            raise NotCachedError(informer=str(informer.scope), namespace=namespace)
        if not informer.has_synced:
            state, last_error = informer.reflector_state()
            raise CacheNotSyncedError(
                informer=str(informer.scope), state=state, last_error=last_error
            )
