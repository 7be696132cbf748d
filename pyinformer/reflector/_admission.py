"""How much the reflectors of one cluster connection may ask of its server at the same time.

What enters are reflectors that want to list or to connect; they leave in the order in which they
came, few lists at a time and connection attempts at a steady rate. Whatever a server does, a list
holds up others only while it gets on: a place whose list stands still goes to the next in line.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import anyio

from pyinformer.apimachinery import InvalidArgumentError, check_seconds
from pyinformer.reflector._idle import IdleTimer
from pyinformer.tasks import Turns

if TYPE_CHECKING:
    from collections.abc import Callable


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionOptions:
    """What the informers of one cluster connection may ask of its server together."""

    max_lists: int = 4
    """How many of them may list at the same time. A server that has just come back answers a few
    lists quickly, and falls over again from hundreds."""

    list_idle_seconds: float = 30.0
    """After so long without a byte, a list that the server sits on no longer counts, and the next
    one may begin. It is not ended by that: it has deadlines of its own."""

    attempts_per_second: float = 25.0
    """How many connections for watches may be tried per second, once the burst is spent."""

    burst: int = 25
    """How many may be tried at once after a quiet time: programs of usual size never wait."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in ("max_lists", "burst"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidArgumentError(name, f"{value!r} is no whole number of at least 1")
        for name in ("list_idle_seconds", "attempts_per_second"):
            value = getattr(self, name)
            check_seconds(name, value)  # a rate is as much of a number
            if not value:
                raise InvalidArgumentError(name, f"{value} is not above 0")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionStatistics:
    """What the informers of one cluster connection ask of its server at present."""

    listing: int
    """Lists that hold a place."""

    peak_listing: int
    """The most that ever held one at the same time."""

    waiting_to_list: int
    """Lists that wait for a place."""

    overdue: int
    """How often a list stood still for so long that its place went to the next."""

    attempts: int
    """Connections for watches that were let go so far."""

    waiting_to_attempt: int
    """Connections that wait for their turn."""


@final
class ListingSlot:
    """A place among the lists that run."""

    __slots__ = ("_on_end", "_timer", "progress")

    def __init__(self, idle_seconds: float, on_end: Callable[[bool], None]) -> None:
        """Hold a place that the caller has taken.

        Args:
            idle_seconds: how long it is held without progress.
            on_end: called once, with whether it was held too long.
        """
        self._on_end: Callable[[bool], None] | None = on_end
        self._timer = IdleTimer(idle_seconds, lambda: self._end(overdue=True))
        self.progress: Callable[[], None] = self._timer.progress
        """Take note that the list gets on; cheap enough for every piece of it."""

    def release(self) -> None:
        """Let the next one list; from the second time on this does nothing.

        What remains to be done with a list that was read is nothing to the server.
        """
        self._end(overdue=False)

    def _end(self, *, overdue: bool) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            self._timer.cancel()
            on_end(overdue)


@final
class Admission:
    """The budgets of one cluster connection; its reflectors share them, other clusters do not.

    Args:
        options: how large they are.
    """

    def __init__(self, options: AdmissionOptions | None = None) -> None:
        self._options = options or AdmissionOptions()
        self._places = anyio.Semaphore(self._options.max_lists)  # hands over in order of arrival
        self._turns = Turns(per_second=self._options.attempts_per_second, burst=self._options.burst)
        self._listing = 0
        self._peak_listing = 0
        self._waiting_to_list = 0
        self._overdue = 0
        self._attempts = 0

    @asynccontextmanager
    async def listing(self) -> AsyncIterator[ListingSlot]:
        """Wait for a place among the lists, and hold it for the block.

        Yields:
            The place: call its `progress()` with whatever arrives, lest it is given away.

        Cancellation:
            Safe; the place is free again, or was never taken.
        """
        self._waiting_to_list += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting_to_list -= 1
        self._listing += 1
        self._peak_listing = max(self._peak_listing, self._listing)
        slot = ListingSlot(self._options.list_idle_seconds, self._ended)
        try:
            yield slot
        finally:
            slot.release()

    def _ended(self, overdue: bool) -> None:  # noqa: FBT001 - a callback's only argument
        self._listing -= 1
        self._overdue += overdue
        self._places.release()

    async def attempt(self) -> None:
        """Wait until one more connection may be tried.

        Cancellation:
            Safe; the turn is the next one's.
        """
        await self._turns.take()
        self._attempts += 1

    def statistics(self) -> AdmissionStatistics:
        """Return how busy it is; safe from any thread."""
        return AdmissionStatistics(
            listing=self._listing,
            peak_listing=self._peak_listing,
            waiting_to_list=self._waiting_to_list,
            overdue=self._overdue,
            attempts=self._attempts,
            waiting_to_attempt=self._turns.waiting,
        )
