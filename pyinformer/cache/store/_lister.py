"""Reading a cache by key, by namespace, by label and by index, from any thread.

Before the first sync, and for a namespace that is not watched, a lister raises instead of looking
empty, and after the end of the informer instead of looking current. It returns the shared,
immutable objects, in new lists. A read shows what this process wrote, even if the watch has not
delivered it yet.
"""

from __future__ import annotations

import builtins
from copy import copy
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast, final

from pyinformer._runtime.tasks import TimeBudget
from pyinformer.cache.store._decoded import DecodedLister
from pyinformer.cache.store._index import NAMESPACE_INDEX
from pyinformer.cache.store._overlay import OverlayEntries
from pyinformer.cache.store._overlay_reads import (
    merged_by_index,
    merged_get,
    merged_index_values,
    merged_keys,
    merged_list,
    merged_matching,
)
from pyinformer.errors import InvalidArgumentError, InvalidTypeError, ObjectNotFoundError
from pyinformer.objects import (
    KubeObject,
    LabelSelector,
    V,
    check_text,
    is_namespace_name,
    object_key,
    plain_text,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from pyinformer.cache.store._decoded import DecodedObjects
    from pyinformer.cache.store._index import IndexValue
    from pyinformer.cache.store._joint_indexer import Cache


_T = TypeVar("_T")


class Readiness(Protocol):
    """Whether a cache can be read: it has synced, watches the namespace, and is fresh enough."""

    def check(self, namespace: str | None) -> None:
        """Raise if the cache cannot be read for a namespace, or for all of them if None.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed, or has crashed.
            NotCachedError: the namespace is not watched.
        """
        ...

    @property
    def staleness(self) -> str:
        """Why the cache may be behind its server; empty while it follows the server."""
        ...

    def within(self, max_age_seconds: float) -> Readiness:
        """Return a readiness that also raises StaleCacheError if the last proof is older than this.

        Raises:
            InvalidArgumentError: the age is not a number >= 0, or the age of the cache is unknown.
        """
        ...


class AlwaysReady:
    """The readiness of a cache that the program fills itself."""

    @property
    def staleness(self) -> str:
        """Always empty: nothing is known of it."""
        return ""

    def check(self, namespace: str | None) -> None:
        """Allow every read."""

    def within(self, max_age_seconds: float) -> Readiness:
        """Raise: the age of the cache is unknown."""
        reason = f"must not be used: the age of this cache is unknown, got {max_age_seconds}"
        raise InvalidArgumentError("max_age_seconds", reason)


@final
class Lister(Generic[V]):
    """Reads one resource's cache.

    Args:
        indexer: the cache.
        resource: the name of the objects in errors, such as `pods`.
        readiness: checks before each read whether the cache can be read.
        written: own writes that the watch has not delivered yet; reads show them.
        decoded: the decoded objects that readers share; None if they share none.
    """

    def __init__(
        self,
        indexer: Cache[V],
        *,
        resource: str,
        readiness: Readiness | None = None,
        written: OverlayEntries[V] | None = None,
        decoded: DecodedObjects[V] | None = None,
    ) -> None:
        self._indexer: Cache[V] = indexer
        self._source: Lister[V] = self  # of a stricter lister: the one that it was derived from
        self._decoded = None if decoded is None else DecodedLister(self, decoded)
        self._get = indexer.get
        # Nearly always empty; then a read costs only this check more.
        self._written: OverlayEntries[V] = OverlayEntries() if written is None else written
        self._resource = resource
        self._readiness = readiness or AlwaysReady()

    def read_from_nowait(self, indexer: Cache[V]) -> None:
        """Read another cache from now on; called by the informer when its namespaces change."""
        self._indexer = indexer
        self._get = indexer.get

    @property
    def staleness(self) -> str:
        """Why the cache may be behind the server, such as `absent, last proven 40 s ago`.

        Empty while the cache follows the server. Reads return what is cached in any case.
        """
        return self._readiness.staleness

    def fresh(self, *, max_age_seconds: float) -> Lister[V]:
        """Return a lister of the same cache that raises when the cache may be too old.

        At each read, the last request that proved the cache must not be older than this; see
        `informer.age_seconds()`. Quiet caches are proven every 15 to 240 s. For a minute after
        this call and after each read, a stricter limit has the server asked several times within
        it, at most once a second: the first read after a pause may fail where the next succeeds.
        With `allow_unsynced=True` a read returns what is cached, however old. From any thread.

        Args:
            max_age_seconds: how long ago the last proof may have been sent.

        Returns:
            A lister whose reads raise StaleCacheError, too.

        Raises:
            InvalidArgumentError: the age is not a number >= 0, or the age of the cache is unknown.
        """
        return self._with(self._readiness.within(max_age_seconds))

    def _with(self, readiness: Readiness) -> Lister[V]:
        found = copy(self)
        # Not the cache that this lister reads now: it changes with the informer's namespaces.
        current = cast("Cache[V]", _Current(self))
        found._indexer, found._get = current, current.get  # noqa: SLF001 - its own
        found._readiness = readiness  # noqa: SLF001
        if self._decoded is not None:
            found._decoded = self._decoded.over(found)  # noqa: SLF001
        return found

    @property
    def decoded(self) -> DecodedLister[V]:
        """The same reads, as dicts that are decoded once and shared by all readers.

        Raises:
            InvalidArgumentError: the informer does not share them.
        """
        if self._decoded is None:
            reason = (
                f"{self._resource} are decoded for each reader; use to_dict(), or create the"
                " informer with sharing='decoded'"
            )
            raise InvalidArgumentError("sharing", reason)
        return self._decoded

    def get(self, key: str, *, allow_unsynced: bool = False) -> KubeObject[V] | None:
        """Return an object, or None if there is none.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
            allow_unsynced: return what is cached, even if it is incomplete.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed, or has crashed.
            NotCachedError: the namespace is not watched.
            InvalidTypeError: the key is not a text.
        """
        if not isinstance(key, str):  # `for pod in lister` also calls this
            reason = f"must be 'namespace/name' or 'name', got {key!r}; list() returns the objects"
            raise InvalidTypeError("key", reason)
        if not allow_unsynced:
            self._readiness.check(key.rpartition("/")[0] or None)
        found = merged_get(self._indexer, self._written, key) if self._written else self._get(key)
        if found is None and not allow_unsynced:  # or has its namespace been dropped since?
            self._readiness.check(key.rpartition("/")[0] or None)
        return found

    def __getitem__(self, key: str) -> KubeObject[V]:
        """Return an object; otherwise as `get`.

        Raises:
            ObjectNotFoundError: there is none with this key.
        """
        found = self.get(key)
        if found is None:
            raise ObjectNotFoundError(resource=self._resource, key=key)
        return found

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def list(
        self,
        *,
        label_selector: str | Mapping[str, object] | LabelSelector | None = None,
        allow_unsynced: bool = False,
    ) -> builtins.list[KubeObject[V]]:
        """Return the objects whose labels match, in no particular order.

        Args:
            label_selector: a text (`"app=web,tier in (a, b)"`) or a mapping; None for all.
            allow_unsynced: return what is cached, even if it is incomplete.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed, or has crashed.
            InvalidSelectorError: the selector cannot be parsed.
        """
        selector = LabelSelector.parse(label_selector)
        if selector.is_empty:
            return self._all(allow_unsynced)
        return self._matching(selector, allow_unsynced)

    def namespace(self, namespace: str) -> NamespaceLister[V]:
        """Return a lister of one namespace.

        Raises:
            InvalidArgumentError: no namespace has such a name; `list()` reads all of them.
            InvalidTypeError: it is not a text.
        """
        check_text("namespace", namespace)
        if not is_namespace_name(namespace):
            reason = f"must be the name of a namespace, got {namespace!r}; list() reads all of them"
            raise InvalidArgumentError("namespace", reason)
        return NamespaceLister(self, plain_text(namespace))

    def by_index(
        self, name: str, value: IndexValue, *, allow_unsynced: bool = False
    ) -> builtins.list[KubeObject[V]]:
        """Return the objects that an index has under a value, without looking at any other.

        Each read is one moment of the cache; two reads are two moments. All namespaces have to have
        synced; `namespace("shop").by_index(...)` reads one of them, and needs no other.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed, or has crashed.
            IndexNotFoundError: there is no such index.
        """
        return self._by_index(name, value, allow_unsynced)

    def index_values(self, name: str, *, allow_unsynced: bool = False) -> builtins.list[str]:
        """Return the values that some object has in an index.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed, or has crashed.
            IndexNotFoundError: there is no such index.
        """
        return self._read(
            None,
            allow_unsynced,
            lambda cache: cache.index_values(name),
            lambda cache, written: merged_index_values(cache, written, name),
        )

    def keys(self, *, allow_unsynced: bool = False) -> builtins.list[str]:
        """Return all keys.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed, or has crashed.
        """
        return self._read(None, allow_unsynced, lambda cache: cache.keys(), merged_keys)

    def iter_async(
        self,
        *,
        label_selector: str | Mapping[str, object] | LabelSelector | None = None,
        allow_unsynced: bool = False,
    ) -> AsyncIterator[KubeObject[V]]:
        """Iterate over many objects without blocking the event loop.

        The objects are those of the moment of this call; the work is spread over time.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed, or has crashed.
            InvalidSelectorError: the selector cannot be parsed.

        Cancellation:
            Safe at every step; the iteration ends.
        """
        return _walk(self._all(allow_unsynced), LabelSelector.parse(label_selector))

    def _all(self, allow_unsynced: bool) -> builtins.list[KubeObject[V]]:  # noqa: FBT001
        return self._read(None, allow_unsynced, lambda cache: cache.list(), merged_list)

    def _by_index(
        self,
        name: str,
        value: IndexValue,
        allow_unsynced: bool,  # noqa: FBT001
        namespace: str | None = None,
    ) -> builtins.list[KubeObject[V]]:
        return self._read(
            namespace,
            allow_unsynced,
            lambda cache: cache.by_index(name, value),
            lambda cache, written: merged_by_index(cache, written, name, value),
        )

    def _matching(
        self,
        selector: LabelSelector,
        allow_unsynced: bool,  # noqa: FBT001
        namespace: str | None = None,
    ) -> builtins.list[KubeObject[V]]:
        return self._read(
            namespace,
            allow_unsynced,
            lambda cache: cache.matching(selector, namespace),
            lambda cache, written: merged_matching(cache, written, selector, namespace),
        )

    def _read(
        self,
        namespace: str | None,
        allow_unsynced: bool,  # noqa: FBT001
        plain: Callable[[Cache[V]], builtins.list[_T]],
        merged: Callable[[Cache[V], OverlayEntries[V]], builtins.list[_T]],
    ) -> builtins.list[_T]:
        """Read the cache that can answer, as it is at one moment.

        Args:
            namespace: the namespace that is read; None for all.
            allow_unsynced: do not check the readiness.
            plain: reads the cache while there are no own writes.
            merged: reads the cache with own writes laid over it.
        """
        written = self._written
        while True:
            cache = self._source._indexer  # noqa: SLF001 - a lister, too
            if not allow_unsynced:
                self._readiness.check(namespace)
            puts = written.puts
            is_plain = not written
            found = plain(cache) if is_plain else merged(cache, written)
            if is_plain and written.puts != puts:
                continue  # a write was shown meanwhile, and may be over already
            if cache is self._source._indexer:  # noqa: SLF001 - else the informer replaced it
                return found


@final
class _Current(Generic[V]):
    """Forwards to the cache that a lister currently reads."""

    __slots__ = ("_lister",)

    def __init__(self, lister: Lister[V]) -> None:
        self._lister = lister

    def get(self, key: str) -> KubeObject[V] | None:
        return self._lister._indexer.get(key)  # noqa: SLF001 - a part of it

    def __getattr__(self, name: str) -> object:
        return getattr(self._lister._indexer, name)  # noqa: SLF001 - as above


@final
class NamespaceLister(Generic[V]):
    """Reads one namespace of a cache."""

    def __init__(self, lister: Lister[V], namespace: str) -> None:
        self._lister = lister
        self._namespace = namespace

    def get(self, name: str, *, allow_unsynced: bool = False) -> KubeObject[V] | None:
        """Return the object with this name, or None; otherwise as `Lister.get`."""
        return self._lister.get(self._key(name), allow_unsynced=allow_unsynced)

    def __getitem__(self, name: str) -> KubeObject[V]:
        """Return the object with this name.

        Raises:
            ObjectNotFoundError: there is none.
        """
        return self._lister[self._key(name)]

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def _key(self, name: str) -> str:
        check_text("name", name)
        return object_key(self._namespace, name)

    def list(
        self,
        *,
        label_selector: str | Mapping[str, object] | LabelSelector | None = None,
        allow_unsynced: bool = False,
    ) -> builtins.list[KubeObject[V]]:
        """Return the namespace's objects whose labels match; otherwise as `Lister.list`."""
        namespace, lister = self._namespace, self._lister
        selector = LabelSelector.parse(label_selector)
        if selector.is_empty:
            return lister._by_index(  # noqa: SLF001 - a part of it
                NAMESPACE_INDEX, namespace, allow_unsynced, namespace
            )
        return lister._matching(selector, allow_unsynced, namespace)  # noqa: SLF001 - as above

    def by_index(
        self, name: str, value: IndexValue, *, allow_unsynced: bool = False
    ) -> builtins.list[KubeObject[V]]:
        """Return the namespace's objects that an index has under a value.

        Only this namespace has to have synced; otherwise as `Lister.by_index`.

        Raises:
            CacheNotSyncedError: the first sync of the namespace is not done.
            LifecycleError: the informer is closed, or has crashed.
            NotCachedError: the namespace is not watched.
            IndexNotFoundError: there is no such index.
        """
        found = self._lister._by_index(  # noqa: SLF001 - as above
            name, value, allow_unsynced, self._namespace
        )
        return [obj for obj in found if obj.metadata.namespace == self._namespace]


async def _walk(
    objects: list[KubeObject[V]], selector: LabelSelector
) -> AsyncIterator[KubeObject[V]]:
    """Yield the objects that match, and yield to the loop when the budget is used up.

    Cancellation:
        Safe; the walk ends.
    """
    matches = None if selector.is_empty else selector.matches
    budget = TimeBudget()
    started = budget.now()
    for obj in objects:
        if matches is None or matches(obj.metadata.labels):
            yield obj
        if budget.spend_since(started):
            await budget.yield_now()
        started = budget.now()
