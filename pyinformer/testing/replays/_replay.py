"""`replay`: a real informer receives what was recorded, in virtual time.

The informer runs in an event loop of its own, in a thread, whose clock jumps to the next recorded
moment. So a replay works in tests with and without an event loop.
"""

from __future__ import annotations

import asyncio
import math
import random
import warnings
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack, final

from msgspec.structs import asdict

from pyinformer.cache.informer import (
    KeepingOptions,
    SharedInformer,
    SharedInformerFactory,
    check_option_names,
    core_of,
    informer_in_range,
)
from pyinformer.cache.recording import Header, read_recording
from pyinformer.cache.reflector import MassDeletePolicy, ReflectorOptions
from pyinformer.client.cluster import Cluster
from pyinformer.errors import LifecycleError
from pyinformer.objects import UidRange, V
from pyinformer.testing.replays._recorded_exchanges import RecordedExchanges, Relist
from pyinformer.testing.replays._replay_connection import ReplayConnection
from pyinformer.testing.world import VirtualLoop, busy_handlers

_T = TypeVar("_T")

_POLL_SECONDS: Final = 0.01
_SLOWER: Final = 1.1  # how much longer each pause is
_SETTLE_SECONDS: Final = 600.0  # of virtual time; what was not requested by then never will be


class IncompleteRecordingWarning(UserWarning):
    """A recording is cut off or has gaps; the replay has only what is in it."""


