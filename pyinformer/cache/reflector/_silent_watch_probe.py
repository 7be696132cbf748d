"""Streams that fall silent before bookmarks are due: does the server have events for them?

A second watch at a stream's position shows at once what the stream has not delivered; an HTTP/1.1
server cannot be probed on the stream itself. The reflectors of one cluster connection share the
answer: there is at most one such check in 30 s, and none while nothing suggests a stall.
"""

from __future__ import annotations

import asyncio
import enum
import math
from typing import TYPE_CHECKING, Final, final

import anyio
from msgspec import Struct

from pyinformer._runtime.tasks import SOON_SECONDS, SharedTimer, loop_time, together
from pyinformer.cache.reflector._age_proof import reaches
from pyinformer.client.transport import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    LineSplitter,
    read_bookmark,
    read_frame,
)
from pyinformer.errors import APIStatusError, InformerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.client.transport import ListWatch

_OPEN_SECONDS: Final = 2.5
_LOOK_SECONDS: Final = 1.0  # a server sends missed events before anything else
_BOOKMARK_SECONDS: Final = 3.0  # a watch cache sends a bookmark two seconds before the end
_END_SECONDS: Final = 2.5  # after its timeout a watch should have ended
_CONFIRM_SECONDS: Final = 1.0  # an event of this moment reaches both streams
_MAX_LINE_BYTES: Final = 1 << 20  # of a longer line it is enough that it is an event


class SilenceFinding(enum.Enum):
    """The outcome of a check of a silent stream."""

    NOTHING = "nothing"
    STALLED = "a second watch delivered events that the first had not"
    STILL = "watches do not follow what lists show"


