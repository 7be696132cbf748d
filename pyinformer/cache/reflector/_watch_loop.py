"""The watches of a reflector: opened at the guard's position, read, replaced when they fall silent.

A stream that is silent for longer than bookmarks allow is replaced by a second one at the same
position, opened before the first is closed, so no event is missed and no relist is needed. If the
second stays silent too, the server's history is proven.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Generic, Literal, final

import anyio
import anyio.lowlevel
from msgspec import Struct

from pyinformer._runtime.tasks import loop_time
from pyinformer.cache.reflector._event_applier import EventApplier, StreamBroken
from pyinformer.cache.reflector._gateway_watch_opening import open_unless_mute
from pyinformer.cache.reflector._silent_watch_probe import (
    IdleTimer,
    SilenceCheck,
    SilenceFinding,
    StreamProgress,
)
from pyinformer.cache.reflector._stale_watch_check import StaleWatchCheck
from pyinformer.cache.reflector._watch_body_reader import read_body
from pyinformer.cache.reflector.lineage import check_is_asked_for
from pyinformer.cache.reflector.machine.steps import (
    Input,
    WatchBroken,
    WatchEnded,
    WatchFailed,
    WatchSilent,
    WatchStill,
)
from pyinformer.client.transport import (
    LEAST_BYTES_PER_SECOND,
    LineSplitter,
    ListSplitter,
    NetworkConnection,
)
from pyinformer.errors import InformerError, InternalError, RequestTimeoutError, TransportError
from pyinformer.objects import KubeObject, V

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from pyinformer._runtime.tasks import Turn
    from pyinformer.cache.reflector._age_proof import AgeProof
    from pyinformer.cache.reflector._options import ReflectorOptions
    from pyinformer.cache.reflector._reporting import AuditRequests, StateReporter
    from pyinformer.cache.reflector._request_budget import RequestBudget
    from pyinformer.cache.reflector._silent_watch_probe import SilenceMonitor
    from pyinformer.cache.reflector._sink import Sink
    from pyinformer.cache.reflector._tap import ReflectorTap
    from pyinformer.cache.reflector.guard import Guard
    from pyinformer.cache.reflector.lineage import QuorumLists
    from pyinformer.cache.reflector.machine import ReflectorMachine
    from pyinformer.client.transport import Body, ListWatch
    from pyinformer.errors import InvalidObjectError
    from pyinformer.objects import DiagnosticJournal, ObjectCodec

_MUTE_SECONDS = 15.0  # an overloaded kube-apiserver lets a request wait for that long
_LONG_LINE_SECONDS = 60.0  # with the 75 s of silence, etcd's 1.5 MiB arrive at 12 KiB/s
_CONTACT_SECONDS = 2.0  # a quiet watch that was open for that long was contact with the server
_EARLY_SECONDS = 5.0  # a watch that ends that much before its time was not ended by its timeout


@final
class Liveness(Struct):
    """What a reflector received last, and when; times are the loop's, None for never."""

    observed_resource_version: str = ""
    """The version up to which every change is in the sink."""
    last_event_at: float | None = None
    """When the last change arrived."""
    last_bookmark_at: float | None = None
    """When the last bookmark arrived."""
    last_proof_at: float | None = None
    """The instant whose state, or a later one, is cached: the first request of the last load, or a
    later list of one object, once the version that it names was reached. What arrives proves
    nothing: it may have been on its way for minutes."""
    last_contact_at: float | None = None
    """When a load was complete, or a watch that had worked ended."""
    takeovers: int = 0
    """How often a stream fell silent and a second one took its place."""

    @property
    def last_arrival_at(self) -> float | None:
        """When the last change or bookmark arrived."""
        both = (self.last_event_at, self.last_bookmark_at)
        return max((at for at in both if at is not None), default=None)