@final
class Replay:
    """Plays one recording to an informer; returned by `replay`.

    Args:
        path: the file.

    Raises:
        RecordingFileError: the file cannot be read.
        RecordingFormatError: it is not a recording, or damaged before its end.
        RecordingVersionError: a later version of pyinformer wrote it, in a later format.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        recorded = read_recording(path)
        header = recorded.header
        self._script = RecordedExchanges(recorded)
        self._connection = ReplayConnection(
            self._script,
            metadata_only=header.memory == "metadata",
            on_relist=self._relist,
        )
        self._informer: SharedInformer[Any] | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="pyinformer replay")
        self._runner: asyncio.Runner | None = None
        self._changes: asyncio.Future[None] | None = None  # of the namespaces that are followed
        self._is_closed = False
        self.header: Header = header
        """What was recorded, when, and by which version."""
        self.problems: tuple[str, ...] = recorded.problems
        """What is missing in the recording; empty if it is complete."""
        self.cluster: Cluster = Cluster(self._connection.config, connection=self._connection)
        """A cluster whose server is the recording; it takes no writes."""

    @property
    def duration_seconds(self) -> float:
        """How long was recorded."""
        return self._script.end_seconds

    def informer(
        self, *, model: type[V] | None = None, **options: Unpack[KeepingOptions]
    ) -> SharedInformer[V]:
        """Return the informer of the recording, not started: add its handlers and indexes first.

        It follows the recorded resource, namespaces and selectors, by requests of the recorded
        options. Its audits are off.

        Args:
            model: what the `view` of each object is.
            **options: how it keeps objects, as for an informer. Without `memory` it is as recorded;
                the program's `transform` is not in the recording.

        Raises:
            InvalidTypeError: an option does not exist.
            LifecycleError: it was made already, or the replay is closed.
        """
        if self._is_closed or self._informer is not None:
            what = "the replay is closed" if self._is_closed else "a replay has one informer"
            raise LifecycleError(f"{what}: call replay() again")
        header = self.header
        check_option_names(options, KeepingOptions, "model")
        kept: KeepingOptions = {"memory": header.memory, **options}
        share = header.shard
        informer: SharedInformer[V] = informer_in_range(
            SharedInformerFactory(self.cluster, options=self._options()),
            header.api_version,
            header.plural,
            uid_range=None if share is None else UidRange(share.index, share.total),
            model=model,
            namespaces=header.namespaces,
            label_selector=header.label_selector or None,
            field_selector=header.field_selector or None,
            **kept,
        )
        self._informer = informer
        return informer

    def run(self, *, until_seconds: float | None = None) -> None:
        """Play the recording, to its end or to a time; it blocks, but waits for nothing real.

        Handlers run in the thread of the replay. When this returns, they have been called for
        everything up to then, and the clock stands still until the next call.

        Args:
            until_seconds: when to stop, in seconds since the start; None for the end.

        Raises:
            ReplayDivergedError: the informer sent requests that the recorded one did not.
            LifecycleError: there is no informer yet, or the replay is closed.
            InvalidArgumentError: the recording names namespaces that cannot be followed.
            InternalError: the informer crashed.
        """
        informer = self._informer
        if informer is None:
            raise LifecycleError("call replayed.informer() first, and add handlers to it")
        until = self.duration_seconds if until_seconds is None else until_seconds
        self._call(lambda: self._play(informer, until))

    def close(self) -> None:
        """Stop the informer; its cache stays readable. A second call does nothing."""
        if self._is_closed:
            return
        try:
            if self._runner is not None:
                self._call(self._stop)
                self._executor.submit(self._runner.close).result()
        finally:
            self._is_closed = True
            self._executor.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _call(self, function: Callable[[], Awaitable[_T]]) -> _T:
        if self._is_closed:
            raise LifecycleError("the replay is closed: call replay() again")
        if self._runner is None:
            self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        runner = self._runner

        async def run() -> _T:
            """Await it, while virtual time may pass."""
            loop = asyncio.get_running_loop()
            if not isinstance(loop, VirtualLoop):
                raise LifecycleError("a replay runs in a loop of its own")
            with loop.waited_for():
                return await function()

        return self._executor.submit(lambda: runner.run(run())).result()

    async def _play(self, informer: SharedInformer[Any], until: float) -> None:
        if not informer.is_running and informer.crash is None:
            self._connection.begin()
            self._changes = asyncio.ensure_future(self._change_namespaces(informer))  # noqa: TID251
            await informer.start()
        self._connection.advance(until)
        await self._connection.until(until)
        await self._settle(informer)
        if informer.crash is not None:
            raise informer.crash
        if self._changes is not None and self._changes.done():
            self._changes.result()
        if self._connection.divergence is not None:
            raise self._connection.divergence

    async def _settle(self, informer: SharedInformer[Any]) -> None:
        """Wait until everything up to now was delivered, and every handler was called for it."""
        now = asyncio.get_running_loop().time
        deadline, pause = now() + _SETTLE_SECONDS, _POLL_SECONDS
        while informer.is_running and self._connection.divergence is None:
            is_late = now() > deadline
            if (self._connection.is_caught_up or is_late) and not busy_handlers((informer,)):
                return
            await asyncio.sleep(pause)
            pause *= _SLOWER  # a handler may wait for hours

    async def _change_namespaces(self, informer: SharedInformer[Any]) -> None:
        for at, namespaces in self._script.namespaces:
            await self._connection.until(at)
            await informer.set_namespaces(namespaces)

    async def _stop(self) -> None:
        if self._informer is not None:
            await self._informer.aclose()
        await self.cluster.aclose()

    def _relist(self, relist: Relist) -> None:
        informer = self._informer
        if informer is None:
            return
        for cache in core_of(informer).caches.all:
            if cache.reflector.list_watch.path == relist.path:
                if relist.distrust:
                    cache.reflector.on_history_broken(relist.reason)
                else:
                    cache.reflector.request_relist(relist.reason)

    def _options(self) -> ReflectorOptions:
        recorded = self.header.options
        silence, confirmed = recorded.silence_seconds, recorded.mass_delete
        return ReflectorOptions(
            use_watch_list=recorded.use_watch_list,
            page_size=recorded.page_size,
            consistency=recorded.consistency,
            silence_seconds=math.inf if silence is None else silence,
            order=recorded.order,
            poll_seconds=recorded.poll_seconds,
            mass_delete=None if confirmed is None else MassDeletePolicy(**asdict(confirmed)),
            watch_timeout_seconds=recorded.watch_timeout_seconds,
            max_retry_seconds=lambda _attempts, _error: 0.0,  # the answers come at their times
            rng=_RecordedRandom(self._script, recorded.watch_timeout_seconds),
        )


@final
class _RecordedRandom(random.Random):
    """Returns the timeouts of the recorded watches, and otherwise always the same numbers."""

    def __init__(
        self, script: RecordedExchanges, watch_timeout_seconds: tuple[float, float]
    ) -> None:
        super().__init__(0)
        self._script = script
        self._range = watch_timeout_seconds

    def uniform(self, a: float, b: float) -> float:
        """Return the timeout of the next recorded watch, if one is drawn."""
        recorded = self._script.next_timeout_seconds() if (a, b) == self._range else None
        return super().uniform(a, b) if recorded is None else recorded


def replay(path: str | PathLike[str]) -> Replay:
    """Return a Replay of a recording, to be used in a `with` block.

        def test_the_incident() -> None:
            with replay("incident.jsonl") as replayed:
                pods = replayed.informer()
                pods.add_event_handler(on_delete=program.on_delete)
                replayed.run()
                assert program.alerts == []

    The informer is a real one. Its server is the recording, and its clock is virtual: what was
    recorded within hours takes a moment, and each replay makes the same calls at the same times.

    Args:
        path: a file of `pyinformer record` or `SharedInformer.record`, of this version or an
            earlier one.

    Raises:
        RecordingFileError: the file cannot be read.
        RecordingFormatError: it is not a recording, or damaged before its end.
        RecordingVersionError: a later version of pyinformer wrote it, in a later format.

    Warns:
        IncompleteRecordingWarning: the recording is cut off or has gaps.
    """
    replayed = Replay(path)
    for problem in replayed.problems:
        warnings.warn(f"{path}: {problem}", IncompleteRecordingWarning, stacklevel=2)
    return replayed
