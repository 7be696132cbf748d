"""What one cluster connection knows about watch-lists: whether the server refuses them.

A server without that feature refuses each attempt; asking it for every load of every informer
would double the requests for ever. A refusal is remembered for a while and then tried again, since
a server can be upgraded. Pure: the time is passed in.
"""

from __future__ import annotations

from typing import final

_REFUSAL_SECONDS = 600.0  # an upgraded server is noticed within ten minutes


@final
class WatchListMemory:
    """Remembers a refused watch-list, for all informers of one cluster connection."""

    __slots__ = ("_refused_until",)

    def __init__(self) -> None:
        self._refused_until = float("-inf")

    def refused(self, now: float) -> None:
        """Take note that the server does not do watch-lists."""
        self._refused_until = now + _REFUSAL_SECONDS

    def may_try(self, now: float) -> bool:
        """Return whether a watch-list is worth an attempt."""
        return now >= self._refused_until