@final
class WatchLoop(Generic[V]):
    """Opens and reads the watches of one reflector.

    Args:
        list_watch: the resource and the scope.
        codec: decodes the objects.
        guard: judges the events.
        sink: receives the events that are applied.
        options: when a stream counts as silent.
        request_budget: limits new connections.
        machine: is notified when a watch is accepted, and when it delivers something.
        reporter: reports the state that changes by that.
        audits: is asked for a comparison when an object cannot be identified.
        journal: where rare events are written.
        age_proof: as of when the sink has what the server has.
        trips: the lists of the connection that renew it.
        turn: ended when all that arrived at once is applied.
    """

    def __init__(
        self,
        list_watch: ListWatch,
        codec: ObjectCodec[V],
        guard: Guard,
        sink: Sink[V],
        options: ReflectorOptions,
        *,
        request_budget: RequestBudget,
        machine: ReflectorMachine,
        reporter: StateReporter,
        audits: AuditRequests,
        journal: DiagnosticJournal,
        age_proof: AgeProof,
        trips: QuorumLists,
        turn: Turn,
    ) -> None:
        self.liveness: Liveness = Liveness()
        """What arrived last."""
        self._list_watch = list_watch
        self._codec = codec
        self._guard = guard
        self._sink = sink
        self.options: ReflectorOptions = options
        """The settings of the next watch."""
        self._request_budget = request_budget
        self._machine = machine
        self._reporter = reporter
        self._audits = audits
        self._journal = journal
        self._age_check = StaleWatchCheck(
            list_watch,
            age_proof,
            trips,
            machine=machine,
            request_budget=request_budget,
            arrivals=self.liveness,
            on_followed=self._on_followed,
        )
        self._turn = turn
        self._now = loop_time
        self._followed = _Followed(self.applier())
        self._tap: ReflectorTap | None = None
        self._stream: tuple[Body, LineSplitter, EventApplier[V]] | None = None

    def use_tap(self, tap: ReflectorTap | None) -> None:
        """Report to a recorder from now on, also about the watch that is open; None ends it."""
        self._tap = tap
        if tap is not None and self._stream is not None:
            tap.on_follow(*self._stream, ())

    def open(self, *, initial: bool = False) -> AbstractAsyncContextManager[Body]:
        """Return a watch at the guard's position, or a watch-list of everything."""
        low, high = self.options.watch_timeout_seconds
        self._timeout_seconds = self.options.rng.uniform(low, high)
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
        await self._request_budget.attempt()
        async with AsyncExitStack() as stack:
            body = await self._opened(stack)
            self._machine.connected()
            self._reporter.changed()
            return await self.follow(stack.pop_all(), body, self._splitter(), [])

    async def _opened(self, stack: AsyncExitStack) -> Body:
        """Open a watch at the guard's position.

        Raises:
            RequestTimeoutError: the server does not answer it, and answers lists.
            InformerError: it was not accepted.
        """
        list_watch = self._list_watch
        began_at = self._now()
        body = await open_unless_mute(stack, self.open(), list_watch, idle_seconds=_MUTE_SECONDS)
        if body is None:
            self._machine.list_answered()
            url = list_watch.connection.config.server + list_watch.path
            reason = "the server does not answer the watch, and answers lists"
            raise RequestTimeoutError(url, reason, waited_seconds=self._now() - began_at)
        return body

    async def follow(
        self, stack: AsyncExitStack, body: Body, splitter: LineSplitter, rest: list[bytes]
    ) -> Input:
        """Follow a watch, and the watches that replace it, to the end of the last one.

        Args:
            stack: holds the watch open; it is closed here.
            body: the watch.
            splitter: may hold the start of a line.
            rest: lines that have arrived already.

        Cancellation:
            Safe; the connection is closed.
        """
        began_at = self._now()
        try:
            ended = await self._follow_one(body, splitter, rest)
            silent = 0
            while isinstance(ended, WatchSilent):
                silent = 1 if self._has_received_since(began_at) else silent + 1
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

    def _has_received_since(self, began_at: float) -> bool:
        arrived_at = self.liveness.last_arrival_at
        return arrived_at is not None and arrived_at > began_at

    async def _replace(self, stack: AsyncExitStack) -> tuple[AsyncExitStack, Body]:
        """Open a second watch before the first is closed."""
        async with AsyncExitStack() as made:
            await self._request_budget.attempt()
            body = await self._opened(made)
            await stack.aclose()
            self.liveness.takeovers += 1
            self._guard.counts.add("watch_takeovers", "silent")
            return made.pop_all(), body

    def _splitter(self) -> LineSplitter:
        limit = self.options.max_object_bytes
        what = f"watch {self._codec.resource}"
        return LineSplitter(_refuse_line, max_line_bytes=limit, what=what)

    def applier(self) -> EventApplier[V]:
        """Return what applies the lines of one watch."""
        return EventApplier(
            self._codec,
            self._guard,
            self._sink,
            selective=self._list_watch.is_selective,
            uid_range=self._list_watch.uid_range,
            on_skipped=self._on_skipped,
            turn=self._turn,
        )

    def totals(self) -> StreamTotals:
        """Return what all watches have brought so far; from any thread."""
        return self._followed.totals()

    def _on_skipped(self, error: InvalidObjectError) -> None:
        self._audits.event_skipped(error, self._now())

    async def _follow_one(self, body: Body, splitter: LineSplitter, rest: list[bytes]) -> Input:
        applier = self.applier()
        self._followed = _Followed(applier, body, body.received_bytes, self._followed.totals())
        splitter.redirect(applier.on_line, applier.on_oversized)
        self._begin_following(body, splitter, applier, rest)
        self._guard.connected()
        started, requested_seconds = self._now(), self._timeout_seconds
        end: Literal["ended", "closed", "failed"] = "closed"
        failure: InformerError | None = None
        silent_seconds = 0.0
        try:
            for line in rest:
                applier.on_line(line, 0, len(line))
            self._turn.end()
            if silent_seconds := await self._read(body, splitter, applier):
                return WatchSilent(silent_seconds)
            end = "ended"
        except _StreamStill as still:
            return WatchStill(still.is_certain)
        except StreamBroken as broken:
            return WatchBroken(broken.breach, broken.error, broken.digest, broken.verify)
        except InformerError as error:
            end, failure = "failed", error
            lasted = self._now() - started
            return WatchFailed(error, established=applier.frames > 0, seconds=lasted)
        finally:
            self._turn.end()  # likewise, of what came with the headers
            self._stream = None
            if applier.frames or self._now() - started >= _CONTACT_SECONDS:
                self.liveness.last_contact_at = self._now() - silent_seconds
            lasted = self._now() - started
            if self._tap is not None:
                self._tap.on_left(end, failure)
        lasted = self._now() - started
        is_early = lasted < requested_seconds - _EARLY_SECONDS
        return WatchEnded(applier.frames, lasted, early=is_early)

    def _begin_following(
        self, body: Body, splitter: LineSplitter, applier: EventApplier[V], rest: list[bytes]
    ) -> None:
        self._stream = body, splitter, applier
        if self._tap is not None:
            self._tap.on_follow(body, splitter, applier, rest)

    async def _read(self, body: Body, splitter: LineSplitter, applier: EventApplier[V]) -> float:
        """Read a watch to its end; return for how long it was silent, if that ended it."""
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            stream = _SupervisedStream(
                self._list_watch,
                self._guard,
                splitter,
                applier,
                scope=group.cancel_scope,
                silence_seconds=self.options.silence_seconds,
                silence=self._request_budget.silence,
            )
            if stream.can_be_checked:
                group.start_soon(stream.cancel_when_doubtful)
            if stream.can_be_compared:
                group.start_soon(stream.cancel_when_still, self._age_check)
            try:
                on_turn = self._on_turn(applier, stream.idle)
                await read_body(body, splitter, on_turn)
                self._finish(splitter, on_turn)
                stream.has_ended = True
            except Exception as error:  # noqa: BLE001 - the group would wrap it
                failure = error
            finally:
                stream.stop()
                self._turn.end()  # it is open if a line could not be applied
        if failure is not None:
            raise failure
        return stream.silent_seconds()

    def _finish(self, splitter: LineSplitter, on_turn: Callable[[], bool]) -> None:
        """Apply the last line of a body that has ended, which may lack its line end."""
        if not splitter.unfinished_bytes:
            return
        left = splitter.finish()
        on_turn()
        if left:
            list_watch = self._list_watch
            url = list_watch.connection.config.server + list_watch.path
            raise TransportError(url, f"the watch ended within a line, after {left} bytes of it")

    def _on_followed(self) -> None:
        if self._machine.followed():
            self._reporter.changed()

    def _on_turn(self, applier: EventApplier[V], idle: IdleTimer) -> Callable[[], bool]:
        """Return what records that something arrived; only whole events and bookmarks count."""
        liveness, clock = self.liveness, asyncio.get_running_loop().time
        turn, calls = self._turn, self._turn.calls
        progressed, bookmarks, events = False, 0, 0

        def on_turn() -> bool:
            nonlocal progressed, bookmarks, events
            now = clock()
            arrived = applier.modified + applier.added + applier.deleted + applier.skipped
            if applier.bookmarks != bookmarks:
                bookmarks = applier.bookmarks
                liveness.last_bookmark_at = now
            elif arrived != events:
                liveness.last_event_at = now
            else:
                turn.end()
                return True
            events = arrived
            idle.progressed_at = now
            if not progressed and applier.frames:
                progressed = True
                if self._machine.progressed():
                    self._reporter.changed()
            turn.is_open = False
            if calls:  # nothing waits for the end of most turns of a controller's watch
                turn.end()
            return True

        return on_turn

    async def verify(self, key: str) -> None:
        """List one key and apply the answer like an event.

        Raises:
            InformerError: the server refused or could not be reached.

        Cancellation:
            Safe; nothing was applied.
        """
        found: list[KubeObject[V]] = []
        only = self._list_watch.only(key)

        def take(obj: KubeObject[V]) -> None:
            """Keep the one object; a server that lists others may list them without an end."""
            check_is_asked_for(only, (obj.key,))
            found[:] = [obj]

        splitter = ListSplitter(
            lambda data, start, end: take(self._codec.decode(data, start, end)),
            what=f"list {self._codec.resource}",
            verify=False,
            max_item_bytes=self.options.max_object_bytes,
            on_oversized=lambda head, size: take(self._codec.decode_head(head, size)),
        )
        async with only.list() as body:
            while chunk := await body.read():
                splitter.feed(chunk)
                await anyio.lowlevel.checkpoint_if_cancelled()
        version = splitter.finish().resource_version
        self.applier().on_verified(key, found[0] if found else None, version)
        self._journal.note(f"{key} was listed by itself, at {version}")