@final
class IdleTimer:
    """Calls back once when nothing has progressed for a time, at next to no cost for progress.

    Args:
        idle_seconds: the time without progress.
        on_idle: called once, on the loop, when it is over.
        grace: returns how many more seconds are allowed now.
    """

    __slots__ = ("_grace", "_idle_seconds", "_loop", "_on_idle", "_timer", "progressed_at")

    def __init__(
        self,
        idle_seconds: float,
        on_idle: Callable[[], None],
        *,
        grace: Callable[[], float] = float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle_seconds = idle_seconds
        self._on_idle = on_idle
        self._grace = grace
        self.progressed_at: float = self._loop.time()
        """When the stream progressed last; setting it is all that progress costs."""
        self._timer = self._call_after(idle_seconds)

    def _call_after(self, seconds: float) -> asyncio.TimerHandle:
        return self._loop.call_later(together(self._loop.time(), seconds), self._check)

    def cancel(self) -> None:
        """Cancel the callback."""
        self._timer.cancel()

    def _check(self) -> None:
        idle_seconds = self._idle_seconds + self._grace()
        left = self.progressed_at + idle_seconds - self._loop.time()
        if left > 0:
            self._timer = self._call_after(left)
        else:
            self._on_idle()


@final
class StreamProgress(Struct, frozen=True):
    """What a stream has delivered so far."""

    events: int
    """The number of changes."""
    bookmarks: int
    position: str
    unfinished_bytes: int
    """How much of a line without an end yet."""


@final
class SilenceMonitor:
    """The silent streams of one cluster connection, and the outcome of the latest check.

    Args:
        check_seconds: how long a stream is silent before it is checked, and the least time between
            two checks.
    """

    def __init__(self, check_seconds: float) -> None:
        self.check_seconds = check_seconds
        self._streams: set[IdleTimer] = set()
        self._progressed_at = self._compared_at = float("-inf")
        self._checked_at = self._found_at = float("-inf")
        self._finding = SilenceFinding.NOTHING
        self.timer: SharedTimer = SharedTimer()
        """Steps the checks of the streams."""
        self.turns: dict[SilenceCheck, None] = {}
        """The checks of the streams, the one that was made the longest ago first."""
        self.checks: int = 0
        """How many checks there were."""

    def join(self, stream: IdleTimer) -> Callable[[], None]:
        """Add a stream; return the function that removes it."""
        self._streams.add(stream)
        return lambda: self._streams.discard(stream)

    def latest(self, now: float) -> SilenceFinding:
        """Return the latest finding while it is recent; it holds for all silent streams."""
        return (
            self._finding if now - self._found_at <= self.check_seconds else SilenceFinding.NOTHING
        )

    def seconds_until_check(self, now: float, *, was_busy: bool) -> float:
        """Return in how many seconds a silent stream may be checked.

        Args:
            now: the loop's time.
            was_busy: it has delivered changes after its last check. If not, its silence means
                nothing unless all streams of the connection are as silent.
        """
        due_at = self._checked_at + self.check_seconds
        if not was_busy:
            if self._compared_at != now:  # once for all that are stepped together
                self._compared_at = now
                self._progressed_at = max((one.progressed_at for one in self._streams), default=now)
            due_at = max(due_at, self._progressed_at + self.check_seconds)
        return max(0.0, due_at - now)

    def begin_check(self, now: float) -> None:
        """Record that a check of a stream begins."""
        self._checked_at = now
        self.checks += 1

    def found(self, finding: SilenceFinding, now: float) -> None:
        """Record the outcome of a check, which the other silent streams share."""
        if finding is SilenceFinding.NOTHING:
            return
        self._finding, self._found_at = finding, now
        self.timer.wake_all()


@final
class SilenceCheck:
    """Finds out whether one stream is stalled, when it has been silent for some time.

    Args:
        silence: the silent streams of the connection.
        stream: when the stream delivered something last.
        list_watch: the resource and the scope.
        progress: returns what the stream has delivered so far.
    """

    def __init__(
        self,
        silence: SilenceMonitor,
        stream: IdleTimer,
        list_watch: ListWatch,
        progress: Callable[[], StreamProgress],
    ) -> None:
        self._silence = silence
        self._stream = stream
        self._list_watch = list_watch
        self._progress = progress
        self._checked_events = progress().events
        self._finding = SilenceFinding.NOTHING
        self._is_due = anyio.Event()
        self._is_checking = False
        self._failure: Exception | None = None

    async def until_stalled(self) -> SilenceFinding:
        """Wait until the stream is known to be stalled.

        Cancellation:
            Safe; a second watch is closed.
        """
        silence = self._silence
        silence.turns[self] = None
        leave = silence.timer.join(self)
        try:
            while True:
                await self._is_due.wait()
                if self._failure is not None:
                    raise self._failure
                if self._finding is not SilenceFinding.NOTHING:
                    return self._finding
                self._is_due = anyio.Event()
                silence.found(await check_stream(self._list_watch, self._progress), loop_time())
                self._is_checking = False
                silence.timer.wake(self)
        finally:
            leave()
            del silence.turns[self]

    def step(self, now: float) -> float:
        """Begin a check that is due; return in how many seconds to call this again."""
        silence = self._silence
        if self._is_checking:
            return math.inf
        if (left_seconds := self._seconds_until_silent(now)) > SOON_SECONDS:
            return left_seconds
        self._finding = silence.latest(now)
        if self._finding is not SilenceFinding.NOTHING:
            self._is_due.set()
            return math.inf
        was_busy = self._was_busy
        seconds = silence.seconds_until_check(now, was_busy=was_busy)
        if seconds > SOON_SECONDS:
            return seconds
        checked = next(one for one in silence.turns if one._may_be_checked(now, was_busy=was_busy))  # noqa: SLF001 - of this class
        checked._begin(now)  # noqa: SLF001
        return math.inf if checked is self else silence.check_seconds

    @property
    def _was_busy(self) -> bool:
        """Whether the stream has delivered changes after its last check."""
        return self._progress().events > self._checked_events

    def _seconds_until_silent(self, now: float) -> float:
        return self._stream.progressed_at + self._silence.check_seconds - now

    def _may_be_checked(self, now: float, *, was_busy: bool) -> bool:
        """Return whether this may be checked in the place of another one; they take turns.

        Args:
            now: the loop's time.
            was_busy: only the silence of a stream that was busy means something now; else all
                streams are silent.
        """
        if self._is_checking:
            return False
        return not was_busy or (self._was_busy and self._seconds_until_silent(now) <= SOON_SECONDS)

    def fail(self, error: Exception) -> None:
        """Raise an error of `step` in the task that waits for this check."""
        self._failure = error
        self._is_due.set()

    def _begin(self, now: float) -> None:
        self._is_checking = True
        self._checked_events = self._progress().events
        silence = self._silence
        silence.begin_check(now)
        del silence.turns[self]
        silence.turns[self] = None  # it is the last one whose turn it is again
        self._is_due.set()


async def check_stream(
    list_watch: ListWatch, progress: Callable[[], StreamProgress]
) -> SilenceFinding:
    """Open a second watch at a stream's position, and compare what both deliver.

    Nothing but an event that the stream lacks is held against it.

    Args:
        list_watch: the resource and the scope.
        progress: returns what the stream has delivered so far.

    Cancellation:
        Safe; the second watch is closed.
    """
    before = progress()
    # That new connections fail says nothing about one that is open: names may not be resolved, a
    # gateway may have no place left, a firewall may let nothing new through.
    if await look_at(list_watch, before.position) is not Look.NEWS:
        return SilenceFinding.NOTHING
    await anyio.sleep(_CONFIRM_SECONDS)
    return SilenceFinding.STALLED if progress() == before else SilenceFinding.NOTHING


class Look(enum.Enum):
    """What a short second watch has shown."""

    NEWS = "it began with an event"
    CURRENT = "it had no event up to the version that was asked about"
    UNKNOWN = "it was refused, or brought neither"
    UNANSWERED = "it was not answered"


async def look_at(
    list_watch: ListWatch, position: str, version: str = "", *, same_server: bool = False
) -> Look:
    """Return what a second watch at a position shows: what it begins with is sent at once.

    Silence shows nothing: without a watch cache a server is silent, too, while its etcd is. Only
    a bookmark proves that there was no event before it. An event without a line end is one, whole
    or cut off: a server may put line ends between events.

    Args:
        list_watch: the resource and the scope.
        position: where it begins.
        version: wait for a bookmark of this version, or a later one.
        same_server: have the server of the list just before answer it, whose watch cache the list
            has brought up to date.

    Cancellation:
        Safe; the watch is closed.
    """
    found: list[Look] = []

    def on_line(data: bytes | bytearray, start: int, end: int) -> None:
        """Record an event; an ERROR shows nothing."""
        kind, source, begin, stop = read_frame(data, start, end)
        if kind != BOOKMARK:
            found.append(Look.NEWS if kind in {ADDED, MODIFIED, DELETED} else Look.UNKNOWN)
        elif version and reaches(read_bookmark(source, begin, stop).resource_version, version):
            found.append(Look.CURRENT)

    splitter = LineSplitter(
        on_line,
        max_line_bytes=_MAX_LINE_BYTES,
        what=f"watch {list_watch.resource}",
        on_oversized=lambda _head, _size: found.append(Look.NEWS),
    )
    seconds = _BOOKMARK_SECONDS if version else _LOOK_SECONDS
    look = Look.UNANSWERED
    try:
        with anyio.move_on_after(_OPEN_SECONDS) as scope:
            async with list_watch.watch(
                resource_version=position,
                timeout_seconds=seconds,
                same_server=same_server,
            ) as body:
                look = Look.UNKNOWN
                scope.deadline = loop_time() + seconds + _END_SECONDS
                while not found and (chunk := await body.read()):
                    splitter.feed(chunk)
                if not found and splitter.finish():
                    found.append(Look.NEWS)
    except APIStatusError:
        look = Look.UNKNOWN
    except InformerError:
        pass  # it may have begun with an event
    return found[0] if found else look
