"""Whether a watch follows what lists show: the server may answer both from different states.

A kube-apiserver whose watch of etcd is held back sends bookmarks of the old position forever, and
answers lists from etcd. So a quiet watch is compared with a list: a short second watch at its
position ends with a bookmark two seconds before its timeout, which names how far the server's
watches have come. If that is behind a list of the same resource, watches stand still.
"""

from __future__ import annotations

import asyncio
import enum
from typing import TYPE_CHECKING, Final, final

import anyio

from pyinformer.errors import APIStatusError, InformerError
from pyinformer.reflector._currency import DOUBT_SECONDS, reaches
from pyinformer.reflector._silence import SilenceFinding
from pyinformer.transport import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    LineSplitter,
    read_bookmark,
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

_LOOK_SECONDS: Final = (3.0, 4.0)  # the bookmark comes after one second, and then after two
_OPEN_SECONDS: Final = 5.0  # how long a short watch may take beyond its own timeout
_CONFIRM_SECONDS: Final = 1.5  # an event of this moment reaches both streams
_BUSY_SECONDS: Final = 10.0  # a watch that brings events is not compared: it is alive, if late
_OVERDUE_SECONDS: Final = 90.0  # a bookmark is; before that one look serves all of a resource
_UNPROVEN_SECONDS: Final = 180.0  # then a list, where no bookmark shows what watches know
_STILL_PERIOD_SECONDS: Final = 5.0  # between round trips while watches are known to stand still
_REFUSALS: Final = frozenset({401, 403, 404, 405, 406})
_MAX_LINE_BYTES: Final = 1 << 20  # of a longer line it is enough that it is an event


class Look(enum.Enum):
    """What a short second watch has shown."""

    REACHED = "its bookmark has reached the version of a list, and no event came before it"
    BEHIND = "its bookmark is behind the version of a list"
    NEWS = "an event that may not have come through the first watch"
    NOTHING = "neither an event nor a bookmark"
    FAILED = "the watch was not accepted, or broke"


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
        self._lists_itself = self._shares_nothing = False
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
        period = self._currency.period_seconds(now)
        return min(period, _STILL_PERIOD_SECONDS) if self._machine.is_still else period

    @property
    def _as_of(self) -> float:
        as_of = self._currency.as_of(self._progress().position)
        return float("-inf") if as_of is None else as_of

    async def _take(self, *, alone: bool) -> RoundTrip | None:
        """Return a round trip that the cache will have caught up with; None if there is none."""
        now, alone = self._now(), alone or self._shares_nothing
        before, self._before = self._before, (now, self._progress().position)
        oldest_at = now if alone else now - self._period_seconds(now) / 2
        try:
            trip = await self._trips.take(self._list_watch, oldest_at=oldest_at, alone=alone)
        except InformerError as error:
            is_refused = isinstance(error, APIStatusError) and error.status in _REFUSALS
            self._currency.is_blind = is_refused
            return None
        self._currency.is_blind = False
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
        if doubt_seconds < DOUBT_SECONDS or self._trips.is_suspect(resource, now):
            return True
        is_shared = self._trips.seconds_since_look(resource, now) < doubt_seconds
        return not is_shared or age_seconds >= _OVERDUE_SECONDS

    def _is_busy(self, now: float, doubt_seconds: float) -> bool:
        last = self._last_event_at()
        return last is not None and now - last < min(_BUSY_SECONDS, doubt_seconds)

    async def _compare(self, trip: RoundTrip) -> SilenceFinding:
        """Compare the watch with a list, and then with a list of the resource itself."""
        self._trips.looked(self._list_watch.resource, self._now())
        began_at = self._as_of
        if not self._lists_itself or self._machine.is_still:
            seen = await self._look(trip, _LOOK_SECONDS[0])
            if seen is None or seen is SilenceFinding.STALLED:
                return seen or SilenceFinding.NOTHING
            if self._machine.is_still:  # the list was of this very resource
                return self._found(seen, trip, began_at)
        own = await self._take(alone=True)
        if own is None or reaches(self._progress().position, own.version):
            return SilenceFinding.NOTHING
        found = await self._look(own, _LOOK_SECONDS[1])
        if found is None or found is SilenceFinding.STALLED:
            self._lists_itself = found is None
            return found or SilenceFinding.NOTHING
        return self._found(found, own, began_at)

    def _found(self, found: SilenceFinding, trip: RoundTrip, began_at: float) -> SilenceFinding:
        if reaches(self._progress().position, trip.version):
            return SilenceFinding.NOTHING
        now = self._now()
        self.is_certain = found is SilenceFinding.STILL
        if self.is_certain:
            self._currency.still_at = now
            self._trips.stood_still(self._list_watch.resource, now)
            return SilenceFinding.STILL
        is_unproven = now - began_at >= _UNPROVEN_SECONDS
        return SilenceFinding.STILL if is_unproven else SilenceFinding.NOTHING

    async def _look(self, trip: RoundTrip, seconds: float) -> SilenceFinding | None:
        """Look at a second watch; None if it shows that nothing was missed."""
        before = self._progress()
        await self._request_budget.attempt()
        seen = await look(self._list_watch, before.position, trip.version, seconds)
        if seen is Look.REACHED:
            self._trips.followed(self._list_watch.resource)
            self._currency.proven(trip)
            self._on_followed()
            return None
        if seen is Look.NEWS:
            await anyio.sleep(_CONFIRM_SECONDS)
        if self._progress().events != before.events:
            self._on_followed()
            return None
        if seen is Look.NEWS:
            return SilenceFinding.STALLED
        # A kube-apiserver sends no bookmark that is older than the start of a watch.
        resource = self._list_watch.resource
        is_behind = (seen is Look.BEHIND and self._trips.knows_followed()) or (
            seen is Look.NOTHING and self._trips.knows_followed(resource)
        )
        return SilenceFinding.STILL if is_behind else SilenceFinding.NOTHING


async def look(list_watch: ListWatch, position: str, version: str, seconds: float) -> Look:
    """Open a short watch at a position, and compare its first event or bookmark with a version.

    Args:
        list_watch: the resource and the scope.
        position: where it begins.
        version: the version of a list.
        seconds: its timeout, of which the last two come after the bookmark.

    Cancellation:
        Safe; the watch is closed.
    """
    found: list[Look] = []

    def on_line(data: bytes | bytearray, start: int, end: int) -> None:
        kind, body, first, last = read_frame(data, start, end)
        if found:
            return
        if kind in {ADDED, MODIFIED, DELETED}:
            found.append(Look.NEWS)
        elif kind == BOOKMARK:
            has_reached = reaches(read_bookmark(body, first, last).resource_version, version)
            found.append(Look.REACHED if has_reached else Look.BEHIND)
        else:
            found.append(Look.FAILED)

    splitter = LineSplitter(
        on_line,
        max_line_bytes=_MAX_LINE_BYTES,
        what=f"watch {list_watch.resource}",
        on_oversized=lambda _head, _size: found.append(Look.NEWS),
    )
    try:
        with anyio.move_on_after(_OPEN_SECONDS + seconds):
            async with list_watch.watch(resource_version=position, timeout_seconds=seconds) as body:
                while not found and (chunk := await body.read()):
                    splitter.feed(chunk)
    except InformerError:
        return found[0] if found else Look.FAILED
    return found[0] if found else Look.NOTHING
