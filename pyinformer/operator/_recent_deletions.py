"""The requests that recent deletions make, kept for the next term of an elected operator.

The controllers of a term begin with the objects that exist. One that was deleted after the last
leader had crashed is in no list, and so is one whose reconcile that leader did not finish.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.cache.informer import core_of
from pyinformer.controller.sources import Reason
from pyinformer.objects import Deleted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pyinformer.cache.informer import SharedInformer
    from pyinformer.controller import Controller
    from pyinformer.controller.sources import PrimarySource, Request, RequestId, WatchedSource
    from pyinformer.objects import Event, KubeObject

_log = get_logger(__name__)

MAX_REQUESTS: Final = 10_000  # of all controllers together: 4 MB where keys are as long as can be
# A leader that still renewed its Lease may not have finished these: longer than a drain, and than
# the first retries of a reconcile.
UNFINISHED_SECONDS: Final = 120.0


@final
class RecentDeletions:
    """Remembers the requests of the newest deletions, by controller.

    Args:
        limit: how many requests are kept; beyond it the oldest are forgotten.
    """

    def __init__(self, *, limit: int = MAX_REQUESTS) -> None:
        self._limit = limit
        self._deleted_at: OrderedDict[tuple[str, Request], tuple[float, Reason]] = OrderedDict()
        self._forgotten_at: float | None = None  # of the newest one that was forgotten
        self._feeds: list[_Feed] = []
        self._held: deque[tuple[_Feed, Deleted[Any]]] | None = None

    def hold(self) -> None:
        """Call no predicate and no mapping before `release()`: the caches they read are filling."""
        self._held = deque()

    def release(self) -> None:
        """Remember what was held, in its order, and what follows."""
        held, self._held = self._held or (), None
        for feed, event in held:
            self._take(feed, event)

    def follow(
        self, controller: str, sources: Iterable[PrimarySource[Any] | WatchedSource[Any]]
    ) -> None:
        """Remember from now on what deletions request.

        Args:
            controller: the name of the controller.
            sources: which objects it follows; they are not attached.
        """
        for source in sources:
            feed = _Feed(controller, source, self._take)
            core_of(source.informer).attach_receiver(feed)
            self._feeds.append(feed)

    def close(self) -> None:
        """Remember nothing further."""
        while self._feeds:
            feed = self._feeds.pop()
            core_of(feed.source.informer).detach_receiver(feed)

    def enqueue(
        self,
        controller: Controller[None],
        primary: SharedInformer[Any],
        *,
        since_at: float | None,
        is_wanted: Callable[[RequestId], bool] = lambda _: True,
    ) -> None:
        """Enqueue the remembered requests of a controller, but those of objects that exist.

        Args:
            controller: its sources are attached, so later deletions are enqueued by them.
            primary: the informer of its objects.
            since_at: the loop's time of the oldest deletion that counts; None for all.
            is_wanted: which requests are enqueued.
        """
        if self._forgotten_at is not None and (since_at is None or self._forgotten_at >= since_at):
            _log.warning(
                "controller %s: more than %d deletions were seen that another replica may not"
                " have reconciled; the oldest of them are not reconciled here",
                controller.name,
                self._limit,
            )
        for (name, request), (deleted_at, reason) in self._deleted_at.items():
            is_recent = since_at is None or deleted_at >= since_at
            is_its = name == controller.name and is_recent and is_wanted(request._id)
            if is_its and not _exists(primary, request):
                controller.engine.requests.put_nowait(request, reason, priority=0)

    def _take(self, feed: _Feed, event: Deleted[Any]) -> None:
        """Remember what a deletion requests, now or when the caches have synced."""
        if self._held is None:
            reason = Reason(feed.source.name, "deleted", event.key)
            for request in feed.source.requests_for(event):
                self._remember(feed.controller, request, reason)
            return
        self._held.append((feed, event))
        if len(self._held) > self._limit:
            self._held.popleft()
            self._forgotten_at = asyncio.get_running_loop().time()

    def _remember(self, controller: str, request: Request, reason: Reason) -> None:
        """Keep a request in place of an earlier one for the same object."""
        entry = (controller, request)
        self._deleted_at[entry] = (asyncio.get_running_loop().time(), reason)
        self._deleted_at.move_to_end(entry)
        if len(self._deleted_at) > self._limit:
            _, (self._forgotten_at, _) = self._deleted_at.popitem(last=False)


@final
class _Feed:
    """Takes the deletions out of an informer's events; nothing else costs more than a test."""

    def __init__(
        self,
        controller: str,
        source: PrimarySource[Any] | WatchedSource[Any],
        take: Callable[[_Feed, Deleted[Any]], None],
    ) -> None:
        self.source = source
        self.controller = controller
        self._take = take

    def put_nowait(self, event: Event[Any]) -> None:
        """Take a deletion: the predicate and the mapping apply."""
        if isinstance(event, Deleted):
            self._take(self, event)

    def preload_nowait(self, objects: Collection[KubeObject[Any]]) -> None:
        """Take nothing: these objects exist."""

    def on_initial_list_complete(self) -> None:
        """Do nothing."""

    def on_missed_state(self, was: KubeObject[Any], now: KubeObject[Any] | None) -> None:
        """Remember an object that was created and deleted while the watch was broken."""
        if now is None:
            self.put_nowait(Deleted(was, final_state_unknown=True))


def _exists(primary: SharedInformer[Any], request: Request) -> bool:
    return primary.lister.get(request.key, allow_unsynced=True) is not None
