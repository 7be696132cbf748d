"""The objects whose reconciles return that they wait for something, and since when."""

# Pure: it knows no event loop.

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, final

from pyinformer.controller._status import WaitingKeyStatus
from pyinformer.controller.sources import request_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.controller.sources import RequestId


class _Wait(NamedTuple):
    waiting_for: str
    since_at: float
    is_given_up: bool


@final
class WaitingKeys:
    """Remembers one sentence for each object that waits. Any thread may read."""

    def __init__(self) -> None:
        self.waits: dict[RequestId, _Wait] = {}
        """By object; the one that has waited for longest is first."""

    def record(
        self, request_id: RequestId, waiting_for: str, now: float, *, is_given_up: bool = False
    ) -> None:
        """Record what a reconcile returned: what it waits for; empty if it does not wait."""
        known = self.waits.get(request_id)
        since_at = now
        if known is not None and (not waiting_for or known.is_given_up != is_given_up):
            self.forget(request_id)  # what comes after it is another wait, and the youngest
        elif known is not None:
            since_at = known.since_at
        if waiting_for:
            self.waits[request_id] = _Wait(waiting_for, since_at, is_given_up)

    def forget(self, request_id: RequestId) -> None:
        """Forget an object, which another thread may have forgotten just now."""
        self.waits.pop(request_id, None)

    def forget_gone(self, exists: Callable[[RequestId], bool]) -> None:
        """Forget objects that were given up, and whose deletion a predicate has dropped.

        Args:
            exists: returns whether an object is still there.
        """
        for request_id, wait in tuple(self.waits.items()):
            if wait.is_given_up and not exists(request_id):
                self.forget(request_id)

    def given_up(self) -> int:
        """Return how many objects are given up until they change."""
        return sum(wait.is_given_up for wait in tuple(self.waits.values()))

    def longest(self, number: int, now: float) -> tuple[WaitingKeyStatus, ...]:
        """Return the objects that have waited for longest.

        Args:
            number: how many at most.
            now: monotonic seconds.
        """
        found = list(self.waits.items())  # one step: another thread may read
        return tuple(_shown(*each, now) for each in islice(found, number))


def _shown(request_id: RequestId, wait: _Wait, now: float) -> WaitingKeyStatus:
    return WaitingKeyStatus(
        request=request_text(request_id),
        waiting_for=wait.waiting_for,
        seconds=max(0.0, now - wait.since_at),
        is_given_up=wait.is_given_up,
    )
