"""Whether a watch follows what lists show: the server may answer both from different states.

A kube-apiserver whose watch of etcd is held back sends bookmarks of the old position forever, and
answers lists from etcd. So a quiet watch is compared with a list of its resource: the cache that
feeds watches is asked for the version of the list. Without that version it stands still; with it, a
second watch at the position shows within two seconds what has changed since: an event, or a
bookmark of that version. Without a watch cache there is no such bookmark, and only a list helps.
"""

from __future__ import annotations

import asyncio
import enum
import math
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import SOON_SECONDS, loop_time
from pyinformer.cache.reflector._age_proof import DOUBT_SECONDS, reaches
from pyinformer.cache.reflector._silent_watch_probe import Look, SilenceFinding, look_at
from pyinformer.cache.reflector.lineage import SelectorIgnoredError
from pyinformer.client.transport import ListSplitter, is_refusal
from pyinformer.errors import APIStatusError, InformerError, ResourceVersionTooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.cache.reflector._age_proof import AgeProof
    from pyinformer.cache.reflector._request_budget import RequestBudget
    from pyinformer.cache.reflector._silent_watch_probe import StreamProgress
    from pyinformer.cache.reflector.lineage import QuorumLists, RoundTrip
    from pyinformer.cache.reflector.machine import ReflectorMachine
    from pyinformer.client.transport import ListWatch

_log = get_logger(__name__)
_TRIES: Final = 2  # an etcd that notifies of progress every five seconds is not still
_CACHED_SECONDS: Final = 10.0
_CONFIRM_SECONDS: Final = 1.5  # an event of this moment reaches both streams
_BUSY_SECONDS: Final = 10.0  # a watch that brings events is not compared: it is alive, if late
_LOOKS: Final = 4.0  # in a minute for a connection, so up to four watches are compared in each
_UNREAD_LOOKS: Final = 2.5  # likewise, while no reader asks for ages
_AGAIN_SECONDS: Final = 5.0  # between two attempts of one reflector that no reader waits for
_SHARED_PART: Final = 0.9  # of a period: a round trip that another reflector has sent is enough
_COURTESY_SECONDS: Final = 0.2
_COURTESY_MEMORY_SECONDS: Final = 600.0
_FRESH_SECONDS: Final = 5.0  # a watch is compared with a list of this age at most
_LAG_SECONDS: Final = 15.0  # an etcd as kubeadm starts it notifies of progress every five seconds
_OVERDUE_SECONDS: Final = 100.0  # a bookmark should have proven something
_REMINDERS: Final = 40.0  # in a minute for a connection, of overdue watches whose ages are read
_UNPROVEN_SECONDS: Final = 180.0  # then a list, where no bookmark shows what watches know
_STILL_PERIOD_SECONDS: Final = 5.0  # between round trips while watches are known to stand still
_BLIND_SECONDS: Final = 300.0  # between lists of one object that were always refused
_NOT_FOUND: Final = 404  # after which nothing is known


class Arrivals(Protocol):
    """What has arrived on the watches of a reflector; times are the loop's, None for never."""

    last_event_at: float | None
    last_bookmark_at: float | None


class _Doubt(enum.Enum):
    """What is done about a watch whose age has grown."""

    NONE = "nothing"
    REMIND = "have the cache that feeds watches brought up to date; the next bookmark shows it"
    LOOK = "compare the watch with a list"
    LIST = "list everything: its turn to be compared has not come within three minutes"


