"""The choice of the request that loads everything, learned from how earlier requests ended.

A watch-list comes first where the server supports it, then a paged list, then one unpaged list
where pages expire, contradict each other or bring nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pyinformer.cache.reflector.lineage import is_built_in
from pyinformer.cache.reflector.machine.steps import (
    Load,
    LoadMode,
    PagesInconsistentError,
    WatchListUnfinishedError,
    WatchListUnspokenError,
)
from pyinformer.client.transport import PagesEmptyError, is_refusal
from pyinformer.errors import (
    APIStatusError,
    ListInconsistentError,
    RequestTimeoutError,
    ServerError,
)

if TYPE_CHECKING:
    from pyinformer.cache.reflector.machine.steps import LoadFailed
    from pyinformer.errors import InformerError
    from pyinformer.objects import GroupVersionResource

_REFUSAL_SECONDS = 600.0  # an upgraded server is noticed within ten minutes
_UNKNOWN_TO_SERVER = frozenset({400, 415, 422})  # each has been seen from some server
_BROKEN_WATCH_LISTS = 2
_BROKEN_PAGES = 3
_SOON_SECONDS = 3.0  # half of the time after which a watch-list without progress is given up


@final
class WatchListMemory:
    """Remembers for a while that a server does not support watch-lists.

    A server without that feature refuses each attempt, and an attempt for every load would double
    the requests. A server can be upgraded, so watch-lists are tried again after ten minutes.

    All informers of a cluster connection share one such memory. What kube-apiserver shows by one of
    its own resources holds for every resource: all requests pass it, and whatever stands before it.
    A group with a domain may be an aggregated API, whose server answers for one group and version
    alone, so what its resources show holds for that version only.
    """

    __slots__ = ("_by_api", "_refused_until", "_whole")

    def __init__(self, whole: WatchListMemory | None = None) -> None:
        self._whole = whole
        self._by_api: dict[str, WatchListMemory] = {}
        self._refused_until = float("-inf")

    def of(self, resource: GroupVersionResource) -> WatchListMemory:
        """Return the memory of the server behind a resource."""
        if is_built_in(resource.group):
            return self
        return self._by_api.setdefault(resource.api_version, WatchListMemory(self))

    def refused(self, now: float) -> None:
        """Record that the server does not support watch-lists."""
        self._refused_until = now + _REFUSAL_SECONDS

    def doubted(self, now: float) -> None:
        """Record that it may not, until a list shows whether the server is only slow."""
        self._refused_until = max(self._refused_until, now + _SOON_SECONDS)

    def may_try(self, now: float) -> bool:
        """Return whether a watch-list is worth an attempt."""
        return now >= self._refused_until and (self._whole is None or self._whole.may_try(now))


@final
class LoadModes:
    """Chooses the next load of one reflector.

    Args:
        watch_list: shared by the resources of a server: whether it supports watch-lists.
        use_watch_list: whether watch-lists are tried at all.
    """

    def __init__(self, watch_list: WatchListMemory, *, use_watch_list: bool) -> None:
        self._shared = watch_list
        self._own = WatchListMemory()  # of this resource alone
        self.use_watch_list: bool = use_watch_list
        """Whether watch-lists are tried at all."""
        self._broken = self._broken_pages = 0
        self._unfinished_at = float("-inf")
        self._asks_list = False
        self.prefers_whole: bool = False
        """Paging takes longer than the server remembers a version, or the pages are not a list, or
        bring nothing."""

    def any(self, now: float) -> Load:
        """Return the best load."""
        may_watch_list = self.may_watch_list(now) and not self._asks_list
        return Load(LoadMode.WATCH_LIST) if may_watch_list else self.list()

    def may_watch_list(self, now: float) -> bool:
        """Return whether a watch-list is worth an attempt."""
        return self.use_watch_list and self._shared.may_try(now) and self._own.may_try(now)

    def list(self) -> Load:
        """Return the best load that is not a watch-list."""
        return Load(LoadMode.WHOLE if self.prefers_whole else LoadMode.PAGED)

    def loaded(self, now: float) -> None:
        """Record a complete load.

        A list that is complete soon after a watch-list was given up shows that the server is not
        slow: it does not know watch-lists. One after watch-lists that failed shows that something
        refuses them alone.
        """
        self._broken = self._broken_pages = 0
        if self._asks_list:
            self._asks_list = False
            self._own.refused(now)
        if now - self._unfinished_at <= _SOON_SECONDS:
            self._shared.refused(now)
        self._unfinished_at = float("-inf")

    def distrust_watch_list(self, now: float) -> None:
        """Record that the watch-lists of this resource are unreliable."""
        self._own.refused(now)

    def list_failed(self, error: InformerError) -> None:
        """Record why a list failed: pages that contradict each other may do so each time.

        A proxy that loses a continue token once is not asked for one long body. One that filters
        pages does so each time. A server that refuses lists, too, has shown nothing about
        watch-lists.
        """
        self._asks_list = False
        self._broken_pages += isinstance(error, PagesInconsistentError)
        if self._broken_pages >= _BROKEN_PAGES or isinstance(error, PagesEmptyError):
            self.prefers_whole = True

    def watch_list_failed(self, happened: LoadFailed, now: float) -> bool:
        """Record a failed watch-list; return whether to list at once."""
        error = happened.error
        status = error.status if isinstance(error, APIStatusError) else 0
        is_unspoken = isinstance(error, WatchListUnspokenError)
        if is_unspoken or status in _UNKNOWN_TO_SERVER:
            self._shared.refused(now)
            return True
        if isinstance(error, ListInconsistentError):
            self._own.refused(now)
            if isinstance(error, WatchListUnfinishedError):
                self._unfinished_at = now
                self._shared.doubted(now)
            return True
        if is_refusal(status):  # missing rights or verbs of this resource, or a gateway's rule
            self._asks_list = True
            return True
        # A server that cannot be reached, is overloaded or refuses the credentials fails both.
        self._broken += happened.established or isinstance(error, ServerError | RequestTimeoutError)
        if self._broken >= _BROKEN_WATCH_LISTS:
            self._broken = 0
            self._asks_list = True
        return False
