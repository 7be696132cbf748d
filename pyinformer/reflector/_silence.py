"""Streams that are silent before bookmarks are due: does the server have news for them?

The reflectors of one cluster connection share the answer. A second watch at a stream's position
shows in a moment what the stream has not delivered; an HTTP/1.1 peer cannot be asked on the stream
itself. There is at most one such check in 30 s, and none while nothing suggests a stall.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, final

import anyio
from msgspec import Struct

from pyinformer.apimachinery import APIStatusError, InformerError
from pyinformer.transport import ADDED, DELETED, MODIFIED, NetworkConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.reflector._idle import IdleTimer
    from pyinformer.transport import ListWatch

_OPEN_SECONDS: Final = 2.5
_NEWS_SECONDS: Final = 1.5  # a server sends what has happened before anything else
_CONFIRM_SECONDS: Final = 1.0  # what happened just now reaches both streams
_ANSWER_SECONDS: Final = 2.5  # with the above: a server that does not answer is known after 5 s
_NEWS: Final = tuple(b'{"type":"%s"' % kind.encode() for kind in (ADDED, MODIFIED, DELETED))


class Finding(enum.Enum):
    """What a check has shown."""

    NOTHING = "nothing"
    STALLED = "a second watch delivered what the first had not"
    LOST = "the server answers neither on the stream nor on new connections"


@final
class Progress(Struct, frozen=True):
    """How far a stream is."""

    events: int
    """How many changes it has delivered."""
    bookmarks: int
    position: str
    unfinished_bytes: int
    """What has arrived of a line whose end has not."""


@final
class Silence:
    """What the reflectors of one cluster connection know about silent streams.

    Args:
        check_seconds: how long a stream is silent before it is checked, and how long there is no
            other check.
    """

    def __init__(self, check_seconds: float) -> None:
        self.check_seconds = check_seconds
        self._streams: set[IdleTimer] = set()
        self._checked_at = self._found_at = float("-inf")
        self._finding = Finding.NOTHING
        self._found = anyio.Event()
        self.checks: int = 0
        """How many there were."""

    def join(self, stream: IdleTimer) -> Callable[[], None]:
        """Count a stream in; what is returned counts it out."""
        self._streams.add(stream)
        return lambda: self._streams.discard(stream)

    def latest(self, now: float) -> Finding:
        """Return what was found within the time of one check; it holds for all silent streams."""
        return self._finding if now - self._found_at <= self.check_seconds else Finding.NOTHING

    def seconds_until_check(self, now: float, *, was_busy: bool) -> float:
        """Return when a silent stream may be checked.

        Args:
            now: the loop's time.
            was_busy: it has delivered changes since its last check. If not, its silence says
                nothing, unless all streams of the connection are as silent.
        """
        due_at = self._checked_at + self.check_seconds
        if not was_busy:
            heard_at = max((stream.progressed_at for stream in self._streams), default=now)
            due_at = max(due_at, heard_at + self.check_seconds)
        return max(0.0, due_at - now)

    def begin_check(self, now: float) -> None:
        """Record that a stream is being checked."""
        self._checked_at = now
        self.checks += 1

    def found(self, finding: Finding, now: float) -> None:
        """Record what a check has shown, and wake the reflectors of other silent streams."""
        if finding is Finding.NOTHING:
            return
        self._finding, self._found_at = finding, now
        self._found.set()
        self._found = anyio.Event()

    async def wait(self, seconds: float) -> None:
        """Wait for a time, or until something is found.

        Cancellation:
            Safe.
        """
        with anyio.move_on_after(seconds):
            await self._found.wait()


async def until_doubtful(
    silence: Silence,
    stream: IdleTimer,
    list_watch: ListWatch,
    progress: Callable[[], Progress],
) -> Finding:
    """Wait until a stream is known to be stalled or its server to be lost.

    Args:
        silence: what the connection knows.
        stream: when the stream delivered something last.
        list_watch: the resource and the scope.
        progress: returns how far the stream is.

    Cancellation:
        Safe; a second watch is closed.
    """
    now = anyio.current_time
    checked_events = progress().events
    while True:
        silent_seconds = now() - stream.progressed_at
        if silent_seconds < silence.check_seconds:
            await anyio.sleep(silence.check_seconds - silent_seconds)
            continue
        finding = silence.latest(now())
        if finding is not Finding.NOTHING:
            return finding
        events = progress().events
        was_busy = events > checked_events
        if seconds := silence.seconds_until_check(now(), was_busy=was_busy):
            await silence.wait(seconds)
            continue
        checked_events = events
        silence.begin_check(now())
        silence.found(await check(list_watch, progress), now())


async def check(list_watch: ListWatch, progress: Callable[[], Progress]) -> Finding:
    """Open a second watch at a stream's position, and see whether it has news.

    Args:
        list_watch: the resource and the scope.
        progress: returns how far the stream is.

    Cancellation:
        Safe; the second watch is closed.
    """
    before, answered, data = progress(), False, b""
    try:
        with anyio.move_on_after(_OPEN_SECONDS) as opening:
            async with list_watch.watch(
                resource_version=before.position, timeout_seconds=_OPEN_SECONDS + _NEWS_SECONDS
            ) as body:
                answered = True
                opening.deadline = anyio.current_time() + _NEWS_SECONDS
                data = await body.read()
    except APIStatusError:
        answered = True
    except InformerError:
        pass
    wire = list_watch.connection
    if not answered and isinstance(wire, NetworkConnection):
        answers = await wire.probe(_ANSWER_SECONDS)
        is_lost = not answers and progress() == before
        return Finding.LOST if is_lost else Finding.NOTHING
    if not data.startswith(_NEWS):
        return Finding.NOTHING
    await anyio.sleep(_CONFIRM_SECONDS)
    return Finding.STALLED if progress() == before else Finding.NOTHING
