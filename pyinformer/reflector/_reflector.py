"""The reflector: it keeps a sink in step with one resource of a server.

What it does next is decided by the machine, what an event may do by the guard; this shell performs
the machine's commands, waits, and reports how they ended. It ends only by cancellation.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, cast, final

import anyio
from anyio import TASK_STATUS_IGNORED

from pyinformer.apimachinery import (
    APIStatusError,
    ExponentialBackoff,
    InformerError,
    InternalError,
    LineTooLongError,
    ObjectCodec,
    Transform,
    V,
    View,
    check_view,
)
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.reflector._budget import TimeBudget
from pyinformer.reflector._follower import Follower
from pyinformer.reflector._frames import StreamBroken
from pyinformer.reflector._guard import Guard, GuardStatistics
from pyinformer.reflector._loader import Loader
from pyinformer.reflector._machine import ReflectorMachine
from pyinformer.reflector._options import ReflectorOptions
from pyinformer.reflector._state import (
    Breach,
    Command,
    Halt,
    Input,
    Load,
    Loaded,
    LoadFailed,
    LoadMode,
    ReflectorState,
    Sleep,
    Watch,
    WatchBroken,
    WatchEnded,
    WatchFailed,
    Woke,
)
from pyinformer.reflector._watch_list_memory import WatchListMemory
from pyinformer.transport import LineSplitter

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskStatus

    from pyinformer.reflector._sink import Sink
    from pyinformer.transport import Body, ListWatch

_log = logging.getLogger(__name__)

_CUT_OFF_ATTEMPTS = 3  # after some three seconds: a server that restarts is heard of, a blip is not


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorStatus:
    """Where a reflector stands."""

    state: ReflectorState
    reason: str
    """Why it is in this state; empty while all is well."""
    attempts: int
    """Failed attempts since the last success."""
    last_error: str | None
    loads: int
    """Complete lists and watch-lists so far."""
    guard: GuardStatistics


@final
class Reflector(Generic[V]):
    """Keeps a sink in step with one resource.

    Args:
        list_watch: the resource and the scope, and the server that has it.
        sink: takes what is learned: a store, a RealFIFO, a DeltaFIFO.
        projection: the view to decode with each object.
        strip_managed_fields: leave `metadata.managedFields` out of what the sink gets.
        transform: the user's change to each object.
        options: how the server is talked to.
        watch_list_memory: shared by the reflectors of one connection.
        metrics: where occurrences are counted.
        on_change: called after each change of state, on the loop.

    Source:
        client-go tools/cache/reflector.go.
    """

    def __init__(
        self,
        list_watch: ListWatch,
        sink: Sink[V],
        *,
        projection: type[V] | None = None,
        strip_managed_fields: bool = True,
        transform: Transform | None = None,
        options: ReflectorOptions | None = None,
        watch_list_memory: WatchListMemory | None = None,
        metrics: Metrics = NO_METRICS,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        if projection is not None:
            check_view(cast("type[View]", projection))
        resource = list_watch.resource
        self._list_watch = list_watch
        self._sink = sink
        self._options = options or ReflectorOptions()
        self._on_change = on_change
        self._now: Callable[[], float] = float  # the loop's, once it runs
        # Events expire together: etcd deletes all keys of a lease in one revision.
        expiring = resource.resource == "events" and resource.group in {"", "events.k8s.io"}
        self._guard = guard = Guard(metrics=metrics, resource=str(resource), resume_before=expiring)
        self._codec: ObjectCodec[V] = ObjectCodec(
            resource,
            view=projection,
            strip_managed_fields=strip_managed_fields,
            transform=transform,
            on_problem=lambda _: guard.count("undecodable", "kept"),
        )
        self._machine = ReflectorMachine(
            backoff=ExponentialBackoff(rng=self._options.rng),
            watch_list=watch_list_memory or WatchListMemory(),
            use_watch_list=self._options.use_watch_list,
        )
        self._is_cut_off = False
        self._loader = Loader(list_watch, self._codec, self._guard, sink, self._options)

    @property
    def state(self) -> ReflectorState:
        """What it does at this moment."""
        return self._machine.state

    @property
    def position(self) -> str:
        """The resource version up to which every change is in the sink; empty at first."""
        return self._guard.position

    @property
    def epoch(self) -> int:
        """How often the server's history turned out not to be the one that was followed."""
        return self._guard.epoch

    def has_buried(self, key: str, uid: str) -> bool:
        """Tell whether a deletion of this object was applied, as far as is remembered."""
        return self._guard.has_buried(key, uid)

    def status(self) -> ReflectorStatus:
        """Return where it stands."""
        machine = self._machine
        error = machine.last_error
        return ReflectorStatus(
            state=machine.state,
            reason=machine.reason,
            attempts=machine.attempts,
            last_error=None if error is None else str(error),
            loads=machine.loads,
            guard=self._guard.statistics(),
        )

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """List and watch until cancelled.

        Cancellation:
            The only way to end it; the connection is closed, the sink keeps what it has.
        """
        self._now = now = asyncio.get_running_loop().time
        command = self._machine.start(now())
        task_status.started()
        try:
            while True:
                self._changed()
                happened = await self._perform(command)
                command = self._machine.step(happened, now())
        finally:
            self._machine.state = ReflectorState.STOPPED
            self._changed()

    def _changed(self) -> None:
        self._tell_if_cut_off()
        if self._on_change is not None:
            self._on_change()

    def _tell_if_cut_off(self) -> None:
        """Say once that it cannot follow, and once that it can again; status() tells the rest."""
        machine, resource = self._machine, self._codec.resource
        if not self._is_cut_off and machine.attempts >= _CUT_OFF_ATTEMPTS:
            self._is_cut_off = True
            _log.warning(
                "%s cannot be followed, %d attempts failed: %s; it goes on trying",
                resource,
                machine.attempts,
                machine.last_error,
            )
        elif self._is_cut_off and not machine.attempts:
            self._is_cut_off = False
            _log.info("%s is followed again", resource)

    async def _perform(self, command: Command) -> Input:
        match command:
            case Load(LoadMode.WATCH_LIST):
                return await self._watch_list()
            case Load(mode):
                return await self._list(mode)
            case Watch():
                return await self._watch()
            case Sleep(seconds):
                await anyio.sleep(seconds)
                return Woke()
            case Halt(error):
                facts = self._facts(error)
                _log.error("the reflector of %(resource)s gave up: %(error)s", facts, extra=facts)
                await anyio.sleep_forever()
        raise InternalError(f"a reflector cannot perform {command!r}")

    async def _list(self, mode: LoadMode) -> Input:
        try:
            await self._loader.load_list(mode)
        except Exception as error:  # noqa: BLE001 - the loop goes on, whatever a load ran into
            return LoadFailed(mode, self._named(error), self._loader.pages)
        return Loaded(mode)

    async def _watch_list(self) -> Input:
        opened = loaded = False
        try:
            async with self._list_watch.watch(
                resource_version="", timeout_seconds=self._timeout(), send_initial_events=True
            ) as body:
                opened = True
                splitter, rest = await self._loader.load_initial_events(body)
                loaded = True
                self._machine.step(Loaded(LoadMode.WATCH_LIST), self._now())
                self._changed()
                return await self._follow(body, splitter, rest)
        except Exception as error:  # noqa: BLE001 - the loop goes on
            if loaded:
                return WatchFailed(self._named(error), established=True)
            return LoadFailed(LoadMode.WATCH_LIST, self._named(error), established=opened)

    async def _watch(self) -> Input:
        position = self._guard.resume_position
        try:
            async with self._list_watch.watch(
                resource_version=position, timeout_seconds=self._timeout()
            ) as body:
                self._machine.connected()
                self._changed()
                splitter = LineSplitter(_nowhere, what=f"watch {self._codec.resource}")
                return await self._follow(body, splitter, [])
        except Exception as error:  # noqa: BLE001 - the loop goes on
            return WatchFailed(self._named(error), established=False)

    def _timeout(self) -> float:
        low, high = self._options.watch_timeout_seconds
        return self._options.rng.uniform(low, high)

    async def _follow(self, body: Body, splitter: LineSplitter, rest: list[bytes]) -> Input:
        follower = Follower(
            self._codec, self._guard, self._sink, selective=self._list_watch.is_selective
        )
        splitter.redirect(follower.on_line)
        self._guard.connected()
        started = self._now()
        try:
            for line in rest:
                follower.on_line(line, 0, len(line))
            await self._read(body, splitter, follower)
        except StreamBroken as broken:
            return WatchBroken(broken.breach, broken.error, broken.digest)
        except LineTooLongError as error:
            self._guard.count("unknown_events")
            return WatchBroken(Breach.UNREADABLE, error, b"too long")
        except InformerError as error:
            if isinstance(error, APIStatusError):
                self._guard.count("watch_errors", str(error.status), label="code")
            lasted = self._now() - started
            return WatchFailed(error, established=follower.frames > 0, seconds=lasted)
        return WatchEnded(follower.frames, self._now() - started)

    async def _read(self, body: Body, splitter: LineSplitter, follower: Follower[V]) -> None:
        budget = TimeBudget()
        now, pieces, feed = budget.now, body.pieces, splitter.feed
        progressed = False
        while arrived := await pieces():
            started = now()
            for piece in arrived:
                feed(piece)
            if not progressed and follower.frames:
                progressed = True
                self._machine.progressed()
                self._changed()
            if budget.spend_since(started):
                await budget.yield_now()

    def _named(self, error: Exception) -> InformerError:
        """Return an error of ours as it is, and anything else as the bug that it is."""
        if isinstance(error, InformerError):
            return error
        facts = self._facts(error)
        _log.error("bug in the reflector of %(resource)s", facts, exc_info=error, extra=facts)
        internal = InternalError(f"a reflector met {type(error).__name__}: {error}")
        internal.__cause__ = error
        return internal

    def _facts(self, error: Exception) -> dict[str, str]:
        return {
            "resource": str(self._codec.resource),
            "position": self._guard.position,
            "error": str(error),
        }


def _nowhere(data: bytes, start: int, end: int) -> None:
    """Take a line that arrives before anybody follows the watch: there is none."""
    raise InternalError(f"a line of {end - start} of {len(data)} bytes at {start} has no reader")
