"""The readiness of a cache for a reader that wants no old answers.

What enters is how old the cache may be; what leaves is silence while it was proven more lately, or
the error that says how long ago that was. Whatever else the cache cannot answer for, it still says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pyinformer.apimachinery import StaleCacheError, check_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.store import Readiness


@final
class FreshReadiness:
    """Answers for one reader; safe from any thread.

    Args:
        readiness: knows what the cache can answer for at all.
        max_age_seconds: how long ago it may have been proven.
        age_of: returns how long ago the cache of a namespace was proven, or of all for None.
        stale: makes the error, given the namespace and the two ages.

    Raises:
        InvalidArgumentError: the age is negative or no number.
    """

    def __init__(
        self,
        readiness: Readiness,
        max_age_seconds: float,
        *,
        age_of: Callable[[str | None], float | None],
        stale: Callable[[str | None, float, float | None], StaleCacheError],
    ) -> None:
        check_seconds("max_age_seconds", max_age_seconds)
        self._readiness = readiness
        self._max_age_seconds = max_age_seconds
        self._age_of = age_of
        self._stale = stale

    @property
    def staleness(self) -> str:
        """Why the cache may be behind its server; empty while it is followed."""
        return self._readiness.staleness

    def within(self, max_age_seconds: float) -> Readiness:
        """Return the readiness for another age; the stricter of two holds."""
        stricter = min(max_age_seconds, self._max_age_seconds)
        check_seconds("max_age_seconds", max_age_seconds)
        return FreshReadiness(self._readiness, stricter, age_of=self._age_of, stale=self._stale)

    def check(self, namespace: str | None) -> None:
        """Raise if the cache cannot answer for a namespace, or its answer may be too old.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            NotCachedError: the namespace is not watched.
            StaleCacheError: the cache was last proven too long ago.
        """
        self._readiness.check(namespace)
        age = self._age_of(namespace)
        if age is None or age > self._max_age_seconds:
            raise self._stale(namespace, self._max_age_seconds, age)
