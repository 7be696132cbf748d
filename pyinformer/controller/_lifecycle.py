"""The life of one controller or of several: caches, sync, workers; and all of it backwards.

What enters are the calls of the owner, signals and crashes; what leaves is one end, in order:
sources first, then a drain with a deadline, then cancellation, and caches last. Only the caches
that were started here are closed here.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, final

import anyio

from pyinformer._logging import get_logger
from pyinformer._printable import Lines
from pyinformer.apimachinery import InformerError, LifecycleError
from pyinformer.controller._signals import StopSignals
from pyinformer.informer import core_of
from pyinformer.tasks import DEFAULT_GRACE_SECONDS, Host, LoopOwner, Watchdog, on_sigusr1

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

    from pyinformer.controller._engine import Engine
    from pyinformer.informer import SharedInformer, SharedInformerFactory

_log = get_logger("pyinformer.controller")

_CACHES_SECONDS = 2 * (DEFAULT_GRACE_SECONDS + 5.0)  # informers, then factories, with their hosts


@final
class Lifecycle:
    """Starts and ends controllers together.

    Args:
        name: names it in errors and logs.
        engines: the controllers.
        factories: are started before and closed after them.
    """

    def __init__(
        self,
        name: str,
        engines: Sequence[Engine[Any]],
        factories: Sequence[SharedInformerFactory] = (),
    ) -> None:
        self._name = name
        self._engines = tuple(engines)
        self._factories = tuple(factories)
        self._own_informers: list[SharedInformer[Any]] = []
        self._deafen: list[Callable[[], None]] = []  # so that informers of others forget this life
        self._opening: anyio.CancelScope | None = None
        self._ended = anyio.Event()
        self._broken = anyio.Event()
        self._breakage: BaseException | None = None
        self._loop = LoopOwner(name)
        self._is_asked = False
        self._is_closed = False
        options = [engine.options for engine in engines]
        self._host = Host(
            name,
            self._main,
            grace_seconds=max((one.drain_timeout_seconds for one in options), default=0.0)
            + max((one.grace_seconds for one in options), default=0.0)
            + _CACHES_SECONDS,
            on_crash=lambda _: self._ended.set(),
        )
        self.watchdog: Watchdog = Watchdog()
        """Names the reconcile that blocks the loop."""

    async def start(self) -> None:
        """Start everything and wait until the workers work.

        Raises:
            CacheSyncTimeoutError: a cache or a source took too long; everything was stopped.
            LifecycleError: it was started before, or was asked to stop meanwhile.

        Cancellation:
            Stops what was started, waits for that, then goes on.
        """
        if self._is_closed:
            raise LifecycleError(f"{self._name} is closed; make a new one")
        self._loop.claim()
        for engine in self._engines:
            engine.refuse_if_begun()
        for engine in self._engines:
            engine.begin_nowait(self)
        self.watchdog.start_nowait()
        try:
            await self._host.start()
        except BaseException:
            self._end()
            raise
        if not self._host.is_running and not self._is_asked:
            raise LifecycleError(f"{self._name} was closed while it started")

    async def aclose(self) -> None:
        """Stop: sources, drain, cancellation, caches. A second call only waits.

        Raises:
            InternalError: something inside had crashed.

        Cancellation:
            Takes effect when everything has ended, which the deadlines bound.
        """
        self._loop.check(may_be_closed=True)
        self._is_closed = True
        for engine in self._engines:
            engine.excuse_current()
        try:
            await self._host.aclose()
        finally:
            self._end()

    async def wait_ended(self) -> None:
        """Wait until it is closed, was asked to stop by a signal, or has crashed.

        Cancellation:
            Safe.
        """
        self._loop.check()
        await self._ended.wait()

    async def run(self, *, task_status: TaskStatus[None], tells_status: bool = True) -> None:
        """Start, stay until a signal or a crash, and stop; a second signal forces.

        Args:
            task_status: is told when the workers work.
            tells_status: whether SIGUSR1 has it log how everything is.

        Raises:
            InternalError: something inside crashed.

        Cancellation:
            The way to stop it from inside the program: closes as aclose() does.
        """
        telling = on_sigusr1(self._tell) if tells_status else nullcontext()
        with telling, StopSignals(self._signalled):
            was_closed = self._is_closed
            try:
                await self.start()
            except LifecycleError:
                if was_closed or not self._is_closed:
                    raise
                return  # closed while it started, which is an end like any other
            try:
                if not self._is_asked:
                    task_status.started()
                await self._ended.wait()
            finally:
                await self.aclose()
                # Else the loop would wait for them when the program ends, without a bound.
                for engine in self._engines:
                    engine.close_abandoned()

    def ask_nowait(self) -> None:
        """Ask for the end: run() stops in order, also in the middle of the start."""
        self._is_asked = True
        self._ended.set()
        if self._opening is not None:
            self._opening.cancel()

    def force_nowait(self) -> None:
        """Wait for no reconcile any more."""
        for engine in self._engines:
            engine.force_nowait()

    def _tell(self) -> None:
        # Whoever asks wants to see it, also where nobody has set up logging.
        level = logging.INFO if _log.isEnabledFor(logging.INFO) else logging.WARNING
        informers = dict.fromkeys(one for engine in self._engines for one in engine.informers)
        for factory in self._factories:
            for told in factory.informers:
                informers.pop(told, None)
        lines = [str(factory.status()) for factory in self._factories]
        lines += [informer.status().line() for informer in informers]
        lines += [engine.status().line() for engine in self._engines]
        _log.log(level, "status of %s\n%s", self._name, Lines("\n".join(lines)))

    def _signalled(self, signal_name: str) -> None:
        if self._is_asked:
            _log.warning("%s: %s again: nobody is waited for any more", self._name, signal_name)
            self.force_nowait()
        else:
            _log.info("%s: %s: stops in order; once more forces", self._name, signal_name)
            self.ask_nowait()

    def break_nowait(self, error: BaseException) -> None:
        """Take note of a bug of ours, and end."""
        self._breakage = self._breakage or error
        self._broken.set()

    def _end(self) -> None:
        self.watchdog.stop_nowait()
        self._ended.set()

    async def _main(self, group: TaskGroup, ready: Callable[[], None]) -> None:
        try:
            with anyio.CancelScope() as self._opening:
                await self._open(group)
            if self._is_asked:
                return
            ready()
            await self._broken.wait()
            if self._breakage is not None:
                raise self._breakage
        finally:
            group.cancel_scope.cancel()  # the sources
            with anyio.CancelScope(shield=True):
                await self._close()

    async def _open(self, group: TaskGroup) -> None:
        for factory in self._factories:
            await factory.start()
        for engine in self._engines:
            for informer in engine.informers:
                self._hear_of_crash(informer)
                if not informer.is_running:
                    await informer.start()
                    self._own_informers.append(informer)
        async with anyio.create_task_group() as opening:
            for engine in self._engines:
                opening.start_soon(engine.open, group)

    def _hear_of_crash(self, informer: SharedInformer[Any]) -> None:
        """End with a cache that has crashed: what it shows is frozen, and looks alive."""
        core = core_of(informer)
        before = core.on_crash

        def crashed() -> None:
            if before is not None:
                before()
            if informer.crash is not None:
                self.break_nowait(informer.crash)

        def deaf() -> None:
            if core.on_crash is crashed:  # else somebody came later, and calls this one
                core.on_crash = before

        core.on_crash = crashed
        self._deafen.append(deaf)

    async def _close(self) -> None:
        for engine in self._engines:
            engine.detach_nowait()
        await _together(engine.stop for engine in self._engines)
        await _together(informer.aclose for informer in self._own_informers)
        await _together(factory.aclose for factory in self._factories)
        while self._deafen:
            self._deafen.pop()()


async def _together(closes: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Close all of them; the first crash is raised when every one has ended."""
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
