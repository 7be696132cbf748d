"""The life of one informer: started once, closed once, broken at most once.

What enters are the calls of its owner and reports of bugs; what leaves is one moment at which it
ended, and why. From the moment it is asked to start it counts as started, so that nobody who asks
late is told to start it; from the moment it is asked to close it counts as closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, final

import anyio

from pyinformer.apimachinery import InformerError, LifecycleError
from pyinformer.tasks import Host, LoopOwner

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_HOST_GRACE_SECONDS = 2.0  # beyond the handlers' own: they are awaited inside of the host


@final
class InformerLifecycle:
    """Starts, watches over and ends what an informer does.

    Args:
        informer: names it in errors and logs.
        begin: starts everything in a task group, and returns when it runs.
        finish: stops the handlers; is called once the rest is cancelled, or if it never began.
        on_end: is called when it has ended, with the crash if that was the reason; maybe twice.
        grace_seconds: how long closing waits for handlers.
    """

    def __init__(
        self,
        informer: str,
        begin: Callable[[TaskGroup], Awaitable[None]],
        finish: Callable[[], Awaitable[None]],
        *,
        on_end: Callable[[InformerError | None], None],
        grace_seconds: float,
    ) -> None:
        self.crash: InformerError | None = None
        """What went wrong inside, which would be a bug of ours."""
        self.is_started: bool = False
        self.is_closed: bool = False
        self.now: Callable[[], float] = float
        """The loop's clock once it is started, for any thread; 0.0 before."""
        self.loop: LoopOwner = LoopOwner(f"the informer of {informer}")
        """The event loop that it was started in."""
        self._informer = informer
        self._begin = begin
        self._finish = finish
        self._on_end = on_end
        self._host = Host(
            f"informer of {informer}",
            self._main,
            grace_seconds=grace_seconds + _HOST_GRACE_SECONDS,
            on_crash=self._crashed,
        )
        self._started_at = 0.0
        self._ended = anyio.Event()
        self._broken = anyio.Event()
        self._breakage: BaseException | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither closed nor broken since."""
        return self.is_started and not self.is_closed and self.crash is None

    @property
    def running_seconds(self) -> float:
        """How long since it was started; 0 before."""
        return self.now() - self._started_at

    def refuse_if_closed(self) -> None:
        """Refuse what nothing could come of.

        Raises:
            LifecycleError: it is closed, or has crashed.
        """
        if self.is_closed or self.crash is not None:
            what = "closed" if self.is_closed else "crashed"
            raise LifecycleError(f"the informer of {self._informer} is {what}: make a new one")

    def check_usable(self) -> None:
        """Refuse what nothing could come of, and callers outside of its event loop.

        Raises:
            LifecycleError: it is closed or has crashed, or was started in another event loop.
        """
        self.refuse_if_closed()
        self.loop.check()

    async def start(self) -> None:
        """Start and wait until everything runs; a second call does nothing.

        Raises:
            LifecycleError: it is closed, or was closed meanwhile.

        Cancellation:
            What was started is stopped, and it is closed.
        """
        self.check_usable()
        if self._take_start():
            await self._open()
            self.refuse_if_closed()

    def start_nowait(self, group: TaskGroup) -> None:
        """Start in a task of this group, unless it was started before."""
        if self._take_start():
            group.start_soon(self._open)

    async def aclose(self) -> None:
        """Stop everything and wait for that, with a bound; a second call only waits.

        Raises:
            InternalError: something inside had crashed; raised by the first call only.

        Cancellation:
            Takes effect when everything has ended, which the grace bounds.
        """
        self.loop.check(may_be_closed=True)
        self.is_closed = True
        try:
            await self._host.aclose()
            await self._finish()  # if it never began
        finally:
            self._end()

    async def wait_ended(self) -> None:
        """Wait until it is closed or crashes.

        Cancellation:
            Safe.
        """
        self.loop.check()
        await self._ended.wait()

    def break_nowait(self, error: BaseException) -> None:
        """Take note of a bug of ours: what it has cached and told cannot be trusted any more."""
        self._breakage = self._breakage or error
        self._broken.set()

    def _take_start(self) -> bool:
        if self.is_started:
            return False
        self.loop.claim()
        self.now = asyncio.get_running_loop().time
        self._started_at = self.now()
        self.is_started = True
        return True

    async def _open(self) -> None:
        if self.is_closed:  # before its task had a chance to run
            return
        try:
            await self._host.start()
        except BaseException:
            self.is_closed = True
            self._end()
            raise

    async def _main(self, group: TaskGroup, ready: Callable[[], None]) -> None:
        try:
            await self._begin(group)
            ready()
            await self._broken.wait()
            group.cancel_scope.cancel()  # what feeds the handlers stops before they do
            if self._breakage is not None:
                raise self._breakage
        finally:
            await self._finish()

    def _crashed(self, error: InformerError) -> None:
        self.crash = error
        self._end(error)

    def _end(self, error: InformerError | None = None) -> None:
        self._on_end(error)
        self._ended.set()
