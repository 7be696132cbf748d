"""The limits of what the reflectors of one cluster connection request at the same time.

Lists begin in the order of their requests, few at a time, and connection attempts at a steady rate.
Whatever a server does, a list delays others only while it makes progress, and lists of other
resources only while it makes progress quickly.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final, final

from pyinformer._runtime.tasks import Throttle
from pyinformer.cache.reflector._discovery_failures import DiscoveryFailures
from pyinformer.cache.reflector._forbidden_retries import ForbiddenRetries
from pyinformer.cache.reflector._recovery_probe import RecoveryProbe
from pyinformer.cache.reflector._silent_watch_probe import SilenceMonitor
from pyinformer.client.transport import LEAST_BYTES_PER_SECOND
from pyinformer.errors import InternalError
from pyinformer.objects import check_integer, check_seconds, check_type

if TYPE_CHECKING:
    from collections.abc import Callable

_QUICK_BYTES_PER_SECOND: Final = 1 << 20  # a healthy server sends ten times as much
_SMALL_BYTES: Final = 256 << 10  # some 50 pods, which cost a server little more than the request
_MORE_PER_SMALL_LIST: Final = 3  # so four times as many in each round of answers
_MOST_SMALL_LISTS: Final = 8  # times max_lists: the next ones may all be large


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBudgetOptions:
    """The limits of what the informers of one cluster connection request from its server."""

    max_lists: int = 4
    """How many informers may list at the same time. A server that has just restarted answers a few
    lists quickly, and breaks down again under hundreds. Up to eight times as many may list for the
    first time, as long as their lists end quickly and with less than 256 KiB each."""

    list_idle_seconds: float = 30.0
    """After this time without a byte, or this time in all plus a second for each 16 KiB that
    arrived, a list no longer counts and the next one may begin. The list continues: it has its own
    deadlines."""

    list_slow_seconds: float = 2.0
    """After this time plus a second for each MiB that arrived, a list is slow, and after
    `list_idle_seconds` in any case. Informers of a resource without a running list do not wait for
    slow lists, so bad resources behind the connection cannot keep the others from listing, in the
    same API group either. Beside lists that are slow or large there are never more at a time than
    `max_lists` and one for each resource."""

    attempts_per_second: float = 25.0
    """How many connections for watches may be tried per second, once the burst is spent."""

    burst: int = 25
    """How many may be tried at once after a quiet time: programs of usual size never wait."""

    silence_check_seconds: float = 30.0
    """After this time without an event or a bookmark, a watch that was busy before is checked by a
    short second watch at its position; and likewise one watch, if all of them are as silent. There
    is at most one such check in this time. If it delivers events that the first watch has not, new
    watches replace the silent ones; if the server does not answer the new connection either, all
    silent watches are given up."""

    def __post_init__(self) -> None:
        """Raise InvalidArgumentError for values that cannot work."""
        for name in ("max_lists", "burst"):
            check_integer(name, getattr(self, name))
        for name in (
            "list_idle_seconds",
            "list_slow_seconds",
            "attempts_per_second",
            "silence_check_seconds",
        ):
            # A rate is checked like a time.
            check_seconds(name, getattr(self, name), is_positive=True)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBudgetStatistics:
    """What the informers of one cluster connection request from its server now."""

    listing: int
    """Lists that hold a slot."""

    peak_listing: int
    """The most lists that held a slot at the same time."""

    waiting_to_list: int
    """Lists that wait for a slot."""

    overdue: int
    """How often a list was idle or slow for so long that it lost its slot to the next one."""

    attempts: int
    """Connections for watches that were tried so far."""

    waiting_to_attempt: int
    """Connections that wait for their turn."""


@final
class ListingSlot:
    """A slot among the running lists.

    Args:
        resource: the resource that is listed.
        options: how long the list may hold the slot.
        on_change: called when the list becomes slow, when it loses its slot, and when it ends.
    """

    def __init__(
        self,
        resource: str,
        options: RequestBudgetOptions,
        on_change: Callable[[ListingSlot], None],
    ) -> None:
        self.resource: str = resource
        self.has_ended: bool = False
        """Whether the list receives nothing more."""
        self.has_failed: bool = False
        """Whether it has ended before it received everything that it requested."""
        self.holds: bool = True
        """Whether the list still holds the slot."""
        self.is_slow: bool = False
        """Whether other resources no longer wait for this list."""
        self.is_small: bool = True
        """Whether the list costs the server little, as far as it is known."""
        self._options = options
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._began_at = self._progressed_at = self._loop.time()
        self._received = 0
        self._timer = self._loop.call_at(min(self._slow_at(), self._lost_at()), self._check)

    @property
    def has_received(self) -> bool:
        """Whether the server has answered."""
        return self._received > 0

    def progress(self, received_bytes: int) -> None:
        """Record that a piece of the list has arrived; cheap enough for every piece."""
        self._received += received_bytes
        self._progressed_at = self._loop.time()
        if self._received >= _SMALL_BYTES:
            self.is_small = False

    def release(self, *, failed: bool = False) -> None:
        """Free the slot for the next list; a second call does nothing.

        A list that was read to its end costs the server nothing more.

        Args:
            failed: whether the list was not read to its end.
        """
        if not self.has_ended:
            self.has_ended, self.has_failed, self.holds = True, failed, False
            self._timer.cancel()
            self._on_change(self)

    def _slow_at(self) -> float:
        earned = self._options.list_slow_seconds + self._received / _QUICK_BYTES_PER_SECOND
        return self._began_at + min(earned, self._options.list_idle_seconds)

    def _lost_at(self) -> float:
        idle = self._options.list_idle_seconds
        total = self._began_at + idle + self._received / LEAST_BYTES_PER_SECOND
        return min(total, self._progressed_at + idle)

    def _check(self) -> None:
        now, slow_at, lost_at = self._loop.time(), self._slow_at(), self._lost_at()
        if now >= lost_at:
            self.holds = self.is_small = False
            self._on_change(self)
            return
        if not self.is_slow and now >= slow_at:
            self.is_slow, self.is_small = True, False
            self._on_change(self)
        self._timer = self._loop.call_at(
            lost_at if self.is_slow else min(slow_at, lost_at), self._check
        )


@final
class _Waiting:
    """A list that waits for a slot."""

    def __init__(self, arrival: int, *, is_first: bool) -> None:
        self.arrival = arrival
        self.is_first = is_first
        self.slot: ListingSlot | None = None
        self.turn = asyncio.Event()


@final
class RequestBudget:
    """The limits of one cluster connection, shared by its reflectors.

    Normally `max_lists` lists hold a slot. Beyond that, one list of a resource without a running
    list may begin if it would only wait for slow lists: resources whose lists never end delay the
    others by `list_slow_seconds` for each `max_lists` of them.

    Only its end shows how large a list is. So when many informers start, `max_lists` of them list
    at first, and each list that ends small raises the limit by three: of forty small lists 4, 16
    and 20 run at a time. While a list is slow or large, the limit is `max_lists`, and after that
    or a failure it grows from there. For informers that have listed or tried to before it always
    is `max_lists`: they do so after an outage, hundreds at once.

    Args:
        options: the limits.
    """

    def __init__(self, options: RequestBudgetOptions | None = None) -> None:
        if options is not None:
            check_type("options", options, RequestBudgetOptions)
        self._options = options or RequestBudgetOptions()
        self.outage: RecoveryProbe = RecoveryProbe()
        """Lets reflectors wait for a server that they did not reach."""
        self.rights: ForbiddenRetries = ForbiddenRetries()
        """Lets reflectors wait for missing rights."""
        self.discovery: DiscoveryFailures = DiscoveryFailures()
        """Lets reflectors share failures of discovery."""
        self.silence: SilenceMonitor = SilenceMonitor(self._options.silence_check_seconds)
        """The silent streams of the connection."""
        self._throttle = Throttle(
            per_second=self._options.attempts_per_second, burst=self._options.burst
        )
        self._max_first_lists = self._options.max_lists
        self._running: set[ListingSlot] = set()  # including lists that have lost their slot
        self._lines: dict[str, deque[_Waiting]] = {}  # for each resource, in order of arrival
        self._arrivals = count()
        self._peak_listing = 0
        self._overdue = 0
        self._attempts = 0

    @asynccontextmanager
    async def listing(
        self, resource: str = "", *, is_first: bool = False
    ) -> AsyncIterator[ListingSlot]:
        """Wait for a slot among the lists, and hold it for the block.

        Args:
            resource: the resource that is listed, such as `deployments.v1.apps`.
            is_first: whether it is the first attempt of an informer to list.

        Yields:
            The slot: call its `progress()` with the size of each piece, or it is lost.

        Cancellation:
            Safe; the slot is free again, or was never taken.
        """
        slot = await self._take_slot(resource, is_first=is_first)
        try:
            yield slot
        except BaseException:
            slot.release(failed=True)
            raise
        slot.release()

    async def _take_slot(self, resource: str, *, is_first: bool) -> ListingSlot:
        waiting = _Waiting(next(self._arrivals), is_first=is_first)
        line = self._lines.setdefault(resource, deque())
        line.append(waiting)
        self._admit()
        try:
            await waiting.turn.wait()
        except BaseException:
            if waiting.slot is None:
                line.remove(waiting)
                self._admit()
            else:  # the slot came together with the cancellation
                waiting.slot.release()
            raise
        if waiting.slot is None:
            raise InternalError("a list was woken without a slot")
        return waiting.slot

    def _admit(self) -> None:
        """Give slots to all lists that may begin."""
        while (resource := self._next_resource()) is not None:
            waiting = self._lines[resource].popleft()
            slot = waiting.slot = ListingSlot(resource, self._options, self._slot_changed)
            self._running.add(slot)
            self._peak_listing = max(self._peak_listing, self._listing)
            waiting.turn.set()

    def _next_resource(self) -> str | None:
        """Return the resource whose next list may begin; None if none may."""
        self._lines = {one: line for one, line in self._lines.items() if line}
        if not self._lines:
            return None
        oldest = min(self._lines, key=self._arrival)
        limit = self._options.max_lists
        if self._lines[oldest][0].is_first and all(slot.is_small for slot in self._running):
            limit = self._max_first_lists
        if self._listing < limit:
            return oldest
        if sum(slot.holds and not slot.is_slow for slot in self._running) >= limit:
            return None
        others = self._lines.keys() - {slot.resource for slot in self._running}
        return min(others, key=self._arrival, default=None)

    def _arrival(self, resource: str) -> int:
        return self._lines[resource][0].arrival

    @property
    def _listing(self) -> int:
        return sum(slot.holds for slot in self._running)

    def _slot_changed(self, slot: ListingSlot) -> None:
        if slot.has_failed or not slot.is_small:
            self._max_first_lists = self._options.max_lists
        elif slot.has_received and all(other.is_small for other in self._running):
            more = self._max_first_lists + _MORE_PER_SMALL_LIST
            self._max_first_lists = min(more, self._options.max_lists * _MOST_SMALL_LISTS)
        if slot.has_ended:
            self._running.discard(slot)
        else:
            self._overdue += not slot.holds
        self._admit()

    async def attempt(self) -> None:
        """Wait until one more connection may be tried.

        Cancellation:
            Safe; the next waiter gets the turn.
        """
        await self._throttle.acquire()
        self._attempts += 1

    def statistics(self) -> RequestBudgetStatistics:
        """Return the counts; safe from any thread."""
        return RequestBudgetStatistics(
            listing=sum(slot.holds for slot in tuple(self._running)),
            peak_listing=self._peak_listing,
            waiting_to_list=sum(map(len, tuple(self._lines.values()))),
            overdue=self._overdue,
            attempts=self._attempts,
            waiting_to_attempt=self._throttle.waiting,
        )
