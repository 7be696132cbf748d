"""The choice of the request that loads everything, learned from how earlier requests ended.

A watch-list comes first where the server supports it, then a paged list, then one unpaged list
where pages expire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pyinformer.errors import (
    APIStatusError,
    ListInconsistentError,
    RequestTimeoutError,
    ServerError,
)
from pyinformer.reflector.machine.steps import Load, LoadMode

if TYPE_CHECKING:
    from pyinformer.errors import InformerError
    from pyinformer.reflector.machine.steps import LoadFailed

_REFUSAL_SECONDS = 600.0  # an upgraded server is noticed within ten minutes
_REFUSALS = frozenset({400, 403, 405, 415, 422})  # each has been seen from some server
_REFUSALS_OF_ONE = frozenset({403, 405})  # missing rights or verbs of this resource, not the server
_BROKEN_WATCH_LISTS = 2


@final
class WatchListMemory:
    """Remembers for a while that a server refused a watch-list.

    A server without that feature refuses each attempt, and an attempt for every load would double
    the requests. A server can be upgraded, so watch-lists are tried again after ten minutes. All
    informers of a cluster connection share one such memory.
    """

    __slots__ = ("_refused_until",)

    def __init__(self) -> None:
        self._refused_until = float("-inf")

    def refused(self, now: float) -> None:
        """Record that the server does not support watch-lists."""
        self._refused_until = now + _REFUSAL_SECONDS

    def may_try(self, now: float) -> bool:
        """Return whether a watch-list is worth an attempt."""
        return now >= self._refused_until


@final
class LoadModes:
    """Chooses the next load of one reflector.

    Args:
        watch_list: shared by the cluster connection: whether its server supports watch-lists.
        use_watch_list: whether watch-lists are tried at all.
    """

    def __init__(self, watch_list: WatchListMemory, *, use_watch_list: bool) -> None:
        self._shared = watch_list
        self._own = WatchListMemory()  # of this resource alone
        self.use_watch_list: bool = use_watch_list
        """Whether watch-lists are tried at all."""
        self._broken = 0
        self.prefers_whole: bool = False
        """Paging takes longer than the server remembers a version."""

    def any(self, now: float) -> Load:
        """Return the best load."""
        memories = (self._shared, self._own)
        if self.use_watch_list and all(memory.may_try(now) for memory in memories):
            return Load(LoadMode.WATCH_LIST)
        return self.list()

    def list(self) -> Load:
        """Return the best load that is not a watch-list."""
        return Load(LoadMode.WHOLE if self.prefers_whole else LoadMode.PAGED)

    def loaded(self) -> None:
        """Record a complete load."""
        self._broken = 0

    def distrust_watch_list(self, now: float) -> None:
        """Record that the watch-lists of this resource are unreliable."""
        self._own.refused(now)

    def watch_list_failed(self, happened: LoadFailed, now: float) -> bool:
        """Record a failed watch-list; return whether to list at once."""
        error = happened.error
        status = error.status if isinstance(error, APIStatusError) else 0
        if status in _REFUSALS or isinstance(error, ListInconsistentError):
            of_all = status in _REFUSALS - _REFUSALS_OF_ONE
            (self._shared if of_all else self._own).refused(now)
            return True
        self._broken += happened.established or _may_spare_lists(error)
        if self._broken >= _BROKEN_WATCH_LISTS:
            self._broken = 0
            self._own.refused(now)
        return False


def _may_spare_lists(error: InformerError) -> bool:
    """Return whether a server that fails a watch-list like this may still answer a list.

    A server that cannot be reached, is overloaded or refuses the credentials fails both.
    """
    if isinstance(error, ServerError):
        return error.retry_after_seconds is None
    return isinstance(error, RequestTimeoutError)
