"""The caches of one informer, one per namespace or a single one, and the receivers of all of them.

The mapping of caches is never changed, only replaced in one assignment, so a reader in any thread
sees one set or the next. The cache of a namespace that is no longer wanted is stopped first, then
removed from reads, then its objects are announced as deletions. A namespace that is added can be
read at once; it loads in the background.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Generic, Protocol, cast, final

from pyinformer._runtime.tasks import spread, start_from_anywhere, start_in
from pyinformer.cache.informer._namespace_cache import NamespaceCache
from pyinformer.cache.informer.delivery import CacheContents
from pyinformer.cache.store import Indexer, JointIndexer, merged_get
from pyinformer.objects import DiagnosticJournal, V
from pyinformer.telemetry.tracing import outside_reconcile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from anyio.abc import TaskGroup

    from pyinformer.cache.informer._context import InformerContext
    from pyinformer.cache.informer._settings import Scope
    from pyinformer.cache.informer.delivery import Receiver
    from pyinformer.cache.store import Cache, IndexFunction, Overlay
    from pyinformer.objects import KubeObject


class CachesObserver(Protocol):
    """The informer, as its caches see it."""

    def on_namespaces_changed(self) -> None:
        """Record that other namespaces are followed."""
        ...

    def on_sync_changed(self) -> None:
        """Record that readers may see more."""
        ...

    def on_large_object(self) -> None:
        """Record that an object with a large body has arrived."""
        ...


@final
class NamespaceCaches(Generic[V]):
    """The caches of one informer. Constructing starts nothing; call `report_to` before `begin`.

    Args:
        context: what the caches share.
        scope: what the informer follows.
        is_known_gone: says whether a Namespace is known not to exist, of an informer whose
            namespaces a selector chooses; None if the scope names them.
    """

    has_ended: bool = False
    """Whether the informer is closed or has crashed, and its handlers have ended."""
    cache: Cache[V]
    """The objects of all caches, read as one."""
    readable: Mapping[str | None, NamespaceCache[V]]
    """Those that reads may use: all, or none once the informer has ended."""

    def __init__(
        self,
        context: InformerContext[V],
        scope: Scope,
        *,
        is_known_gone: Callable[[str], bool] | None,
    ) -> None:
        self.scope: Scope = scope
        """What is followed, with the namespaces as they are now."""
        self.journal: DiagnosticJournal = DiagnosticJournal()
        """What happened to the informer; of several namespaces, each has a journal of its own."""
        self.is_everywhere: bool = scope.is_everywhere
        """Whether one cache holds all namespaces; then there is never another one."""
        self.is_known: bool = is_known_gone is None
        """Whether it is known which namespaces are wanted."""
        self.known: asyncio.Event = asyncio.Event()
        """Set when the wanted namespaces are known, or the informer is closed."""
        self.is_settled: bool = False
        """Whether all have synced or one never will; for good once the informer is closed."""
        self._context = context
        self._is_known_gone = is_known_gone
        self._observer: CachesObserver | None = None
        self._gone: set[str | None] = set()  # no longer wanted, and known not to exist
        self._announced_namespaces: set[str | None] = set()
        self._on_settled: tuple[Callable[[str], None], ...] = ()
        self._on_rechecked: tuple[Callable[[], None], ...] = ()
        self._receivers: tuple[Receiver[V], ...] = ()
        self._incomplete: list[Receiver[V]] = []  # receivers that lack a part of the initial list
        given: Iterable[str | None] = scope.namespaces or ()
        self._wanted: frozenset[str | None] = frozenset((None,) if self.is_everywhere else given)
        self.is_several: bool = len(self._wanted) != 1 or not self.is_known
        """Whether it has or had several, so that first lists arrive one after another."""
        self._group: TaskGroup | None = None
        self._has_begun = False
        self._is_applying = self._is_closed = False
        self._applied = asyncio.Event()
        self.by_namespace: Mapping[str | None, NamespaceCache[V]] = {}
        """Never changed, only replaced; the key is None if one cache holds all namespaces."""
        self._counted: tuple[Counter[tuple[str, ...]], tuple[NamespaceCache[V], ...]] = (
            Counter(),
            (),
        )
        self._set({one: self._make(one) for one in _ordered(self._wanted)})
        self.has_synced: bool = self.is_known and not self._wanted
        """Whether every cache has held everything at least once."""
        self.is_readable: bool = self.has_synced
        """Whether they have synced and are followed: one test for each read."""

    def report_to(self, observer: CachesObserver) -> None:
        """Report changes of namespaces, syncs and large objects to the informer."""
        self._observer = observer

    def _make(self, namespace: str | None) -> NamespaceCache[V]:
        scope = self.scope.only(namespace)
        journal = self.journal if scope == self.scope else DiagnosticJournal()
        return NamespaceCache(self._context, scope, journal, self)

    @property
    def name(self) -> str:
        """What is followed, and in which cluster if that has a name: `eu: pods.v1 in shop`."""
        return self.scope.named_in(self._context.cluster)

    @property
    def all(self) -> tuple[NamespaceCache[V], ...]:
        """The caches at this moment."""
        return tuple(self.by_namespace.values())

    @property
    def sole(self) -> NamespaceCache[V] | None:
        """The only cache; None if there is not exactly one."""
        caches = self.by_namespace
        return next(iter(caches.values())) if len(caches) == 1 else None

    @property
    def namespaces(self) -> frozenset[str] | None:
        """The namespaces that are followed; None for all of them."""
        if self.is_everywhere:
            return None
        return cast("frozenset[str]", frozenset(self.by_namespace))

    @property
    def is_chosen_by_labels(self) -> bool:
        """Whether a selector chooses the namespaces: then others than the program decide."""
        return self._is_known_gone is not None

    @property
    def can_begin(self) -> bool:
        """Whether a controller can begin: nothing that it has to wait for is missing.

        A namespace that a selector has found, and that the server refuses, joins later: a user who
        may label one namespace must not be able to stop the controllers of all others.
        """
        return self.has_synced or (
            self.is_chosen_by_labels
            and self.is_known
            and all(cache.has_synced or cache.is_refused for cache in self.all)
        )

    @property
    def can_begin_in_part(self) -> bool:
        """Whether a controller that has waited long enough can begin with some namespaces."""
        return self.can_begin or (
            self.is_chosen_by_labels
            and self.is_known
            and any(cache.has_synced for cache in self.all)
        )

    def of(self, key: str) -> NamespaceCache[V] | None:
        """Return the cache of a key's namespace; None if that is not followed."""
        if self.is_everywhere:
            return self.by_namespace[None]
        return self.by_namespace.get(key.rpartition("/")[0])

    def counts(self) -> dict[tuple[str, ...], int]:
        """Return the sums of what was counted in all namespaces, by name and details.

        Callable from any thread. They never go back: a namespace that was left still counts.
        """
        former, caches = self._counted
        total = Counter(former)
        for cache in caches:
            total.update(cache.counts())
        return total

    def overlay_of(self, key: str) -> Overlay[V] | None:
        """Return the overlay of a key's namespace; None if that is not followed."""
        cache = self.of(key)
        return None if cache is None else cache.freshness.overlay

    def shown(self, key: str) -> KubeObject[V] | None:
        """Return what a reader sees under a key, own writes included, whether synced or not."""
        return merged_get(self.cache, self._context.entries, key)

    def why_never_synced(self, key: str) -> str:
        """Return why a key's cache cannot sync without a change on the server; empty if it can."""
        cache = self.of(key)
        is_hopeless = cache is not None and cache.has_failed and not cache.has_synced
        return str(cache.status()) if cache is not None and is_hopeless else ""

    def add_index(self, name: str, by: str | IndexFunction) -> None:
        """Add an index to every cache, and to those to come.

        Raises:
            InvalidArgumentError: the name is taken, or the path cannot be parsed.
        """
        if isinstance(self.cache, Indexer):
            self.cache.add_index(name, by)
        else:
            for cache in self.all:
                cache.indexer.add_index(name, by)
        self._context.indexes[name] = by

    def announced(self) -> list[KubeObject[V]]:
        """Return the cached objects of the namespaces that have synced."""
        return list(chain.from_iterable(one.sink.announced() for one in self.all))

    async def wait_announced(self) -> None:
        """Wait until the receivers know what every synced cache holds.

        Cancellation:
            Safe.
        """
        while announcing := [one for one in self.all if one.sink.is_announcing]:
            await announcing[0].sink.wait_announced()

    def attach(self, receiver: Receiver[V], *, preload: bool = True) -> None:
        """Feed a receiver from now on; with `preload`, what is cached comes first."""
        self._receivers = (*self._receivers, receiver)
        sole = self.sole
        if sole is not None and not self.is_several:
            sole.sink.attach(receiver, preload=preload)
            return
        for cache in self.all:
            cache.sink.attach(receiver, preload=False)
        if not preload:
            return
        if any(cache.has_synced for cache in self.all):
            receiver.preload_nowait(CacheContents(self.announced()))
        if self._has_announced_all():
            receiver.on_initial_list_complete()
        else:
            self._incomplete.append(receiver)

    def detach(self, receiver: Receiver[V]) -> None:
        """Stop feeding a receiver."""
        self._receivers = tuple(known for known in self._receivers if known is not receiver)
        self._incomplete = [known for known in self._incomplete if known is not receiver]
        for cache in self.all:
            cache.sink.detach(receiver)

    async def begin(self, group: TaskGroup) -> None:
        """Start the caches; those that are added later start at once.

        Cancellation:
            Ends what was started, together with the group.
        """
        self._has_begun = True
        for cache in self.all:
            await start_in(group, cache.run)
        self._group = group
        self._apply_soon()

    def set_wanted(self, namespaces: Iterable[str]) -> None:
        """Follow exactly these namespaces; new ones start soon."""
        wanted: frozenset[str | None] = frozenset(namespaces)
        dropped = self.by_namespace.keys() - wanted
        self._gone -= wanted
        self._gone |= {name for name in dropped if self.is_gone(name)}
        if wanted != self._wanted:
            self._announce_from_now_on()
        self._wanted = wanted
        if self._has_begun:
            self._apply_soon()
        else:
            self._add_wanted()
            self._remove([one for name, one in self.by_namespace.items() if name not in wanted])
        if not self.is_known:  # only now: those that are wanted are among the caches
            self.is_known = True
            self.known.set()
            self.recheck_nowait()

    async def wait_applied(self) -> None:
        """Wait until exactly the wanted namespaces are followed, or the informer is closed.

        Cancellation:
            Safe; the change is still made.
        """
        # A namespace that is being stopped is still among the followed, and starts again if it is
        # wanted again: only a change that is over says what is followed.
        while (self.is_outdated or self._is_applying) and not self._is_closed:
            await self._applied.wait()

    def close_nowait(self) -> None:
        """Wake all waiters: nothing changes any more."""
        self._is_closed = True
        self.known.set()
        self.is_settled = True
        self._applied.set()
        for cache in self.all:
            cache.freshness.close_nowait()
        self._report_rechecked()

    def end_nowait(self) -> None:
        """Refuse reads from now on: nothing follows the server any more."""
        self.has_ended, self.is_readable, self.readable = True, False, {}

    def recheck_nowait(self) -> None:
        """Determine again whether everything has synced, after a change that matters to that."""
        caches = self.all
        self.has_synced = self.is_known and all(cache.has_synced for cache in caches)
        self.is_readable = self.has_synced and not self.has_ended
        is_hopeless = self._is_closed or any(cache.has_failed for cache in caches)
        self.is_settled = self.has_synced or is_hopeless
        self._report_announced()
        if self._incomplete and self._has_announced_all():
            complete, self._incomplete = self._incomplete, []
            for receiver in complete:
                receiver.on_initial_list_complete()
        if self._observer is not None:
            self._observer.on_sync_changed()
        self._report_rechecked()

    def on_rechecked(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call a function whenever more may have synced, or is known never to sync.

        Args:
            callback: called on the event loop; must not block.

        Returns:
            Ends the calls.
        """
        self._on_rechecked = (*self._on_rechecked, callback)

        def end() -> None:
            self._on_rechecked = tuple(one for one in self._on_rechecked if one is not callback)

        return end

    def _report_rechecked(self) -> None:
        for callback in self._on_rechecked:
            callback()

    def on_large_object(self) -> None:
        """Report that an object with a large body has arrived."""
        if self._observer is not None:
            self._observer.on_large_object()

    def on_namespace_settled(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call a function when all objects of a namespace were announced, or the namespace is gone.

        Controllers then know which objects of a namespace that was left are gone.

        Args:
            callback: called with the name of the namespace on the event loop; must not block.

        Returns:
            A function that ends it.
        """
        self._on_settled = (*self._on_settled, callback)

        def end() -> None:
            self._on_settled = tuple(one for one in self._on_settled if one is not callback)

        return end

    def on_namespace_gone(self, namespace: str) -> None:
        """Record that a namespace does not exist any more."""
        if namespace not in self.by_namespace:  # else once its objects were announced as deletions
            self._report_settled(namespace)

    def is_gone(self, namespace: str | None) -> bool:
        """Return whether a namespace is known not to exist: then none of its objects does.

        Only an informer with a `namespace_selector` knows; others return False.
        """
        return (
            namespace is not None
            and self._is_known_gone is not None
            and self._is_known_gone(namespace)
        )

    def _report_announced(self) -> None:
        announced = {name for name, one in self.by_namespace.items() if one.sink.has_announced}
        new, self._announced_namespaces = announced - self._announced_namespaces, announced
        for name in new:
            if name is not None:
                self._report_settled(name)

    def _report_settled(self, namespace: str) -> None:
        for callback in self._on_settled:
            callback(namespace)

    def _has_announced_all(self) -> bool:
        return self.is_known and all(cache.sink.has_announced for cache in self.all)

    def _announce_from_now_on(self) -> None:
        """From now on, announce the first list of each namespace when it is complete."""
        if self.is_several:
            return
        self.is_several = True
        if not self._has_announced_all():
            self._incomplete = list(self._receivers)

    @property
    def is_outdated(self) -> bool:
        """Whether the followed namespaces are not the wanted ones yet."""
        return self.by_namespace.keys() != self._wanted

    def _apply_soon(self) -> None:
        if self._group is None or self._is_applying or self._is_closed:
            return
        if self.is_outdated:
            self._is_applying = True
            with outside_reconcile():
                self._start_new(self._group)
                start_from_anywhere(self._group, self._apply_wanted, self._group)

    def _start_new(self, group: TaskGroup) -> None:
        for cache in self._add_wanted():
            start_from_anywhere(group, cache.run)

    async def _apply_wanted(self, group: TaskGroup) -> None:
        try:
            while self.is_outdated:
                self._start_new(group)
                await self._stop_unwanted()
        finally:
            self._is_applying = False
            applied, self._applied = self._applied, asyncio.Event()
            applied.set()

    def _add_wanted(self) -> list[NamespaceCache[V]]:
        added = {one: self._make(one) for one in _ordered(self._wanted - set(self.by_namespace))}
        for cache in added.values():
            for receiver in self._receivers:
                cache.sink.attach(receiver, preload=False)
        if added:
            self._swap({**self.by_namespace, **added})
        return list(added.values())

    async def _stop_unwanted(self) -> None:
        leaving = [one for name, one in self.by_namespace.items() if name not in self._wanted]
        for cache in leaving:
            cache.stop_nowait()
        for cache in leaving:
            await cache.ended.wait()
        self._remove(leaving)
        await spread(chain.from_iterable(map(self._announce_deletions, leaving)))

    def _announce_deletions(self, cache: NamespaceCache[V]) -> Iterator[None]:
        name = cache.scope.namespace
        yield from cache.sink.leave_nowait(may_still_exist=name not in self._gone)
        if name is not None and (name in self._gone or self.is_gone(name)):
            self._gone.discard(name)
            self._report_settled(name)

    def _remove(self, leaving: list[NamespaceCache[V]]) -> None:
        if leaving:
            rest = {name: one for name, one in self.by_namespace.items() if one not in leaving}
            self._swap(rest)
            for cache in leaving:
                cache.forget_nowait()

    def _swap(self, caches: dict[str | None, NamespaceCache[V]]) -> None:
        self._set(caches)
        self.scope = self.scope.within(self.namespaces)
        self.journal.note(f"follows {self.scope}")
        if self._observer is not None:
            self._observer.on_namespaces_changed()
        self.recheck_nowait()

    def _set(self, caches: dict[str | None, NamespaceCache[V]]) -> None:
        indexers = {name: cache.indexer for name, cache in caches.items()}
        if len(indexers) > 1:
            self.cache = JointIndexer(cast("dict[str, Indexer[V]]", indexers))
        else:
            only = next(iter(indexers.values()), None)
            self.cache = self._context.new_indexer() if only is None else only
        former, counted = self._counted
        remaining = tuple(caches.values())
        left = set(counted).difference(remaining)
        # In one assignment: a sum on another thread has each of them once.
        self._counted = (sum((Counter(one.counts()) for one in left), former), remaining)
        self.by_namespace = caches
        self.readable = {} if self.has_ended else caches  # no proxy: every read of a key looks here


def _ordered(namespaces: Iterable[str | None]) -> list[str | None]:
    return sorted(namespaces, key=lambda one: one or "")
