"""One watch after another at the guard's position: opened, read, replaced when it goes silent.

What enters is where the guard stands; what leaves is how a watch ended. A stream that is silent
longer than bookmarks promise is replaced by a second one at the same position, made before the
first is broken: nothing is missed and nothing listed. If that is silent too, somebody has to ask.
"""

from __future__ import annotations

import math
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Generic, final

import anyio
import anyio.lowlevel

from pyinformer.apimachinery import (
    APIStatusError,
    InformerError,
    InternalError,
    InvalidObjectError,
    KubeObject,
    RequestTimeoutError,
    V,
)
from pyinformer.reflector._follower import Follower
from pyinformer.reflector._frames import StreamBroken
from pyinformer.reflector._idle import IdleTimer
from pyinformer.reflector._proof import check_is_asked_for
from pyinformer.reflector._reading import read_body
from pyinformer.reflector._silence import Finding, Progress, until_doubtful
from pyinformer.reflector._state import (
    Input,
    WatchBroken,
    WatchEnded,
    WatchFailed,
    WatchSilent,
)
from pyinformer.transport import (
    LEAST_BYTES_PER_SECOND,
    LineSplitter,
    ListSplitter,
    NetworkConnection,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from pyinformer.apimachinery import Journal, ObjectCodec
    from pyinformer.reflector._admission import Admission
    from pyinformer.reflector._guard import Guard
    from pyinformer.reflector._liveness import Liveness
    from pyinformer.reflector._options import ReflectorOptions
    from pyinformer.reflector._sink import Sink
    from pyinformer.transport import Body, ListWatch

_LONG_LINE_SECONDS = 60.0  # with the 75 s of silence, etcd's 1.5 MiB arrive at 12 KiB/s
_EARLY_SECONDS = 5.0  # a watch that ends so much before its time was ended by something else


@final
class Watching(Generic[V]):
    """Reads the watches of one reflector.

    Args:
        list_watch: the resource and the scope.
        codec: decodes the objects.
        guard: judges the events.
        sink: takes what is judged good.
        options: how long to be patient.
        admission: the budget for connections.
        liveness: is kept up to date.
        journal: hears of what is rare.
        on_connected: is called when the server has accepted a watch.
        on_progress: is called when a watch has delivered something for the first time.
        on_skipped: is given the error of each object of a watch that cannot be identified.
    """

    def __init__(
        self,
        list_watch: ListWatch,
        codec: ObjectCodec[V],
        guard: Guard,
        sink: Sink[V],
        *,
        options: ReflectorOptions,
        admission: Admission,
        liveness: Liveness,
        journal: Journal,
        on_connected: Callable[[], None],
        on_progress: Callable[[], None],
        on_skipped: Callable[[InvalidObjectError], None],
    ) -> None:
        self._list_watch = list_watch
        self._codec = codec
        self._guard = guard
        self._sink = sink
        self._options = options
        self._admission = admission
        self._liveness = liveness
        self._journal = journal
        self._on_connected = on_connected
        self._on_skipped = on_skipped
        self._on_progress = on_progress
        self._now = anyio.current_time

    def open(self, *, initial: bool = False) -> AbstractAsyncContextManager[Body]:
        """Return a watch at the guard's position, or a watch-list of everything."""
        low, high = self._options.watch_timeout_seconds
        self._timeout_seconds = self._options.rng.uniform(low, high)
        return self._list_watch.watch(
            resource_version="" if initial else self._guard.resume_position,
            timeout_seconds=self._timeout_seconds,
            send_initial_events=initial,
        )

    async def watch(self) -> Input:
        """Open a watch at the guard's position and follow it to its end.

        Raises:
            InformerError: it was not accepted.

        Cancellation:
            Safe; the connection is closed.
        """
        await self._admission.attempt()
        async with AsyncExitStack() as stack:
            body = await stack.enter_async_context(self.open())
            self._on_connected()
            return await self.follow(stack.pop_all(), body, self._splitter(), [])

    async def follow(
        self, stack: AsyncExitStack, body: Body, splitter: LineSplitter, rest: list[bytes]
    ) -> Input:
        """Follow a watch, and those that take its place, to the end of the last of them.

        Args:
            stack: what holds the watch open; it is closed here.
            body: the watch.
            splitter: has the start of a line in it, perhaps.
            rest: lines that have arrived already.

        Cancellation:
            Safe; the connection is closed.
        """
        began_at = self._now()
        try:
            ended = await self._follow_one(body, splitter, rest)
            silent = 0
            while isinstance(ended, WatchSilent):
                silent = 1 if self._liveness_since(began_at) else silent + 1
                if silent > 1:
                    self._journal.note(f"two watches were silent for {ended.seconds:.0f} s each")
                    return ended
                self._journal.note(f"the watch was silent for {ended.seconds:.0f} s: a second one")
                began_at = self._now()
                stack, body = await self._replace(stack)
                ended = await self._follow_one(body, self._splitter(), [])
            return ended
        except InformerError as error:  # the second watch was not accepted
            return WatchFailed(error, established=False)
        finally:
            await stack.aclose()

    async def _replace(self, stack: AsyncExitStack) -> tuple[AsyncExitStack, Body]:
        """Open a second watch before the first is closed."""
        async with AsyncExitStack() as made:
            await self._admission.attempt()
            body = await made.enter_async_context(self.open())
            await stack.aclose()
            self._liveness.takeovers += 1
            self._guard.count("watch_takeovers", "silent", label="reason")
            return made.pop_all(), body

    def _liveness_since(self, began_at: float) -> bool:
        heard = (self._liveness.last_event_at, self._liveness.last_bookmark_at)
        return any(at is not None and at > began_at for at in heard)

    def _splitter(self) -> LineSplitter:
        limit = self._options.max_object_bytes
        what = f"watch {self._codec.resource}"
        return LineSplitter(_nowhere, max_line_bytes=limit, what=what)

    def follower(self) -> Follower[V]:
        """Return what applies the lines of one watch."""
        return Follower(
            self._codec,
            self._guard,
            self._sink,
            selective=self._list_watch.is_selective,
            on_skipped=self._on_skipped,
        )

    async def _follow_one(self, body: Body, splitter: LineSplitter, rest: list[bytes]) -> Input:
        follower = self.follower()
        splitter.redirect(follower.on_line, follower.on_oversized)
        self._guard.connected()
        started, asked_for = self._now(), self._timeout_seconds
        try:
            for line in rest:
                follower.on_line(line, 0, len(line))
            if silent_seconds := await self._read(body, splitter, follower):
                return WatchSilent(silent_seconds)
        except StreamBroken as broken:
            return WatchBroken(broken.breach, broken.error, broken.digest, broken.verify)
        except InformerError as error:
            if isinstance(error, APIStatusError):
                self._guard.count("watch_errors", str(error.status), label="code")
            lasted = self._now() - started
            return WatchFailed(error, established=follower.frames > 0, seconds=lasted)
        lasted = self._now() - started
        return WatchEnded(follower.frames, lasted, early=lasted < asked_for - _EARLY_SECONDS)

    async def _read(self, body: Body, splitter: LineSplitter, follower: Follower[V]) -> float:
        """Read a watch to its end; return for how long it was silent, if that ended it."""
        failure: Exception | None = None
        is_read, finding = False, Finding.NOTHING

        async def doubt() -> None:
            """End the reading when the stream is known to be stalled, or its server to be lost."""
            nonlocal finding
            finding = await until_doubtful(
                self._admission.silence,
                idle,
                self._list_watch,
                lambda: Progress(
                    follower.events + follower.skipped,
                    follower.bookmarks,
                    self._guard.position,
                    splitter.unfinished_bytes,
                ),
            )
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            # A long line that arrives at an honest rate is not silence; a byte now and then is.
            # The grace is limited: otherwise a line without an end hides a stalled stream.
            idle = IdleTimer(
                self._options.silence_seconds,
                group.cancel_scope.cancel,
                grace=lambda: min(
                    _LONG_LINE_SECONDS, splitter.unfinished_bytes / LEAST_BYTES_PER_SECOND
                ),
            )
            leave = self._admission.silence.join(idle)
            is_over_a_network = isinstance(self._list_watch.connection, NetworkConnection)
            if is_over_a_network and self._options.silence_seconds < math.inf:
                group.start_soon(doubt)
            try:
                await read_body(body, splitter, self._on_turn(follower, idle))
                is_read = True
            except Exception as error:  # noqa: BLE001 - the group would wrap it
                failure = error
            finally:
                leave()
                idle.cancel()
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if is_read:
            return 0.0
        silent_seconds = self._now() - idle.progressed_at
        if finding is Finding.LOST:
            reason = f"silent for {silent_seconds:.0f} s, and new connections get no answer"
            url = self._list_watch.connection.config.server + self._list_watch.path
            raise RequestTimeoutError(url, reason, waited_seconds=silent_seconds)
        return silent_seconds

    def _on_turn(self, follower: Follower[V], idle: IdleTimer) -> Callable[[float], bool]:
        """Return what records that something arrived; only whole events and bookmarks count."""
        liveness = self._liveness
        progressed, bookmarks, events = False, 0, 0

        def on_turn(now: float) -> bool:
            nonlocal progressed, bookmarks, events
            if follower.bookmarks != bookmarks:
                bookmarks = follower.bookmarks
                liveness.last_bookmark_at = now
            elif follower.events + follower.skipped != events:
                liveness.last_event_at = now
            else:
                return True
            events = follower.events + follower.skipped
            idle.progressed_at = now
            if not progressed and follower.frames:
                progressed = True
                self._on_progress()
            return True

        return on_turn

    async def verify(self, key: str) -> None:
        """Look at one key afresh and take the answer over like an event.

        Raises:
            InformerError: the server refused or could not be reached.

        Cancellation:
            Safe; nothing was taken over.
        """
        found: list[KubeObject[V]] = []
        only = self._list_watch.only(key)

        def take(obj: KubeObject[V]) -> None:
            """Take the one object; a server that shows others may show them without end."""
            check_is_asked_for(only, (obj.key,))
            found[:] = [obj]

        def on_item(data: bytes, start: int, end: int) -> None:
            """Take an object."""
            take(self._codec.decode(data, start, end))

        def on_oversized(head: bytes, size_bytes: int) -> None:
            """Take as much of an object as can be known by its head."""
            take(self._codec.decode_head(head, size_bytes))

        splitter = ListSplitter(
            on_item,
            what=f"list {self._codec.resource}",
            verify=False,
            max_item_bytes=self._options.max_object_bytes,
            on_oversized=on_oversized,
        )
        async with only.list() as body:
            while chunk := await body.read():
                splitter.feed(chunk)
                await anyio.lowlevel.checkpoint_if_cancelled()
        version = splitter.finish().resource_version
        self.follower().on_verified(key, found[0] if found else None, version)
        self._journal.note(f"{key} was looked at afresh, at {version}")


def _nowhere(data: bytes | bytearray, start: int, end: int) -> None:
    """Take a line that arrives before anybody follows the watch: there is none."""
    raise InternalError(f"a line of {end - start} of {len(data)} bytes at {start} has no reader")
