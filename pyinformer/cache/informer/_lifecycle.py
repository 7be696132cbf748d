"""The lifecycle of one informer: started once, closed once, crashed at most once.

An informer counts as started when its start begins, and as closed when its close begins, so that
callers in between get the right error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, final

from pyinformer._runtime.tasks import Host, LoopOwner, start_from_anywhere
from pyinformer.errors import InformerError, LifecycleError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_HOST_GRACE_SECONDS = 2.0  # beyond the handlers' own: they are awaited inside of the host


class InformerParts(Protocol):
    """What the lifecycle begins and ends."""

    async def begin(self, group: TaskGroup) -> None:
        """Start the parts in this group.

        Cancellation:
            Ends what was started.
        """
        ...

    async def finish(self) -> None:
        """Stop the parts that outlive the group; called at every end, maybe twice.

        Cancellation:
            Takes effect when they have ended, which the grace bounds.
        """
        ...

    def ended(self, error: InformerError | None) -> None:
        """Release everything that waits; called at every end, maybe twice."""
        ...


@final
class InformerLifecycle:
    """Starts, watches and ends the parts of an informer.

    Args:
        informer: names it in errors and logs.
        parts: what begins and ends with it.
        grace_seconds: how long closing waits for handlers.
    """

    def __init__(self, informer: str, parts: InformerParts, *, grace_seconds: float) -> None:
        self.crash: InformerError | None = None
        """The bug that ended the informer; None unless that happened."""
        self.is_started: bool = False
        self.is_closed: bool = False
        self.now: Callable[[], float] = float
        """The loop's clock once the informer is started, readable from any thread; 0.0 before."""
        self.loop: LoopOwner = LoopOwner(f"the informer of {informer}")
        """The event loop that the informer was started in."""
        self.informer: str = informer
        """The informer's name."""
        self._parts = parts
        self._host = Host(
            f"informer of {informer}",
            self._main,
            grace_seconds=grace_seconds + _HOST_GRACE_SECONDS,
            on_crash=self._crashed,
        )
        self._started_at = 0.0
        self._ended = asyncio.Event()
        self._broken = asyncio.Event()
        self._breakage: BaseException | None = None

    @property
    def is_running(self) -> bool:
        """Whether the informer was started, and has neither closed nor crashed."""
        return self.is_started and not self.is_closed and self.crash is None

    @property
    def running_seconds(self) -> float:
        """How long since the start; 0 before."""
        return self.now() - self._started_at

    def refuse_if_closed(self) -> None:
        """Raise if the informer has ended.

        Raises:
            LifecycleError: it is closed, or has crashed.
        """
        if self.is_closed or self.crash is not None:
            what = "closed" if self.is_closed else "crashed"
            raise LifecycleError(f"the informer of {self.informer} is {what}: make a new one")

    def check_usable(self) -> None:
        """Raise if the informer has ended, or the caller is outside of its event loop.

        Raises:
            LifecycleError: it is closed or has crashed, or was started in another event loop.
        """
        self.refuse_if_closed()
        self.loop.check()

    def check_running(self) -> None:
        """Raise unless the informer runs in the current event loop.

        Raises:
            LifecycleError: it was not started, is closed, or runs in another event loop.
            InternalError: it has crashed.
        """
        if self.crash is not None:
            raise self.crash
        if not self.is_running:
            raise LifecycleError(f"the informer of {self.informer} is not running: start it first")
        self.loop.check()

    async def start(self) -> None:
        """Start and wait until everything runs; a second call does nothing.

        Raises:
            LifecycleError: it is closed, or was closed during the start.

        Cancellation:
            What was started is stopped, and the informer is closed.
        """
        self.check_usable()
        if self._take_start():
            await self._open()
            self.refuse_if_closed()

    def start_nowait(self, group: TaskGroup) -> None:
        """Start in a task of this group, unless the informer was started before."""
        if self._take_start():
            start_from_anywhere(group, self._open)

    async def aclose(self) -> None:
        """Stop everything and wait for that, with a bound; a second call only waits.

        Raises:
            InternalError: it had crashed; raised by the first call only.

        Cancellation:
            Takes effect when everything has ended, which the grace bounds.
        """
        self.loop.check(may_be_closed=True)
        self.is_closed = True
        try:
            await self._host.aclose()
            await self._parts.finish()  # if it never began
        finally:
            self._end()

    async def wait_ended(self) -> None:
        """Wait until the informer is closed or crashes.

        Cancellation:
            Safe.
        """
        self.loop.check()
        await self._ended.wait()

    def break_nowait(self, error: BaseException) -> None:
        """End the informer because of a bug: its cache and its events cannot be trusted."""
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
        if self.is_closed:  # before this task ran
            return
        try:
            await self._host.start()
        except BaseException:
            self.is_closed = True
            self._end()
            raise

    async def _main(self, group: TaskGroup, ready: Callable[[], None]) -> None:
        try:
            await self._parts.begin(group)
            ready()
            await self._broken.wait()
            group.cancel_scope.cancel()  # the watch stops before the handlers
            if self._breakage is not None:
                raise self._breakage
        finally:
            await self._parts.finish()

    def _crashed(self, error: InformerError) -> None:
        self.crash = error
        self._end(error)

    def _end(self, error: InformerError | None = None) -> None:
        self._parts.ended(error)
        self._ended.set()
