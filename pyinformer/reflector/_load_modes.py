"""By which request everything is loaded: learned from how the requests before have ended.

What enters are failures of loads; what leaves is the mode of the next. A watch-list comes first
where the server does it, a paged list next, one whole list where pages expire. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pyinformer.apimachinery import (
    APIStatusError,
    ListInconsistentError,
    RequestTimeoutError,
    ServerError,
)
from pyinformer.reflector._state import Load, LoadMode
from pyinformer.reflector._watch_list_memory import WatchListMemory

if TYPE_CHECKING:
    from pyinformer.apimachinery import InformerError
    from pyinformer.reflector._state import LoadFailed

_REFUSALS = frozenset({400, 403, 405, 415, 422})  # all of them have been seen from some server
_REFUSALS_OF_ONE = frozenset({403, 405})  # missing rights or verbs of this resource, not the server
_BROKEN_WATCH_LISTS = 2


@final
class LoadModes:
    """Chooses the next load of one reflector.

    Args:
        watch_list: what the cluster connection knows about watch-lists.
        use_watch_list: whether watch-lists are tried at all.
    """

    __slots__ = ("_broken", "_own", "_shared", "_use_watch_list", "prefers_whole")

    def __init__(self, watch_list: WatchListMemory, *, use_watch_list: bool) -> None:
        self._shared = watch_list
        self._own = WatchListMemory()  # what only this resource's server gets wrong
        self._use_watch_list = use_watch_list
        self._broken = 0
        self.prefers_whole: bool = False
        """Paging takes longer than the server remembers."""

    def any(self, now: float) -> Load:
        """Return the best load."""
        memories = (self._shared, self._own)
        if self._use_watch_list and all(memory.may_try(now) for memory in memories):
            return Load(LoadMode.WATCH_LIST)
        return self.list()

    def list(self) -> Load:
        """Return the best load that is no watch-list."""
        return Load(LoadMode.WHOLE if self.prefers_whole else LoadMode.PAGED)

    def loaded(self) -> None:
        """Take note of a complete load."""
        self._broken = 0

    def distrust_watch_list(self, now: float) -> None:
        """Take note that this resource's watch-lists are not to be relied upon."""
        self._own.refused(now)

    def watch_list_failed(self, happened: LoadFailed, now: float) -> bool:
        """Take note of a failed watch-list; return whether a list is to be tried at once."""
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
    """Return whether a server that fails a watch-list like this may answer a list all the same.

    A server that cannot be reached, asks for patience or wants other credentials fails both.
    """
    if isinstance(error, ServerError):
        return error.retry_after_seconds is None
    return isinstance(error, RequestTimeoutError)
