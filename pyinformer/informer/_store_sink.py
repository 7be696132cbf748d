"""The informer's sink: the cache first, then everybody who listens.

What enters are the reflector's events and lists; what leaves are the same changes for the cache,
and then for each handler's mailbox. A list is compared with what was cached: only differences are
told, deletions first, and those who join while they are told get the new state instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar, final

import anyio

from pyinformer.apimachinery import Added, Deleted, Event, KubeObject, Updated, V, View
from pyinformer.informer._initial_list import CacheContents

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyinformer.informer._freshness import Freshness
    from pyinformer.store import Indexer

_SLICE = 128  # events per step: a step stays far below the reader's time budget
_FREED_SLICE = 512  # objects per step that are freed, half a millisecond
_W = TypeVar("_W", bound=View | None, contravariant=True)
_Telling: TypeAlias = tuple[Iterator[Event[V] | None], tuple[Callable[[Event[V]], None], ...]]
"""What is told in short steps, and to whom."""


class Receiver(Protocol[_W]):
    """Whoever is told: a listener, or a stream of events."""

    @property
    def put_nowait(self) -> Callable[[Event[_W]], None]:
        """Take one event."""
        ...

    def preload_nowait(self, objects: Collection[KubeObject[_W]]) -> None:
        """Take what exists already; others are given the same, and nobody changes it."""
        ...

    def on_initial_list_complete(self) -> None:
        """Take note that all that existed has been put in."""
        ...

    def on_missed_state(self, was: KubeObject[_W], now: KubeObject[_W] | None) -> None:
        """Take note that reads showed a state that no event tells of, and show it no more."""
        ...


@final
class StoreSink(Generic[V]):
    """Writes to the cache and tells the receivers.

    Args:
        indexer: the cache.
        on_synced: is called when the first list is in the cache.
        on_crash: is told when the cache or a receiver fails, which no user's code can cause. The
            error goes on to the reflector, which would retry; those behind a failed receiver
            were not told, so there is nothing to go on with.
        selective: a selector is in force: who leaves by a list may still exist.
        freshness: is told what the cache has caught up with; None if nobody asks.
        may_go_back: is asked at each list whether it begins a new epoch of the server's history.
        announces: is asked whether the first list is told as additions, one by one, since the
            receivers have heard of other caches already; else it is handed over as a whole.
    """

    def __init__(
        self,
        indexer: Indexer[V],
        *,
        on_synced: Callable[[], None],
        on_crash: Callable[[Exception], None],
        selective: bool = False,
        freshness: Freshness[V] | None = None,
        may_go_back: Callable[[], bool] = lambda: False,
        announces: Callable[[], bool] = lambda: False,
    ) -> None:
        self._indexer = indexer
        self._announces = announces
        self._being_told: _Telling[V] | None = None
        self._told = anyio.Event()
        self._freshness = freshness
        # Nearly always both are empty, and an event costs no more than two looks.
        self._written: Collection[str] = () if freshness is None else freshness.overlay.entries
        self._waiters: Collection[object] = () if freshness is None else freshness.barrier.waiters
        self._on_synced = on_synced
        self._on_crash = on_crash
        self._selective = selective
        self.may_go_back: Callable[[], bool] = may_go_back
        """Whether the list that is taken over begins a new epoch."""
        self._receivers: tuple[Receiver[V], ...] = ()
        self._puts: tuple[Callable[[Event[V]], None], ...] = ()
        self._update = indexer.update_nowait
        self.get = indexer.get
        self.keys = indexer.keys
        self.has_synced: bool = False
        """Whether the cache has held everything at least once."""
        self.has_announced: bool = False
        """Whether all that the first list held was told, too."""

    @property
    def has_told(self) -> bool:
        """Whether anything has been told to anybody."""
        return self.has_synced

    @property
    def is_telling(self) -> bool:
        """Whether the cache holds a list of which the receivers know only a part."""
        return self._being_told is not None

    async def wait_told(self) -> None:
        """Wait until the receivers know what the cache holds.

        Cancellation:
            Safe.
        """
        while self._being_told is not None:
            await self._told.wait()

    def attach(self, receiver: Receiver[V], *, preload: bool = True) -> None:
        """Tell somebody from now on; what is cached already comes first if that is wanted."""
        self._set((*self._receivers, receiver))
        if preload and self.has_synced:
            self._preload(receiver, CacheContents(self._indexer.list()))

    def detach(self, receiver: Receiver[V]) -> None:
        """Tell somebody nothing any more."""
        self._set(tuple(known for known in self._receivers if known is not receiver))

    def _set(self, receivers: tuple[Receiver[V], ...]) -> None:
        self._receivers = receivers
        # Before the first sync nobody is told of anything; then everything comes as a preload.
        self._puts = tuple(r.put_nowait for r in receivers) if self.has_synced else ()

    def apply_nowait(self, event: Event[V]) -> None:
        """Take one change: the cache holds it before any receiver hears of it."""
        try:
            if event.__class__ is Updated:
                self._update(event.old, event.new)
            else:
                self._indexer.apply_nowait(event)
            if self._written or self._waiters:
                self._changed(event)
            for put in self._puts:
                put(event)
        except Exception as error:
            self._on_crash(error)
            raise

    def on_missed_state(self, was: KubeObject[V], now: KubeObject[V] | None) -> None:
        """Tell those who act on what they read that a state of an own write is gone unheard."""
        for receiver in self._receivers:
            receiver.on_missed_state(was, now)

    def bookmark_nowait(self, resource_version: str) -> None:
        """Take note that nothing changed up to this resource version."""
        self._indexer.bookmark_nowait(resource_version)
        self._confirmed(resource_version)

    def _changed(self, event: Event[V]) -> None:
        if self._freshness is not None:
            self._freshness.overlay.observe(event)
            self._freshness.barrier.advance_nowait()

    def _confirmed(self, resource_version: str, *, is_list: bool = False) -> None:
        if self._freshness is not None and (self._written or self._waiters):
            self._freshness.overlay.confirm(resource_version, is_list=is_list)
            self._freshness.barrier.advance_nowait()

    def replace_nowait(
        self, objects: Mapping[str, KubeObject[V]], resource_version: str
    ) -> Iterator[None]:
        """Take a complete list, in short steps: prepare, swap, tell the differences."""
        before = self._indexer.snapshot()
        replaced: list[KubeObject[V]] = []
        try:
            yield from self._swap(objects, resource_version)
            if self.has_synced:
                events = differences(
                    before,
                    objects,
                    selective=self._selective,
                    may_go_back=self.may_go_back(),
                )
                yield from self._tell(events, replaced)
            yield from self._complete(resource_version)
        except Exception as error:
            self._on_crash(error)
            raise
        # Most of them die now: all of 100,000 at once would stop the loop for 90 ms.
        del before
        while replaced:
            del replaced[-_FREED_SLICE:]
            yield

    def _swap(self, objects: Mapping[str, KubeObject[V]], resource_version: str) -> Iterator[None]:
        freshness = self._freshness
        if freshness is None:
            yield from self._indexer.replace_nowait(objects, resource_version)
            return
        yield from self._indexer.replace_nowait(
            objects,
            resource_version,
            ended_nowait=lambda: freshness.ended_by(objects, resource_version),
        )
        freshness.swapped_nowait()  # handlers shall find the list, not what it ended

    def begin_epoch_nowait(self) -> None:
        """Drop the own writes of the epoch before; from now on events may go back in time."""
        if self._freshness is not None:
            self._freshness.begin_epoch_nowait()

    def complete_nowait(self, resource_version: str) -> None:
        """Take note that the cache is complete; the first time, tell everybody what is in it."""
        try:
            for _ in self._complete(resource_version):
                pass
        except Exception as error:
            self._on_crash(error)
            raise

    def _complete(self, resource_version: str) -> Iterator[None]:
        self._indexer.bookmark_nowait(resource_version)
        self._confirmed(resource_version, is_list=True)
        if self.has_synced:
            return
        # Whoever feeds this sink changes nothing between its steps. One copy serves everybody:
        # to walk over a million objects takes 40 ms, each time.
        contents: CacheContents[V] = CacheContents()
        yield from contents.fill(self._indexer.snapshot().values())
        self.has_synced = True
        self._on_synced()
        self._set(self._receivers)
        if self._announces():
            yield from self._tell(Added(obj, is_in_initial_list=True) for obj in contents)
            self.has_announced = True
            self._on_synced()
            return
        self.has_announced = True
        for receiver in self._receivers:
            self._preload(receiver, contents)

    def leave_nowait(self, *, may_still_exist: bool = True) -> Iterator[None]:
        """Take back, in short steps, all that was told; nothing comes in any more.

        Args:
            may_still_exist: what every deletion says; False if the namespace itself is gone.

        What somebody did not get to tell, since it was ended in the middle of a list, is told
        first: every receiver hears the whole life of an object.
        """
        if self._being_told is not None:
            yield from self._go_on_telling(*self._being_told)
        if self.has_synced:
            objects = self._indexer.list()
            yield from self._tell(
                Deleted(obj, final_state_unknown=True, may_still_exist=may_still_exist)
                for obj in objects
            )

    @staticmethod
    def _preload(receiver: Receiver[V], objects: Collection[KubeObject[V]]) -> None:
        receiver.preload_nowait(objects)
        receiver.on_initial_list_complete()

    def _tell(
        self, events: Iterator[Event[V] | None], replaced: list[KubeObject[V]] | None = None
    ) -> Iterator[None]:
        # Whoever attaches between two steps has the new state already: it is not told again.
        self._being_told = (events, self._puts)
        self._told = anyio.Event()
        yield from self._go_on_telling(events, self._puts, replaced)

    def _go_on_telling(
        self,
        events: Iterator[Event[V] | None],
        puts: tuple[Callable[[Event[V]], None], ...],
        replaced: list[KubeObject[V]] | None = None,
    ) -> Iterator[None]:
        for number, event in enumerate(events, start=1):
            if event is not None:
                if replaced is not None and not isinstance(event, Added):
                    replaced.append(event.old if isinstance(event, Updated) else event.last_known)
                for put in puts:
                    put(event)
            if number % _SLICE == 0:
                yield
        self._being_told = None
        self._told.set()


def differences(
    before: Mapping[str, KubeObject[V]],
    after: Mapping[str, KubeObject[V]],
    *,
    selective: bool = False,
    may_go_back: bool = False,
) -> Iterator[Event[V] | None]:
    """Yield what leads from one state to the other, and None for each unchanged object."""
    for key, old in before.items():
        gone = key not in after
        yield Deleted(old, final_state_unknown=True, may_still_exist=selective) if gone else None
    for key, new in after.items():
        known = before.get(key)
        if known is None:
            yield Added(new)
        elif known is new or (_same_version(known, new) and known.same_content(new)):
            yield None
        elif known.metadata.uid == new.metadata.uid:
            yield Updated(known, new, may_go_back=may_go_back)
        else:
            yield Deleted(known, final_state_unknown=True)
            yield Added(new)


def _same_version(known: KubeObject[V], new: KubeObject[V]) -> bool:
    before, after = known.metadata, new.metadata
    return before.uid == after.uid and before.resource_version == after.resource_version