@final
class StreamTotals(Struct, frozen=True):
    """What the watches of a reflector have brought, in sum."""

    added: int = 0
    modified: int = 0
    deleted: int = 0
    bookmarks: int = 0
    received_bytes: int = 0


@final
class _Followed(Generic[V]):
    """The newest watch and what those before it brought.

    It is replaced as a whole when a watch has ended and the next one begins, so that sums that are
    read on another thread never go back.

    Args:
        applier: counts the events of the newest watch.
        body: that watch; None before the first.
        offset_bytes: how much of the body had arrived before it was a watch.
        before: what the watches before it brought.
    """

    __slots__ = ("_applier", "_before", "_body", "_offset_bytes")

    def __init__(
        self,
        applier: EventApplier[V],
        body: Body | None = None,
        offset_bytes: int = 0,
        before: StreamTotals = StreamTotals(),  # noqa: B008 - immutable
    ) -> None:
        self._applier = applier
        self._body = body
        self._offset_bytes = offset_bytes
        self._before = before

    def totals(self) -> StreamTotals:
        """Return the sums."""
        applier, body, before = self._applier, self._body, self._before
        received = 0 if body is None else body.received_bytes - self._offset_bytes
        return StreamTotals(
            before.added + applier.added,
            before.modified + applier.modified,
            before.deleted + applier.deleted,
            before.bookmarks + applier.bookmarks,
            before.received_bytes + received,
        )


