"""The thread and the event loop of a World.

A call from another thread blocks until the coroutine function has returned and everything that
followed from it has settled. It works with or without an event loop in the test itself.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from pyinformer._runtime.clock import monotonic, pause
from pyinformer.cache.informer import core_of, wait_for_cache_sync
from pyinformer.errors import InvalidArgumentError, LifecycleError, NotFoundError
from pyinformer.testing.world._virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyinformer.cache.informer import SharedInformer
    from pyinformer.client.cluster import Cluster
    from pyinformer.objects import Event, KubeObject
    from pyinformer.testing.world._memory_connection import MemoryConnection

_T = TypeVar("_T")

# Everything is in this process: what takes longer never ends, even on a busy machine.
_SYNC_SECONDS: Final = 30.0
_SETTLE_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 30.0
_IDLE_TURNS: Final = 10  # loop iterations; from a write to its reader's next wait it takes four
_TURNS_PER_PAUSE: Final = 1000
_PAUSE_SECONDS: Final = 0.001
_CHECK_SECONDS: Final = 0.5
_SLOWER: Final = 1.1


@final
class WorldThread:
    """One event loop in a thread, for one World or several; the first call starts it.

    Args:
        virtual_time: whether its clock jumps to the next timer while a call waits, and stands still
            otherwise.
    """

    def __init__(self, *, virtual_time: bool = False) -> None:
        self.virtual_time: bool = virtual_time
        self.connections: list[MemoryConnection] = []
        """The connections of its Worlds."""
        self.clusters: list[Cluster] = []
        """The clusters of its Worlds."""
        self.seen: list[tuple[SharedInformer[Any], Event[Any]]] = []
        """The events that informers have delivered, in order."""
        self._informers: list[SharedInformer[Any]] = []
        self._starting = threading.Lock()  # several threads may make the first call
        self._crash: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._is_closed = False
        self._members = 0
        self._closers: list[Callable[[], Awaitable[None]]] = []

    @property
    def is_started(self) -> bool:
        """Whether its loop has been started."""
        return self._loop is not None

    def join(self, connection: MemoryConnection, cluster: Cluster) -> None:
        """Add a World to this loop; each World must call `close`."""
        self._members += 1
        self.connections.append(connection)
        self.clusters.append(cluster)

    def call(
        self, function: Callable[[], Awaitable[_T]], *, held_timeout_seconds: float = math.inf
    ) -> _T:
        """Run a coroutine function in the loop, and block until it has returned.

        Args:
            function: what to run.
            held_timeout_seconds: for how long, in real time, a thread may hold the virtual time.

        Raises:
            TimeoutError: a thread held it longer.
            LifecycleError: it is called from inside the loop, or after the last `close`.
            BaseException: what the function raised. An exception that ends a loop, such as
                SystemExit in a reconcile, closes the World, too.
        """
        if threading.current_thread() is self._thread:
            reason = "inside a reconcile or a handler, await the methods of its cluster instead"
            raise LifecycleError(f"a World cannot wait for its own loop: {reason}")
        if self._is_closed:
            raise LifecycleError("the World is closed: make a new one")
        with self._starting:
            loop = self._loop or self._start()

        async def run() -> _T:
            """Await any awaitable, while virtual time may pass."""
            with _passing_time():
                return await function()

        future = asyncio.run_coroutine_threadsafe(run(), loop)
        try:
            return _result_of(future, loop, held_timeout_seconds)
        except concurrent.futures.CancelledError:
            if self._crash is not None:
                raise self._crash from None
            raise
        except BaseException:  # interrupted, as by Ctrl-C: the coroutine must not continue
            future.cancel()
            raise

    @property
    def now(self) -> float:
        """The time of the loop; 0 before it starts."""
        return 0.0 if self._loop is None else self._loop.time()

    def elapse(self, duration_seconds: float, prepare: Callable[[], Awaitable[None]]) -> None:
        """Advance virtual time, and wait until everything that was due has settled.

        Args:
            duration_seconds: how far.
            prepare: starts and fills the caches before.

        Raises:
            TimeoutError: it does not settle, or a thread holds the time.
        """

        async def elapse() -> None:
            """Advance the time with synced caches."""
            await prepare()
            await asyncio.sleep(duration_seconds)
            await self.settle(with_threads=True)

        self.call(elapse, held_timeout_seconds=_SETTLE_SECONDS)

    async def prepare(self, informers: Iterable[SharedInformer[Any]]) -> None:
        """Start those of the informers that do not run, and wait until all caches have synced.

        Raises:
            InvalidArgumentError: one belongs to another loop, or its resource is not served.
            CacheSyncTimeoutError: a cache cannot sync; the error has the reason.

        Cancellation:
            Safe; started informers keep running.
        """
        chosen = [informer for informer in dict.fromkeys(informers) if not informer.is_closed]
        for informer in chosen:
            if informer not in self._informers:
                self._check_here(informer)
                await _check_served(informer)
            if informer not in self._informers:  # calls of other threads have continued meanwhile
                self._informers.append(informer)
                core_of(informer).attach_receiver(_EventRecorder(informer, self.seen))
            await informer.start()
        await wait_for_cache_sync(*chosen, timeout_seconds=_SYNC_SECONDS)
        await self.settle()

    async def settle(self, *, with_threads: bool = False) -> None:
        """Wait until every cache has applied all events of its watch.

        Args:
            with_threads: also until no thread works for the loop. One may wait for the test.

        Raises:
            TimeoutError: they do not settle, because something keeps writing, or a thread works.

        Cancellation:
            Safe.
        """
        deadline = monotonic() + _SETTLE_SECONDS  # real seconds: virtual time stands still
        idle = turns = 0
        while idle < _IDLE_TURNS:
            is_held = isinstance(self._loop, VirtualLoop) and self._loop.is_held
            is_idle = self._is_idle() and not (with_threads and is_held)
            idle = idle + 1 if is_idle else 0
            turns += 1
            if is_held and not is_idle:
                pause(_PAUSE_SECONDS)  # for the thread; no timer fires meanwhile
            # What has not settled by itself may wait for a timer.
            await asyncio.sleep(
                _PAUSE_SECONDS if turns % _TURNS_PER_PAUSE == 0 and not is_held else 0
            )
            if monotonic() > deadline:
                message = (
                    f"after {_SETTLE_SECONDS:g} s something still writes, opens watches, or works"
                    " in a thread"
                )
                raise TimeoutError(message)

    async def wait_for_handlers(self) -> None:
        """Wait until every handler has been called for everything, and no call runs any more.

        Raises:
            TimeoutError: one of them does not end; names it.

        Cancellation:
            Safe.
        """
        deadline, pause_seconds = monotonic() + _SETTLE_SECONDS, _PAUSE_SECONDS
        while busy := busy_handlers(self._informers):
            if monotonic() > deadline:
                message = f"after {_SETTLE_SECONDS:g} s a handler is still called: {busy[0]}"
                raise TimeoutError(message)
            await asyncio.sleep(pause_seconds)
            await self.settle(with_threads=True)
            pause_seconds *= _SLOWER  # in virtual time, it may wait for hours

    def close(self, closer: Callable[[], Awaitable[None]]) -> None:
        """Remove one World; with the last one, close the informers, run all closers, end the loop.

        Called from inside the loop, perhaps by Python's garbage collector, it does not wait.
        """
        self._members -= 1
        self._closers.append(closer)
        if self._members:
            return
        self._is_closed = True
        loop, thread, stopping = self._loop, self._thread, self._stopping
        if loop is None or thread is None or stopping is None:
            return
        if self._crash is not None:
            thread.join(_CLOSE_SECONDS)
            return

        async def run() -> None:
            """End the tasks in the loop, then the loop."""
            try:
                with _passing_time():
                    for informer in self._informers:
                        await informer.aclose()
                    for close in self._closers:
                        await close()
            finally:
                stopping.set()

        future = asyncio.run_coroutine_threadsafe(run(), loop)
        if threading.current_thread() is not thread:
            try:
                future.result(_CLOSE_SECONDS)
            finally:
                thread.join(_CLOSE_SECONDS)

    def _is_idle(self) -> bool:
        expected = sum(informer.is_running for informer in self._informers)
        watches = sum(one.open_watches for one in self.connections)
        return watches >= expected and all(one.is_idle for one in self.connections)

    def _start(self) -> asyncio.AbstractEventLoop:
        started: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        self._thread = threading.Thread(
            target=partial(self._run_loop, started), name="pyinformer world", daemon=True
        )
        self._thread.start()
        self._loop = started.result()
        return self._loop

    def _run_loop(self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop if self.virtual_time else None) as runner:
            try:
                runner.run(self._main(started))
            except BaseException as error:  # noqa: BLE001 - raised in call(), where a thread waits
                self._crash = error  # before the runner cancels its tasks
                self._is_closed = True

    def _check_here(self, informer: SharedInformer[Any]) -> None:
        """Refuse an informer of another loop: waiting for it here would never end."""
        if not any(informer.cluster is cluster for cluster in self.clusters):
            reason = (
                f"the informer of {informer.scope.resource} is not of this World: make the second"
                " one of two as World(..., beside=first), and informers of world.factory"
            )
            raise InvalidArgumentError("controller", reason)

    async def _main(self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        self._stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        started.set_result(loop)
        try:
            await self._stopping.wait()
        finally:
            if isinstance(loop, VirtualLoop):
                loop.let_pass()  # cancelled tasks may still wait for a while


def busy_handlers(informers: Iterable[SharedInformer[Any]]) -> list[str]:
    """Return the names of the handlers that run, or have anything to be called for."""
    return [
        one.name
        for informer in informers
        for one in informer.status().handlers
        if one.depth or one.in_flight_key is not None
    ]


def _result_of(
    future: concurrent.futures.Future[_T],
    loop: asyncio.AbstractEventLoop,
    held_timeout_seconds: float,
) -> _T:
    """Wait for a result, and check now and then whether a thread holds the virtual time."""
    if not isinstance(loop, VirtualLoop) or math.isinf(held_timeout_seconds):
        return future.result()
    while not concurrent.futures.wait((future,), _CHECK_SECONDS).done:
        if loop.held_seconds > held_timeout_seconds:
            future.cancel()
            raise TimeoutError(
                f"virtual time stands still: a thread has worked for {held_timeout_seconds:g} s, or"
                " waits for the test"
            )
    return future.result()


def _passing_time() -> AbstractContextManager[None]:
    loop = asyncio.get_running_loop()
    return loop.waited_for() if isinstance(loop, VirtualLoop) else nullcontext()


async def _check_served(informer: SharedInformer[Any]) -> None:
    """Refuse an informer whose resource is not served, since waiting for it would time out."""
    resource = informer.scope.resource
    try:
        await informer.cluster.discovery.resource(resource)
    except NotFoundError:
        reason = (
            f"the World does not serve {resource.resource!r} of {resource.api_version!r}: create"
            " an object of its kind, or call register(), before it is used"
        )
        raise InvalidArgumentError("plural", reason) from None


@final
class _EventRecorder:
    """A Receiver that records the events of an informer."""

    def __init__(
        self, informer: SharedInformer[Any], seen: list[tuple[SharedInformer[Any], Event[Any]]]
    ) -> None:
        self._informer = informer
        self._seen = seen

    def put_nowait(self, event: Event[Any]) -> None:
        """Record one event."""
        self._seen.append((self._informer, event))

    def preload_nowait(self, objects: Collection[KubeObject[Any]]) -> None:
        """Record nothing: the objects of the first list are not events."""

    def on_initial_list_complete(self) -> None:
        """Record nothing."""

    def on_missed_state(self, was: object, now: object) -> None:
        """Record nothing."""