@final
class StaleWatchCheck:
    """Compares the watches of one reflector with lists, one after the other, while they are read.

    Args:
        list_watch: the resource and the scope.
        age_proof: is renewed; says when.
        trips: the lists of the connection.
        machine: knows whether watches stand still, and is notified when they follow again.
        request_budget: limits new connections.
        arrivals: when something arrived last.
        on_followed: called when watches that stood still follow again.
    """

    def __init__(
        self,
        list_watch: ListWatch,
        age_proof: AgeProof,
        trips: QuorumLists,
        *,
        machine: ReflectorMachine,
        request_budget: RequestBudget,
        arrivals: Arrivals,
        on_followed: Callable[[], None],
    ) -> None:
        self.is_certain: bool = False
        """The watch is known to stand still; else nothing shows whether it does."""
        self._list_watch = list_watch
        self._age_proof = age_proof
        self._trips = trips
        self._machine = machine
        self._request_budget = request_budget
        self._arrivals = arrivals
        self._on_followed = on_followed
        self._now = loop_time
        self._tried_at = self._looked_at = self._reminded_at = self._sent_at = float("-inf")
        self._before = float("-inf"), ""
        self._seen: RoundTrip | None = None
        self._is_trying = self._has_turn = self._is_urgent = False
        self._next = _Doubt.NONE
        self._failure: Exception | None = None

    async def until_still(self, progress: Callable[[], StreamProgress]) -> SilenceFinding:
        """Renew the age of the cache until the watch has to be replaced, or the resource listed.

        Args:
            progress: returns what the watch has delivered so far.

        Returns:
            STALLED if a second watch is better, STILL if only a list is.

        Cancellation:
            Safe; a list or a second watch is closed.
        """
        self._progress, self.is_certain, self._failure = progress, False, None
        self._is_due = anyio.Event()
        self._before = self._now(), progress().position
        trips, loop = self._trips, asyncio.get_running_loop()
        latest = trips.latest(self._list_watch)
        if latest is not None and latest is not self._seen:
            self.on_trip(latest)
        # Before the first step: a thread that wants an age meanwhile must not wake nothing.
        wake = partial(loop.call_soon_threadsafe, trips.timer.wake, self)
        self._age_proof.on_wanted = wake
        leave = trips.join(self._list_watch, self)
        try:
            while True:
                await self._is_due.wait()
                if self._failure is not None:
                    raise self._failure
                self._is_due = anyio.Event()
                finding = await self._try(self._next)
                self._is_trying = False
                self._age_proof.tried_at = self._tried_at
                if finding is not SilenceFinding.NOTHING:
                    return finding
                trips.timer.wake(self)
        finally:
            leave()
            self._leave_turns()
            if self._is_trying:  # the watch has ended meanwhile; the next one is tried at once
                self._is_trying = False
                self._tried_at = float("-inf")
                self._return_turn()
            self._age_proof.on_wanted = lambda: None

    def step(self, now: float) -> float:
        """Wake the task if the server has to be asked; return in how many seconds to call again."""
        if self._is_trying:
            return math.inf
        seconds = self._seconds_until_due(now)
        if seconds > SOON_SECONDS:
            return seconds
        age_proof = self._age_proof
        self._tried_at, self._has_turn = now, False
        if self._progress().events:
            age_proof.has_stalled = False
        self._next = self._doubt()
        if self._next is _Doubt.NONE:
            if self._has_trip(now):
                age_proof.tried_at = now
                return self._seconds_until_due(now)
            self._trips.reserve(now)
        self._is_trying = True
        self._is_due.set()
        return math.inf

    def _has_trip(self, now: float) -> bool:
        """Return whether another reflector has sent a list lately, so that none is sent now."""
        if (trip := self._shared_trip()) is None:
            return False
        return now - trip.sent_at <= self._period_seconds(now) * _SHARED_PART

    def on_trip(self, trip: RoundTrip) -> None:
        """Record a round trip of the storage, whichever reflector has sent it."""
        age_proof = self._age_proof
        if not (age_proof.is_blind or age_proof.shares_nothing or self._machine.is_still):
            age_proof.list_answered()
            before, self._before = self._before, ((now := self._now()), self._progress().position)
            self._seen = trip
            is_hint = self._accept(trip, before) and (self._lags() or self._is_overdue(now))
            if (
                is_hint
                and not self._is_trying
                and now - self._tried_at >= self._period_seconds(now) / 2
            ):
                self._is_urgent = True
                self._trips.timer.wake(self)

    def fail(self, error: Exception) -> None:
        """Raise an error of `step` or `on_trip` in the task that waits for this check."""
        self._failure = error
        self._is_due.set()

    def _leave_turns(self) -> None:
        self._trips.turns.leave(self)
        self._trips.reminders.leave(self)

    def _return_turn(self) -> None:
        """Return a turn in which no watch was opened."""
        if self._has_turn:
            self._has_turn = False
            self._trips.turns.give_back()

    async def _try(self, doubt: _Doubt) -> SilenceFinding:
        is_suspect = self._trips.is_suspect(self._looked_at, self._tried_at)
        alone = doubt is _Doubt.LOOK and (self._is_asked or self._machine.is_still or is_suspect)
        trip = await self._take(alone=alone, fresh=doubt is not _Doubt.NONE)
        if trip is None:
            return SilenceFinding.NOTHING
        if self._has_reached(trip) and not self._machine.is_still:
            self._return_turn()
            return SilenceFinding.NOTHING
        if doubt is _Doubt.REMIND:
            self._reminded_at = self._now()
            if await _has_cached(self._list_watch, trip.version):
                self._trips.followed()
        elif doubt is _Doubt.LIST:
            return SilenceFinding.STILL
        elif doubt is _Doubt.LOOK:
            return await self._compare(trip, tries=1 if is_suspect else _TRIES)
        return SilenceFinding.NOTHING

    @property
    def _is_asked(self) -> bool:
        return self._age_proof.is_asked(self._progress().position)

    def _seconds_until_due(self, now: float) -> float:
        age_proof, is_urgent = self._age_proof, self._is_urgent
        self._is_urgent = False
        if is_urgent or age_proof.asked_at > self._tried_at:
            return 0.0
        if self._trips.is_suspect(self._tried_at, now):
            return 0.0
        period = self._period_seconds(now)
        if age_proof.is_blind:
            return self._tried_at + period - now
        if self._machine.is_still:  # then a load proves nothing about the next change
            return self._tried_at + period - now
        trip, as_of = self._shared_trip(), self._as_of
        since = max(self._tried_at, as_of, float("-inf") if trip is None else trip.sent_at)
        courtesy_seconds = self._courtesy_seconds(now)
        due_at = min(since + period + courtesy_seconds, self._look_at(now, as_of))
        return max(due_at, self._paced_until(due_at, now, courtesy_seconds)) - now

    def _courtesy_seconds(self, now: float) -> float:
        """Let reflectors that have not sent a list for longer send the next one.

        A list of one object brings the cache that feeds the watches of its resource up to date.
        """
        return _COURTESY_SECONDS * max(0.0, 1.0 - (now - self._sent_at) / _COURTESY_MEMORY_SECONDS)

    def _shared_trip(self) -> RoundTrip | None:
        return None if self._age_proof.shares_nothing else self._seen

    def _look_at(self, now: float, as_of: float) -> float:
        """Return when the watch may be compared with a list, if nothing proves the age by then."""
        doubt_seconds = self._age_proof.doubt_seconds(now)
        at = max(as_of + doubt_seconds, self._tried_at + min(_AGAIN_SECONDS, doubt_seconds))
        if (last := self._arrivals.last_event_at) is not None:
            at = max(at, last + min(_BUSY_SECONDS, doubt_seconds))
        if at > now or doubt_seconds < DOUBT_SECONDS or self._age_proof.has_stalled:
            return at
        turns = self._trips.turns
        turn_at = now + turns.seconds_until(self, now, per_minute=self._looks_per_minute(now))
        return min(turn_at, max(at, self._list_due_at(now)))

    def _is_overdue(self, now: float) -> bool:
        """Return whether an age that is read needs a bookmark."""
        if not self._age_proof.is_read(now):
            return False
        return now - max(self._as_of, self._reminded_at) >= _OVERDUE_SECONDS

    def _list_due_at(self, now: float) -> float:
        """Return when an age that is read has to be proven by a list, whose turn it is or not."""
        is_known = self._as_of != float("-inf") and self._age_proof.is_read(now)
        return self._as_of + _UNPROVEN_SECONDS if is_known else math.inf

    def _paced_until(self, due_at: float, now: float, courtesy_seconds: float) -> float:
        is_strict = self._age_proof.doubt_seconds(now) < DOUBT_SECONDS
        if is_strict or self._age_proof.is_blind:
            return float("-inf")
        return self._trips.paced_until(self._list_watch, due_at, now, courtesy_seconds)

    def _period_seconds(self, now: float) -> float:
        if self._age_proof.is_blind:
            return _BLIND_SECONDS
        period = self._age_proof.period_seconds(now)
        return min(period, _STILL_PERIOD_SECONDS) if self._machine.is_still else period

    def _looks_per_minute(self, now: float) -> float:
        return _LOOKS if self._age_proof.is_read(now) else _UNREAD_LOOKS

    @property
    def _as_of(self) -> float:
        as_of = self._age_proof.as_of(self._progress().position)
        return float("-inf") if as_of is None else as_of

    async def _take(self, *, alone: bool, fresh: bool = False) -> RoundTrip | None:
        """Return a round trip that the cache will have caught up with; None if there is none."""
        now, age_proof, trips = self._now(), self._age_proof, self._trips
        alone = alone or age_proof.shares_nothing
        before, self._before = self._before, (noted := (now, self._progress().position))
        shared_seconds = self._period_seconds(now) * _SHARED_PART
        if fresh:
            shared_seconds = min(_FRESH_SECONDS, shared_seconds)
        oldest_at = now if alone else now - shared_seconds
        try:
            trip = await trips.take(self._list_watch, oldest_at=oldest_at, alone=alone)
        except InformerError as error:
            if isinstance(error, APIStatusError):
                age_proof.refused_at = self._now()
            status = error.status if isinstance(error, APIStatusError) else 0
            is_refused = is_refusal(status) and status != _NOT_FOUND
            if is_refused or isinstance(error, SelectorIgnoredError):
                age_proof.list_refused(self._now(), is_final=not is_refused)
            return None
        if trip.path == self._list_watch.path:
            self._sent_at = trip.sent_at
        age_proof.list_answered()
        self._note("a list is at", trip)
        if trip is self._seen:  # on_trip() has recorded it
            return None if age_proof.shares_nothing else trip
        if not alone:
            self._seen = trip
        return trip if self._accept(trip, noted if trip.sent_at >= now else before) else None

    def _accept(self, trip: RoundTrip, known: tuple[float, str]) -> bool:
        """Have a round trip renew the age, unless it is of another storage than the watch.

        Args:
            trip: what was answered.
            known: at what time the watch was at which position.
        """
        known_at, position = known
        if (
            trip.sent_at >= known_at
            and position != trip.version
            and reaches(position, trip.version)
        ):
            # A newest version that is older than the position is of another storage or history.
            self._age_proof.shares_nothing = True
            return False
        self._age_proof.expect(trip, self._progress().position)
        return True

    def _note(self, what: str, trip: RoundTrip) -> None:
        _log.debug(
            "%s: %s %s, requested %.3f s ago, the watch is at %s",
            self._list_watch.resource,
            what,
            trip.version,
            self._now() - trip.sent_at,
            self._progress().position,
        )

    def _doubt(self) -> _Doubt:
        """Decide whether the watch is compared with a list now."""
        now, age_proof, turns = self._tried_at, self._age_proof, self._trips.turns
        if self._machine.is_still or self._is_asked:  # also at the version of a list: is it known?
            return _Doubt.LOOK
        if not self._is_doubtful(now):
            self._leave_turns()
            return _Doubt.NONE
        doubt_seconds = age_proof.doubt_seconds(now)
        is_free = doubt_seconds < DOUBT_SECONDS or age_proof.has_stalled
        if is_free or self._trips.is_suspect(self._looked_at, now):
            return _Doubt.LOOK
        if self._lags():
            turns.hurry(self)
        self._has_turn = turns.take(self, now, per_minute=self._looks_per_minute(now))
        if self._has_turn:
            return _Doubt.LOOK
        if now >= self._list_due_at(now):  # lists have slots; so many comparisons fill the pool
            return _Doubt.LIST
        if not self._is_overdue(now):
            return _Doubt.NONE
        # Of a server whose caches learn nothing by it each takes a connection for three seconds.
        per_minute = _REMINDERS if self._trips.knows_followed() else _LOOKS
        is_allowed = self._trips.reminders.take(self, now, per_minute=per_minute)
        return _Doubt.REMIND if is_allowed else _Doubt.NONE

    def _lags(self) -> bool:
        """Return whether a bookmark has arrived that is older than a list long before it."""
        at = self._arrivals.last_bookmark_at
        return at is not None and self._age_proof.misses(
            self._progress().position, at - _LAG_SECONDS
        )

    def _is_doubtful(self, now: float) -> bool:
        doubt_seconds, last = self._age_proof.doubt_seconds(now), self._arrivals.last_event_at
        if last is not None and now - last < min(_BUSY_SECONDS, doubt_seconds):
            return False
        return now - self._as_of >= doubt_seconds - SOON_SECONDS

    def wants_turn(self) -> bool:
        """Return whether nothing has proven the age lately."""
        return self._is_doubtful(self._now())

    async def _compare(self, trip: RoundTrip, *, tries: int) -> SilenceFinding:
        """Compare the watch with a list of the newest state.

        Of several servers behind one address one may lag: the one whose second watch shows nothing
        must be the one that has the list's version. So nothing is waited for in between.
        """
        await self._request_budget.attempt()
        began_at, self._looked_at = self._as_of, self._now()
        is_own = trip.path == self._list_watch.path
        is_cached = await self._is_cached(trip.version, tries if is_own else 1)
        if is_cached is False and not is_own:
            # The list was of another resource, which may be in another storage.
            own = await self._take(alone=True)
            if own is None:
                return SilenceFinding.NOTHING
            trip, is_cached = own, await self._is_cached(own.version, 1)
        if is_cached:
            self._trips.followed()
            self._on_followed()
            return await self._look(trip)
        if self._has_reached(trip):
            return SilenceFinding.NOTHING
        if is_cached is False and self._trips.knows_followed():
            self.is_certain = True
            self._age_proof.still_at = now = self._now()
            if not self._machine.is_still:
                self._trips.stood_still(now)
            return SilenceFinding.STILL
        return self._unproven(began_at)

    def _unproven(self, as_of: float) -> SilenceFinding:
        is_old = self._now() - as_of >= _UNPROVEN_SECONDS
        return SilenceFinding.STILL if is_old else SilenceFinding.NOTHING

    def _has_reached(self, trip: RoundTrip) -> bool:
        return reaches(self._progress().position, trip.version)

    async def _is_cached(self, version: str, tries: int) -> bool | None:
        """Return whether the watches of the server have a version, or will within seconds."""
        for _ in range(tries - 1):
            if (found := await _has_cached(self._list_watch, version)) is not False:
                return found
        return await _has_cached(self._list_watch, version)

    async def _look(self, trip: RoundTrip) -> SilenceFinding:
        """Renew the age if a second watch has nothing that the first has not delivered."""
        began_at, before = self._as_of, self._progress()
        look = await look_at(self._list_watch, before.position, trip.version, same_server=True)
        if look is Look.CURRENT:
            self._note("a second watch has no event up to", trip)
            self._age_proof.proven(trip)
        elif look is Look.NEWS:
            await anyio.sleep(_CONFIRM_SECONDS)
            if self._progress().events == before.events:
                return self._stalled(before)
        else:
            return self._unproven(began_at)
        return SilenceFinding.NOTHING

    def _stalled(self, progress: StreamProgress) -> SilenceFinding:
        """Return what a stalled watch is replaced by: a second one, but a list if that one stalled.

        A proxy that holds a response back until its end delivers nothing on any long watch.
        """
        again = self._age_proof.has_stalled and not progress.events
        self._age_proof.has_stalled = True
        return SilenceFinding.STILL if again else SilenceFinding.STALLED


async def _has_cached(list_watch: ListWatch, version: str) -> bool | None:
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
