"""Whether a watch follows what lists show: the server may answer both from different states.

A kube-apiserver whose watch of etcd is held back sends bookmarks of the old position forever, and
answers lists from etcd. So a quiet watch is compared with a list of its resource: the cache that
feeds watches is asked for the version of the list. Without that version it stands still; with it, a
second watch at the position shows within a second whether anything has changed since.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

import anyio

from pyinformer.errors import APIStatusError, InformerError, ResourceVersionTooLargeError
from pyinformer.reflector._currency import DOUBT_SECONDS, reaches
from pyinformer.reflector._silence import SilenceFinding
from pyinformer.transport import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    LineSplitter,
    ListSplitter,
    read_frame,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.reflector._currency import Currency
    from pyinformer.reflector._request_budget import RequestBudget
    from pyinformer.reflector._silence import StreamProgress
    from pyinformer.reflector.history import RoundTrip, RoundTrips
    from pyinformer.reflector.machine import ReflectorMachine
    from pyinformer.transport import ListWatch

_LOOK_SECONDS: Final = 1.0  # what a second watch begins with is sent at once
_TRIES: Final = 2  # an etcd that notifies of progress every five seconds is not still
_CACHED_SECONDS: Final = 10.0
_OPEN_SECONDS: Final = 6.0  # how long a second watch may take, its timeout included
_CONFIRM_SECONDS: Final = 1.5  # an event of this moment reaches both streams
_BUSY_SECONDS: Final = 10.0  # a watch that brings events is not compared: it is alive, if late
_OVERDUE_SECONDS: Final = 90.0  # a bookmark is; before that one look serves all of a resource
_UNPROVEN_SECONDS: Final = 180.0  # then a list, where no bookmark shows what watches know
_STILL_PERIOD_SECONDS: Final = 5.0  # between round trips while watches are known to stand still
_BLIND_SECONDS: Final = 300.0  # between lists of one object that are refused
_REFUSALS: Final = frozenset({403, 405, 406})  # not 401 and 404, after which nothing is known
_MAX_LINE_BYTES: Final = 1 << 20  # of a longer line it is enough that it is an event


@final
class CurrencyCheck:
    """Compares one watch with lists while it is read.

    Args:
        list_watch: the resource and the scope.
        currency: is renewed; says when.
        trips: the lists of the connection.
        machine: knows whether watches stand still, and is notified when they follow again.
        request_budget: limits new connections.
        progress: returns what the watch has delivered so far.
        last_event_at: returns when its last event arrived, on the loop's clock; None if none did.
        on_followed: called when watches that stood still follow again.
    """

    def __init__(
        self,
        list_watch: ListWatch,
        currency: Currency,
        trips: RoundTrips,
        *,
        machine: ReflectorMachine,
        request_budget: RequestBudget,
        progress: Callable[[], StreamProgress],
        last_event_at: Callable[[], float | None],
        on_followed: Callable[[], None],
    ) -> None:
        self.is_certain: bool = False
        """The watch is known to stand still; else nothing shows whether it does."""
        self._list_watch = list_watch
        self._currency = currency
        self._trips = trips
        self._machine = machine
        self._request_budget = request_budget
        self._progress = progress
        self._last_event_at = last_event_at
        self._on_followed = on_followed
        self._now = asyncio.get_running_loop().time
        self._tried_at = float("-inf")
        self._before = self._now(), progress().position
        self._wanted = anyio.Event()
        self._is_own = self._shares_nothing = False
        loop = asyncio.get_running_loop()
        currency.on_wanted = lambda: loop.call_soon_threadsafe(self._wake)

    def stop(self) -> None:
        """Wake no loop any more."""
        self._currency.on_wanted = lambda: None

    def _wake(self) -> None:
        self._wanted.set()

    async def until_still(self) -> SilenceFinding:
        """Renew the age of the cache until the watch has to be replaced, or the resource listed.

        Returns:
            STALLED if a second watch is better, STILL if only a list is.

        Cancellation:
            Safe; a list or a second watch is closed.
        """
        while True:
            await self._until_due()
            self._tried_at = self._now()
            finding = await self._try()
            self._currency.tried_at = self._tried_at
            if finding is not SilenceFinding.NOTHING:
                return finding

    async def _try(self) -> SilenceFinding:
        progress = self._progress()
        if progress.events:
            self._currency.has_stalled = False
        if progress.events or progress.bookmarks:
            self._trips.delivered()
        trip = await self._take(alone=self._is_asked or self._machine.is_still)
        if trip is None or not self._needs_look(trip):
            return SilenceFinding.NOTHING
        return await self._compare(trip)

    @property
    def _is_asked(self) -> bool:
        return self._currency.is_asked(self._progress().position)

    async def _until_due(self) -> None:
        while (seconds := self._seconds_until_due()) > 0.0:
            self._wanted = anyio.Event()
            with anyio.move_on_after(seconds):
                await self._wanted.wait()

    def _seconds_until_due(self) -> float:
        now = self._now()
        if self._currency.asked_at > self._tried_at:
            return 0.0
        is_still = self._machine.is_still  # then a load proves nothing about the next change
        since = self._tried_at if is_still else max(self._tried_at, self._as_of)
        return since + self._period_seconds(now) - now

    def _period_seconds(self, now: float) -> float:
        if self._currency.is_blind:
            return _BLIND_SECONDS
        period = self._currency.period_seconds(now)
        return min(period, _STILL_PERIOD_SECONDS) if self._machine.is_still else period

    @property
    def _as_of(self) -> float:
        as_of = self._currency.as_of(self._progress().position)
        return float("-inf") if as_of is None else as_of

    async def _take(self, *, alone: bool) -> RoundTrip | None:
        """Return a round trip that the cache will have caught up with; None if there is none."""
        now = self._now()
        self._is_own = alone = alone or self._shares_nothing
        before, self._before = self._before, (now, self._progress().position)
        oldest_at = now if alone else now - self._period_seconds(now) / 2
        try:
            trip = await self._trips.take(self._list_watch, oldest_at=oldest_at, alone=alone)
        except InformerError as error:
            if isinstance(error, APIStatusError) and error.status in _REFUSALS:
                self._currency.list_refused()
            return None
        self._currency.list_answered()
        known_at, known = self._before if trip.sent_at >= now else before
        if trip.sent_at >= known_at and known != trip.version and reaches(known, trip.version):
            # A newest version that is older than the position is of another storage or history.
            self._shares_nothing = True
            return None
        self._currency.expect(trip, self._progress().position)
        return trip

    def _needs_look(self, trip: RoundTrip) -> bool:
        now, resource = self._now(), self._list_watch.resource
        if self._machine.is_still:  # also at the version of a list: does the watch know it?
            return True
        if reaches(self._progress().position, trip.version):
            return False
        doubt_seconds, age_seconds = self._currency.doubt_seconds(now), now - self._as_of
        if self._is_asked:
            return True
        if age_seconds < doubt_seconds or self._is_busy(now, doubt_seconds):
            return False
        if self._currency.has_stalled:
            return True
        if doubt_seconds < DOUBT_SECONDS or self._trips.is_suspect(resource, now):
            return True
        is_shared = self._trips.seconds_since_look(resource, now) < doubt_seconds
        return not is_shared or age_seconds >= _OVERDUE_SECONDS

    def _is_busy(self, now: float, doubt_seconds: float) -> bool:
        last = self._last_event_at()
        return last is not None and now - last < min(_BUSY_SECONDS, doubt_seconds)

    async def _compare(self, trip: RoundTrip) -> SilenceFinding:
        """Compare the watch with a list of the resource itself, which its watch cache follows."""
        self._trips.looked(self._list_watch.resource, self._now())
        began_at = self._as_of
        # While watches stand still, and if a proof was asked for, the list was of this resource.
        own = trip if self._is_own else await self._take(alone=True)
        if own is None or (self._has_reached(own) and not self._machine.is_still):
            return SilenceFinding.NOTHING
        is_cached = await self._has_cached(own.version)
        if is_cached:
            self._trips.followed()
            self._on_followed()
            finding = await self._look(own)
            is_open = finding is SilenceFinding.NOTHING and self._trips.may_lose()
            return self._unproven(began_at) if is_open else finding
        if self._has_reached(own):
            return SilenceFinding.NOTHING
        now = self._now()
        if is_cached is False and self._trips.knows_followed():
            self.is_certain = True
            self._currency.still_at = now
            self._trips.stood_still(self._list_watch.resource, now)
            return SilenceFinding.STILL
        return self._unproven(began_at)

    def _unproven(self, as_of: float) -> SilenceFinding:
        is_old = self._now() - as_of >= _UNPROVEN_SECONDS
        return SilenceFinding.STILL if is_old else SilenceFinding.NOTHING

    def _has_reached(self, trip: RoundTrip) -> bool:
        return reaches(self._progress().position, trip.version)

    async def _has_cached(self, version: str) -> bool | None:
        """Return whether the watches of the server have a version, or will within seconds."""
        for _ in range(_TRIES - 1):
            if (found := await has_cached(self._list_watch, version)) is not False:
                return found
        return await has_cached(self._list_watch, version)

    async def _look(self, trip: RoundTrip) -> SilenceFinding:
        """Renew the age if a second watch has nothing that the first has not delivered."""
        before = self._progress()
        await self._request_budget.attempt()
        has_news = await look(self._list_watch, before.position)
        if has_news is False:
            if not self._trips.may_lose():
                self._currency.proven(trip)
        elif has_news:
            await anyio.sleep(_CONFIRM_SECONDS)
            if self._progress().events == before.events:
                return self._stalled(before)
        return SilenceFinding.NOTHING

    def _stalled(self, progress: StreamProgress) -> SilenceFinding:
        """Return what a stalled watch is replaced by: a second one, but a list if that one stalled.

        A proxy that holds a response back until its end delivers nothing on any long watch.
        """
        again = self._currency.has_stalled and not progress.events
        self._currency.has_stalled = True
        return SilenceFinding.STILL if again else SilenceFinding.STALLED


async def has_cached(list_watch: ListWatch, version: str) -> bool | None:
    """Return whether the watches of a server have reached a version; None if it does not show.

    A list of nothing that may not be older is answered from the cache that feeds the watches; a
    kube-apiserver waits three seconds for the version, and then answers that it is too large.

    Cancellation:
        Safe; the request is dropped.
    """
    what = f"list {list_watch.resource}"
    splitter = ListSplitter(lambda _data, _start, _end: None, what=what)
    try:
        with anyio.fail_after(_CACHED_SECONDS):
            async with list_watch.nothing().list(resource_version=version) as body:
                while chunk := await body.read():
                    splitter.feed(chunk)
        return reaches(splitter.finish().resource_version, version) or None
    except ResourceVersionTooLargeError:
        return False
    except (InformerError, TimeoutError):
        return None


async def look(list_watch: ListWatch, position: str) -> bool | None:
    """Return whether a second watch at a position brings an event; None if it does not show.

    Only a watch that has ended as it was asked to has shown everything that there was.

    Args:
        list_watch: the resource and the scope.
        position: where it begins.

    Cancellation:
        Safe; the watch is closed.
    """
    found: list[bool] = []

    def on_line(data: bytes | bytearray, start: int, end: int) -> None:
        """Record whether a frame is an event; a bookmark decides nothing."""
        kind = read_frame(data, start, end)[0]
        if kind != BOOKMARK:
            found.append(kind in {ADDED, MODIFIED, DELETED})

    splitter = LineSplitter(
        on_line,
        max_line_bytes=_MAX_LINE_BYTES,
        what=f"watch {list_watch.resource}",
        on_oversized=lambda _head, _size: found.append(True),
    )
    try:
        with anyio.fail_after(_OPEN_SECONDS):
            async with list_watch.watch(
                resource_version=position, timeout_seconds=_LOOK_SECONDS
            ) as body:
                while not found and (chunk := await body.read()):
                    splitter.feed(chunk)
    except (InformerError, TimeoutError):
        return None
    if not found:
        return False
    return found[0] or None  # an ERROR shows nothing
