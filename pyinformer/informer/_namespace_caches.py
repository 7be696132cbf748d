"""The namespaces of one informer: who follows them, who is told, and what all of them know.

WriteTarget namespaces enter; caches and receivers leave, each attached to all members. The set of
members is a mapping that is never changed, only replaced in one assignment: a reader in any thread
has one or the other. A namespace that is no longer wanted is stopped first, then vanishes from
reads, then its objects are told as deletions; one that is wanted is there at once, and is loaded in
its own time.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Generic, cast, final

import anyio

from pyinformer.apimachinery import V
from pyinformer.informer._initial_list import CacheContents
from pyinformer.store import Indexer, JointIndexer
from pyinformer.tasks import TimeBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from anyio.abc import TaskGroup

    from pyinformer.apimachinery import KubeObject
    from pyinformer.informer._namespace_cache import NamespaceCache
    from pyinformer.informer._store_sink import Receiver
    from pyinformer.store import Cache, IndexFunction


@final
class NamespaceCaches(Generic[V]):
    """The members of one informer.

    Args:
        make: makes the member of a namespace, or of all of them for None.
        empty: makes a cache without a member; it has the indexes that were asked for.
        namespaces: the first ones; None follows all of them.
        is_known: whether these are all; else it is waited for what is wanted.
        on_swap: is called after each change of the members.
        on_synced: is called whenever what is synced has changed.
        is_gone: returns whether a namespace is known not to exist any more.
    """

    def __init__(
        self,
        make: Callable[[str | None], NamespaceCache[V]],
        empty: Callable[[], Indexer[V]],
        namespaces: Iterable[str] | None,
        *,
        is_known: bool = True,
        on_swap: Callable[[], None],
        on_synced: Callable[[], None],
        is_gone: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.is_everywhere: bool = namespaces is None
        """One member follows all namespaces; then there is never another one."""
        self.is_known: bool = is_known
        """Whether it is known which namespaces are wanted."""
        self.known: anyio.Event = anyio.Event()
        """Is set when that is known, or all is over."""
        self.has_synced: bool = False
        """Whether every cache has held everything at least once."""
        self.settled: anyio.Event = anyio.Event()
        """Is set while all have synced, or one of them never will; for good once it is closed."""
        self._make = make
        self._empty = empty
        self._on_swap = on_swap
        self._on_synced = on_synced
        self._is_gone = is_gone
        self._gone: set[str | None] = set()  # was so when they ceased to be wanted
        self._told: set[str | None] = set()
        self._on_settled: tuple[Callable[[str], None], ...] = ()
        self._receivers: tuple[Receiver[V], ...] = ()
        self._incomplete: list[Receiver[V]] = []  # not all that exists was told to them yet
        first: Iterable[str | None] = (None,) if namespaces is None else namespaces
        self._wanted: frozenset[str | None] = frozenset(first)
        self.is_several: bool = len(self._wanted) != 1 or not is_known
        """Whether there are or were several, so that first lists come one after another."""
        self._group: TaskGroup | None = None
        self._has_begun = False
        self._is_settling = False
        self._is_closed = False
        self._applied = anyio.Event()
        self.by_namespace: Mapping[str | None, NamespaceCache[V]] = {}
        """Never changed, only replaced; the key is None if all namespaces are followed."""
        self.cache: Cache[V] = empty()
        """What all of them hold, read as one."""
        self._put_in_place({one: make(one) for one in self._ordered(self._wanted)})
        self.has_synced = is_known and not self._wanted

    @property
    def all(self) -> tuple[NamespaceCache[V], ...]:
        """The members at this moment."""
        return tuple(self.by_namespace.values())

    @property
    def sole(self) -> NamespaceCache[V] | None:
        """The only member; None if there is not exactly one."""
        members = self.by_namespace
        return next(iter(members.values())) if len(members) == 1 else None

    @property
    def namespaces(self) -> frozenset[str] | None:
        """What is followed; None is all namespaces."""
        if self.is_everywhere:
            return None
        return cast("frozenset[str]", frozenset(self.by_namespace))

    def of(self, key: str) -> NamespaceCache[V] | None:
        """Return the member in whose namespace a key is; None if that is not followed."""
        if self.is_everywhere:
            return self.by_namespace[None]
        return self.by_namespace.get(key.rpartition("/")[0])

    def add_index(self, name: str, by: str | IndexFunction) -> None:
        """Add an index to every cache.

        Raises:
            InvalidArgumentError: the name is taken.
            InvalidArgumentError: the path cannot be read.
        """
        if isinstance(self.cache, Indexer):
            self.cache.add_index(name, by)
            return
        for member in self.all:
            member.indexer.add_index(name, by)

    @property
    def has_told(self) -> bool:
        """Whether anything has been told to anybody."""
        return any(member.has_synced for member in self.by_namespace.values())

    def told(self) -> list[KubeObject[V]]:
        """Return what is cached of the namespaces that have synced."""
        members = self.by_namespace.values()
        return list(chain.from_iterable(one.indexer.list() for one in members if one.has_synced))

    async def wait_told(self) -> None:
        """Wait until the receivers know what is cached of every namespace that has synced.

        Cancellation:
            Safe.
        """
        while telling := [one for one in self.all if one.distribution.is_telling]:
            await telling[0].distribution.wait_told()

    def attach(self, receiver: Receiver[V], *, preload: bool = True) -> None:
        """Tell somebody from now on; what is cached already comes first if that is wanted."""
        self._receivers = (*self._receivers, receiver)
        sole = self.sole
        if sole is not None and not self.is_several:
            sole.distribution.attach(receiver, preload=preload)
            return
        for member in self.all:
            member.distribution.attach(receiver, preload=False)
        if not preload:
            return
        if self.has_told:
            receiver.preload_nowait(CacheContents(self.told()))
        if self._has_told_all():
            receiver.on_initial_list_complete()
        else:
            self._incomplete.append(receiver)

    def detach(self, receiver: Receiver[V]) -> None:
        """Tell somebody nothing any more."""
        self._receivers = tuple(known for known in self._receivers if known is not receiver)
        self._incomplete = [known for known in self._incomplete if known is not receiver]
        for member in self.all:
            member.distribution.detach(receiver)

    async def begin(self, group: TaskGroup) -> None:
        """Start the members, and from now on whoever comes later.

        Cancellation:
            Ends what was started, together with the group.
        """
        self._has_begun = True
        for member in self.all:
            await group.start(member.run)
        self._group = group
        self._settle_soon()

    def want_nowait(self, namespaces: Iterable[str]) -> None:
        """Follow these from now on; what is not followed yet is started soon."""
        wanted: frozenset[str | None] = frozenset(namespaces)
        dropped = self.by_namespace.keys() - wanted
        self._gone -= wanted
        self._gone |= {name for name in dropped if name is not None and self._is_gone(name)}
        if wanted != self._wanted:
            self._announce_from_now_on()
        self._wanted = wanted
        if self._has_begun:
            self._settle_soon()
        else:
            self._take_in()
            self._drop_from_reads()
        if not self.is_known:  # only now: those that are wanted are among the members
            self.is_known = True
            self.known.set()
            self.look_nowait()

    async def wait_applied(self) -> None:
        """Wait until those that are wanted are those that are followed, or all is over.

        Cancellation:
            Safe; the change is made all the same.
        """
        # One that is being stopped is among the followed, and comes back as another if it is wanted
        # again: only a change that is over says who is followed.
        while (self.is_outdated or self._is_settling) and not self._is_closed:
            await self._applied.wait()

    def close_nowait(self) -> None:
        """Let go of everybody who waits: nothing changes any more."""
        self._is_closed = True
        self.known.set()
        self.settled.set()
        self._applied.set()
        for member in self.all:
            member.freshness.close_nowait()

    def look_nowait(self) -> None:
        """Find out anew whether everything has synced; after each change that matters to that."""
        members = self.all
        self.has_synced = self.is_known and all(member.has_synced for member in members)
        is_settled = self.has_synced or any(member.has_failed for member in members)
        if is_settled or self._is_closed:
            self.settled.set()
        elif self.settled.is_set():
            self.settled = anyio.Event()
        self._settle_told()
        if self._incomplete and self._has_told_all():
            told, self._incomplete = self._incomplete, []
            for receiver in told:
                receiver.on_initial_list_complete()
        self._on_synced()

    def on_namespace_settled(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call a function when all that a namespace holds was told, or is known to be gone.

        Returns:
            A function that ends it.
        """
        self._on_settled = (*self._on_settled, callback)

        def end() -> None:
            self._on_settled = tuple(one for one in self._on_settled if one is not callback)

        return end

    def namespace_gone_nowait(self, namespace: str) -> None:
        """Record that a namespace does not exist any more."""
        if namespace not in self.by_namespace:  # else once its objects were told as deletions
            self._settled(namespace)

    def _settle_told(self) -> None:
        told = {name for name, one in self.by_namespace.items() if one.distribution.has_announced}
        new, self._told = told - self._told, told
        for name in new:
            if name is not None:
                self._settled(name)

    def _settled(self, namespace: str) -> None:
        for callback in self._on_settled:
            callback(namespace)

    def _has_told_all(self) -> bool:
        return self.is_known and all(member.distribution.has_announced for member in self.all)

    def _announce_from_now_on(self) -> None:
        """From now on first lists come one after another."""
        if self.is_several:
            return
        self.is_several = True
        if not self._has_told_all():
            self._incomplete = list(self._receivers)

    @property
    def is_outdated(self) -> bool:
        """Whether those that are wanted are not those that are followed, yet."""
        return self.by_namespace.keys() != self._wanted

    def _settle_soon(self) -> None:
        if self._group is None or self._is_settling or self._is_closed:
            return
        if self.is_outdated:
            self._is_settling = True
            self._begin_new(self._group)
            self._group.start_soon(self._settle, self._group)

    def _begin_new(self, group: TaskGroup) -> None:
        for member in self._take_in():
            group.start_soon(member.run)

    async def _settle(self, group: TaskGroup) -> None:
        try:
            while self.is_outdated:
                self._begin_new(group)
                await self._let_go()
        finally:
            self._is_settling = False
            applied, self._applied = self._applied, anyio.Event()
            applied.set()

    def _take_in(self) -> list[NamespaceCache[V]]:
        new = self._ordered(self._wanted - set(self.by_namespace))
        joining = {one: self._make(one) for one in new}
        for member in joining.values():
            for receiver in self._receivers:
                member.distribution.attach(receiver, preload=False)
        if joining:
            self._swap({**self.by_namespace, **joining})
        return list(joining.values())

    async def _let_go(self) -> None:
        leaving = [one for name, one in self.by_namespace.items() if name not in self._wanted]
        for member in leaving:
            member.stop_nowait()
        for member in leaving:
            await member.ended.wait()
        self._forget(leaving)
        budget = TimeBudget()
        started = budget.now()
        for _ in chain.from_iterable(map(self._take_back, leaving)):
            if budget.spend_since(started):
                await budget.yield_now()
            started = budget.now()

    def _take_back(self, member: NamespaceCache[V]) -> Iterator[None]:
        name = member.scope.namespace
        yield from member.distribution.leave_nowait(may_still_exist=name not in self._gone)
        if name is not None and (name in self._gone or self._is_gone(name)):
            self._gone.discard(name)
            self._settled(name)

    def _drop_from_reads(self) -> None:
        self._forget([one for name, one in self.by_namespace.items() if name not in self._wanted])

    def _forget(self, leaving: list[NamespaceCache[V]]) -> None:
        if leaving:
            rest = {name: one for name, one in self.by_namespace.items() if one not in leaving}
            self._swap(rest)
            for member in leaving:
                member.forget_nowait()

    def _swap(self, members: dict[str | None, NamespaceCache[V]]) -> None:
        self._put_in_place(members)
        self._on_swap()
        self.look_nowait()

    def _put_in_place(self, members: dict[str | None, NamespaceCache[V]]) -> None:
        indexers = {name: member.indexer for name, member in members.items()}
        if len(indexers) > 1:
            self.cache = JointIndexer(cast("dict[str, Indexer[V]]", indexers))
        else:
            only = next(iter(indexers.values()), None)
            self.cache = self._empty() if only is None else only
        self.by_namespace = members  # no proxy around it: every read of a key looks in here

    @staticmethod
    def _ordered(namespaces: Iterable[str | None]) -> list[str | None]:
        return sorted(namespaces, key=lambda one: one or "")