@final
class _StreamStill(Exception):  # noqa: N818 - control flow within this module
    """A watch that does not follow what lists show."""

    def __init__(self, *, is_certain: bool) -> None:
        super().__init__()
        self.is_certain = is_certain


@final
class _SupervisedStream(Generic[V]):
    """One watch while it is read: an idle timer and a second watch find out whether it is stalled.

    Args:
        list_watch: the resource and the scope.
        guard: has the position of the stream.
        splitter: knows how much of an unfinished line has arrived.
        applier: counts what has arrived.
        scope: is cancelled when the stream is stalled, or silent for too long.
        silence_seconds: when a stream counts as silent.
        silence: the silent streams of the connection.
    """

    def __init__(
        self,
        list_watch: ListWatch,
        guard: Guard,
        splitter: LineSplitter,
        applier: EventApplier[V],
        *,
        scope: anyio.CancelScope,
        silence_seconds: float,
        silence: SilenceMonitor,
    ) -> None:
        self.has_ended: bool = False
        """Whether the body was read to its end."""
        # A long line that arrives at a normal rate is not silence; single bytes are.
        # The grace is limited: otherwise a line without an end would hide a stalled stream.
        self.idle: IdleTimer = IdleTimer(silence_seconds, scope.cancel, grace=self._grace_seconds)
        """Cancels the scope when nothing has arrived for too long."""
        is_network = isinstance(list_watch.connection, NetworkConnection)
        self.can_be_checked: bool = is_network and silence_seconds < math.inf
        """Whether a second watch can show that this one is stalled."""
        self.can_be_compared: bool = is_network and guard.order == "global"
        """Whether the versions of lists show how old what is cached is."""
        self._scope = scope
        self._list_watch = list_watch
        self._guard = guard
        self._is_certain = False
        self._silence = silence
        self._leave = silence.join(self.idle)
        self._splitter = splitter
        self._applier = applier
        self._finding = SilenceFinding.NOTHING

    def stop(self) -> None:
        """Stop the timer and the task that doubts the stream."""
        self._leave()
        self.idle.cancel()
        self._scope.cancel()

    def _grace_seconds(self) -> float:
        return min(_LONG_LINE_SECONDS, self._splitter.unfinished_bytes / LEAST_BYTES_PER_SECOND)

    async def cancel_when_doubtful(self) -> None:
        """End the reading when the stream is known to be stalled.

        Cancellation:
            Safe; a second watch is closed.
        """
        check = SilenceCheck(self._silence, self.idle, self._list_watch, self.progress)
        self._finding = await check.until_stalled()
        self._scope.cancel()

    async def cancel_when_still(self, check: StaleWatchCheck) -> None:
        """Renew the age of the cache; end the reading when the watch does not follow lists.

        Cancellation:
            Safe; what was asked of the server is dropped.
        """
        self._finding = await check.until_still(self.progress)
        self._is_certain = check.is_certain
        self._scope.cancel()

    def progress(self) -> StreamProgress:
        """Return what the stream has delivered so far."""
        applier = self._applier
        return StreamProgress(
            applier.events + applier.skipped,
            applier.bookmarks,
            self._guard.position,
            self._splitter.unfinished_bytes,
        )

    def silent_seconds(self) -> float:
        """Return for how long the stream was silent when that ended it; 0 if its body has ended.

        Raises:
            _StreamStill: the stream does not follow what lists show.
        """
        if self._finding is SilenceFinding.STILL:  # also if the body has ended meanwhile
            raise _StreamStill(is_certain=self._is_certain)
        return 0.0 if self.has_ended else loop_time() - self.idle.progressed_at


def _refuse_line(data: bytes | bytearray, start: int, end: int) -> None:
    """Refuse a line that arrives before the splitter is redirected: there is none."""
    raise InternalError(f"a line of {end - start} of {len(data)} bytes at {start} has no reader")
