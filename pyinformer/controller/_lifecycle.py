"""The start and the end of one controller, or of several together.

They start in order: caches, sources, workers. They end in order, too: sources first, then a drain
with a deadline, then cancellation, and caches last. Only caches that were started here are closed.

While controllers run, those of a further cluster can be engaged beside them. They have a lifecycle
of their own: neither a start that does not end nor a crash concerns the others.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, final

import anyio

from pyinformer._printable import Lines
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import (
    DEFAULT_GRACE_SECONDS,
    Host,
    LoopOwner,
    check_not_imported,
    on_sigusr1,
    run_shielded,
)
from pyinformer.cache.informer import core_of
from pyinformer.controller._shutdown_signals import FORCED_END, STOPPING, on_stop_signal
from pyinformer.errors import InformerError, InternalError, LifecycleError
from pyinformer.telemetry import Watchdog
from pyinformer.telemetry.metrics import NO_METRICS

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from pyinformer.cache.informer import SharedInformer, SharedInformerFactory
    from pyinformer.controller._engine import Engine

_log = get_logger(__name__)

_CACHES_SECONDS = 2 * (DEFAULT_GRACE_SECONDS + 5.0)  # informers, then factories, with their hosts


@final
class Lifecycle:
    """Starts and ends controllers together.

    Args:
        name: the name in errors and logs.
        engines: the controllers.
        factories: started before and closed after the controllers.
        cluster: of an engaged cluster, its name: the start waits for caches and sources as long as
            they take, and starts no informers of other clusters.
        watchdog: that of other controllers of the program; None for one of its own.
    """

    def __init__(
        self,
        name: str,
        engines: Sequence[Engine[Any]],
        factories: Sequence[SharedInformerFactory] = (),
        *,
        cluster: str | None = None,
        watchdog: Watchdog | None = None,
    ) -> None:
        self.name: str = name
        self._engines = tuple(engines)
        self._factories = tuple(factories)
        self._cluster = cluster
        self._engaged: list[Lifecycle] = []
        self._left: list[Engine[Any]] = []  # of engaged clusters, that have ended but for some work
        self._at_end: dict[Callable[[], None], None] = {}
        self._beside: list[Callable[[], Coroutine[None, None, None]]] = []
        self._own_informers: list[SharedInformer[Any]] = []
        self._stop_observing: list[Callable[[], None]] = []  # crashes of informers
        self._opening: anyio.CancelScope | None = None
        self._ended = anyio.Event()
        self._crashed = anyio.Event()
        self._crash: BaseException | None = None
        self._loop = LoopOwner(name)
        self._is_stopping = False
        self._is_closed = False
        self._host = Host(
            name,
            self._main,
            grace_seconds=self._grace_seconds,
            on_crash=lambda _: self._ended.set(),
        )
        measured = (one.metrics for one in engines if one.metrics is not NO_METRICS)
        self._has_watchdog = watchdog is None
        self.watchdog: Watchdog = watchdog or Watchdog(metrics=next(measured, NO_METRICS))
        """Finds the reconcile that blocks the event loop."""

    @property
    def engines(self) -> tuple[Engine[Any], ...]:
        """All controllers, those of engaged clusters included, also if they have left work."""
        engaged = chain.from_iterable(one.engines for one in self._engaged)
        left = (one for one in self._left if one.abandoned)
        return (*self._engines, *engaged, *left)

    @property
    def _grace_seconds(self) -> float:
        """How long an orderly end may take."""
        options = [engine.options for engine in self.engines]
        return (
            max((one.drain_timeout_seconds for one in options), default=0.0)
            + max((one.grace_seconds for one in options), default=0.0)
            + _CACHES_SECONDS
        )

    @property
    def is_running(self) -> bool:
        """Whether it was started, and is not being closed."""
        return self._host.is_running and not self._is_stopping

    @property
    def has_ended(self) -> bool:
        """Whether it is being closed, is asked to stop, or has ended."""
        return self._is_closed or self._is_stopping or self._ended.is_set()

    @property
    def is_cancelled(self) -> bool:
        """Whether it is being cancelled, by its close or by the end of the event loop."""
        return self._host.is_cancelled

    def run_beside(
        self, function: Callable[[], Coroutine[None, None, None]], at_end: Callable[[], None]
    ) -> None:
        """Run a function in a task as `start_soon`, or with the start if it has not begun.

        Args:
            function: a task may be cancelled before it calls it.
            at_end: called when it has ended, and at the end of this lifecycle if it never began.

        Raises:
            LifecycleError: it has ended.
        """
        if self.has_ended:
            raise LifecycleError(f"{self.name}: it has ended; make a new one")

        async def run() -> None:
            """Run it once."""
            try:
                await function()
            finally:
                del self._at_end[at_end]
                at_end()

        self._at_end[at_end] = None
        if self._host.is_running:
            self._host.start_soon(run)
        else:
            self._beside.append(run)

    def claim_loop(self) -> None:
        """Bind it to the running event loop.

        Raises:
            LifecycleError: no loop runs here, or it is bound to another one.
        """
        self._loop.claim()

    async def start(self) -> None:
        """Start everything and wait until the workers work.

        Raises:
            CacheSyncTimeoutError: a cache or a source took too long; everything was stopped.
            LifecycleError: it was started before, or was asked to stop meanwhile.

        Cancellation:
            Stops what was started, waits for that, then continues.
        """
        if self._is_closed:
            raise LifecycleError(f"{self.name} is closed; make a new one")
        check_not_imported()
        self._loop.claim()
        for engine in self._engines:
            engine.refuse_if_begun()
        for engine in self._engines:
            engine.lifecycle = self
        if self._has_watchdog:
            self.watchdog.start_nowait()
        try:
            await self._host.start()
        except BaseException:
            self._end()
            raise
        if not self._host.is_running and not self._is_stopping:
            raise LifecycleError(f"{self.name} was closed while it started")

    async def aclose(self) -> None:
        """Stop: sources, drain, cancellation, caches. A second call only waits.

        Raises:
            InternalError: something inside had crashed.

        Cancellation:
            Takes effect when everything has ended, which the deadlines bound.
        """
        self._loop.check(may_be_closed=True)
        self._is_closed = True
        for engine in self.engines:
            engine.detach_current()
        try:
            await self._host.aclose(self._grace_seconds)
        finally:
            self._end()

    async def wait_ended(self) -> None:
        """Wait until it is closed, a signal asks for the end, or it has crashed.

        Cancellation:
            Safe.
        """
        self._loop.check()
        await self._ended.wait()

    async def run(
        self,
        *,
        on_started: Callable[[], object],
        logs_status: bool = True,
        before_end: Callable[[], Coroutine[None, None, None]] | None = None,
    ) -> None:
        """Start, run until a signal or a crash, and stop; a second signal forces the end.

        Args:
            on_started: called when the workers run.
            logs_status: whether it logs the status of everything at SIGUSR1.
            before_end: called when it is to end, while caches are still read; it must be bounded.

        Raises:
            InternalError: something inside crashed.

        Cancellation:
            The way to stop it from inside the program: closes as aclose() does.
        """
        status = on_sigusr1(self._log_status) if logs_status else nullcontext()
        with status, on_stop_signal(self._signalled):
            was_closed = self._is_closed
            try:
                await self.start()
            except LifecycleError:
                if was_closed or not self._is_closed:
                    raise
                return  # closed while it started: an orderly end
            try:
                if not self._is_stopping:
                    on_started()
                await self._ended.wait()
            finally:
                if before_end is not None:
                    await run_shielded(f"the last answers of {self.name}", before_end())
                await self.aclose()
                # Otherwise the loop would wait for them when the program ends, without a bound.
                self.close_abandoned()

    def start_soon(self, function: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run a function in a task that is cancelled before the controllers stop.

        Raises:
            LifecycleError: it does not run.
        """
        self._host.start_soon(function)

    async def run_one(
        self,
        engine: Engine[Any],
        factories: Sequence[SharedInformerFactory],
        on_started: Callable[[], None],
    ) -> None:
        """Start one more controller and run its sources; in a task of `start_soon`.

        Args:
            engine: the controller; it ends with the others.
            factories: started before and closed after it.
            on_started: called when its workers run.

        Raises:
            InformerError: it could not start. It was stopped, and the others continue.

        Cancellation:
            The way to stop the sources.
        """
        engine.refuse_if_begun()
        engine.lifecycle = self
        self._engines = (*self._engines, engine)
        self._factories = (*self._factories, *factories)
        failure: InformerError | None = None
        async with anyio.create_task_group() as sources:
            try:
                await self._start_caches((engine,), factories)
                await engine.open(sources)
            except InternalError:
                raise
            except InformerError as error:
                failure = error
                sources.cancel_scope.cancel()
            else:
                on_started()
        if failure is not None:
            await self._drop(engine, factories)
            raise failure

    async def _drop(self, engine: Engine[Any], factories: Sequence[SharedInformerFactory]) -> None:
        """Stop one controller that could not start."""
        engine.detach_nowait()
        await engine.stop()
        await _close_all(factory.aclose for factory in factories)
        self._engines = tuple(one for one in self._engines if one is not engine)
        self._factories = tuple(one for one in self._factories if one not in factories)

    async def run_engaged(self, engaged: Lifecycle, on_started: Callable[[], None]) -> None:
        """Run the controllers of a further cluster; in a task of `start_soon`.

        Args:
            engaged: their lifecycle. The watchdog, signals and the end are those of this one.
            on_started: called when their workers run.

        Raises:
            InformerError: they could not start, or crashed. They were stopped.

        Cancellation:
            The way to stop them: closes as aclose() does, then continues.
        """
        self._engaged.append(engaged)
        self._measure_blocks(engaged)
        try:
            await engaged.start()
            on_started()
            await engaged.wait_ended()
        finally:
            try:
                await engaged.aclose()
            finally:
                self._engaged.remove(engaged)
                self._left = [one for one in (*self._left, *engaged.engines) if one.abandoned]

    def _measure_blocks(self, engaged: Lifecycle) -> None:
        """Count blocks of the loop in the metrics of a cluster, if there are none of the group."""
        if self.watchdog.metrics is NO_METRICS:
            found = (one.metrics for one in engaged.engines if one.metrics is not NO_METRICS)
            self.watchdog.measure(next(found, NO_METRICS))

    def request_stop(self) -> None:
        """Make run() stop in order, also in the middle of the start."""
        self._is_stopping = True
        self._ended.set()
        if self._opening is not None:
            self._opening.cancel()

    def force_nowait(self) -> None:
        """Stop waiting for reconciles."""
        for engine in self.engines:
            engine.force_nowait()

    def skip_drain_nowait(self) -> None:
        """Cancel running reconciles at a stop, or if one is under way, without a drain."""
        for engine in self.engines:
            engine.skip_drain_nowait()

    def close_abandoned(self) -> None:
        """End the reconciles that ignored everything else: the program is ending."""
        for engine in self.engines:
            engine.close_abandoned()

    def _log_status(self) -> None:
        # The signal asks for it, so it is shown also if the program has not set up logging.
        level = logging.INFO if _log.isEnabledFor(logging.INFO) else logging.WARNING
        informers = dict.fromkeys(one for engine in self.engines for one in engine.informers)
        for factory in self._factories:
            for shown in factory.informers:
                informers.pop(shown, None)
        lines = [str(factory.status()) for factory in self._factories]
        lines += [informer.status().line() for informer in informers]
        lines += [engine.status().line() for engine in self._engines]
        for one in self._engaged:
            lines += [f"{one.name}: {engine.status().line()}" for engine in one.engines]
        _log.log(level, "status of %s\n%s", self.name, Lines("\n".join(lines)))

    def _signalled(self, signal_name: str) -> None:
        if self._is_stopping:
            _log.warning(FORCED_END, self.name, signal_name)
            self.force_nowait()
        else:
            _log.info(STOPPING, self.name, signal_name)
            self.request_stop()

    def crash_nowait(self, error: BaseException) -> None:
        """Record a bug of pyinformer, and end."""
        self._crash = self._crash or error
        self._crashed.set()

    def _end(self) -> None:
        if self._has_watchdog:
            self.watchdog.stop_nowait()
        self._ended.set()

    async def _main(self, group: TaskGroup, ready: Callable[[], None]) -> None:
        try:
            if self._is_stopping:  # before it has begun
                return
            with anyio.CancelScope() as self._opening:
                await self._open(group)
            if self._is_stopping:
                return
            ready()
            while self._beside:
                group.start_soon(self._beside.pop(0))
            await self._crashed.wait()
            if self._crash is not None:
                raise self._crash
        finally:
            group.cancel_scope.cancel()  # the sources
            await run_shielded(f"the close of {self.name}", self._close())

    async def _open(self, group: TaskGroup) -> None:
        await self._start_caches(self._engines, self._factories)
        is_patient = self._cluster is not None
        async with anyio.create_task_group() as opening:
            for engine in self._engines:
                opening.start_soon(partial(engine.open, group, is_patient=is_patient))

    async def _start_caches(
        self, engines: Sequence[Engine[Any]], factories: Sequence[SharedInformerFactory]
    ) -> None:
        for factory in factories:
            await factory.start()
        for engine in engines:
            for informer in engine.informers:
                self._observe_crash(informer)
                if not informer.is_running:
                    self._check_own(informer)
                    await informer.start()
                    self._own_informers.append(informer)

    def _check_own(self, informer: SharedInformer[Any]) -> None:
        """Refuse to start an informer that other engaged clusters would lose with this one.

        Raises:
            LifecycleError: it is of another cluster than the engaged one.
        """
        if self._cluster not in {None, informer.cluster.name}:
            reason = (
                f"{informer!r} is of cluster {informer.cluster.name!r}, and not running: start it"
                " before, or give its factory to the group"
            )
            raise LifecycleError(reason)

    def _observe_crash(self, informer: SharedInformer[Any]) -> None:
        """End if a cache crashes: its objects are frozen, but look current."""
        observers = core_of(informer).crash_observers

        def crashed() -> None:
            if informer.crash is not None:
                self.crash_nowait(informer.crash)

        def stop_observing() -> None:
            observers.pop(crashed, None)

        observers[crashed] = None
        self._stop_observing.append(stop_observing)

    async def _close(self) -> None:
        for engine in self._engines:
            engine.detach_nowait()
        # Those of engaged clusters may read the caches, too, as long as they run.
        engaged = [one.aclose for one in self._engaged]
        await _close_all([*(engine.stop for engine in self._engines), *engaged])
        await _close_all(informer.aclose for informer in self._own_informers)
        await _close_all(factory.aclose for factory in self._factories)
        while self._stop_observing:
            self._stop_observing.pop()()
        for at_end in self._at_end:  # of what was engaged, and never began
            at_end()


async def _close_all(closes: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Close all of them, and then raise the first crash."""
    crashes: list[InformerError] = []

    async def close(one: Callable[[], Awaitable[None]]) -> None:
        try:
            await one()
        except InformerError as error:
            crashes.append(error)

    async with anyio.create_task_group() as closing:
        for one in closes:
            closing.start_soon(close, one)
    if crashes:
        raise crashes[0]
