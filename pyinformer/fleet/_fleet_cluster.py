"""One cluster of a fleet: opened, engaged, and closed again, each by the task that keeps it.

Whatever fails is closed and tried again, at growing intervals, without a caller.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import error_text, run_shielded
from pyinformer.controller import checked_controllers
from pyinformer.errors import ClusterUnavailableError, LifecycleError
from pyinformer.fleet._status import FleetClusterState, FleetClusterStatus
from pyinformer.objects import ExponentialBackoff

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyinformer.client.cluster import ClusterPool, PooledClusterStatus
    from pyinformer.controller import Controller, ControllerGroup

_log = get_logger(__name__)

_T = TypeVar("_T")

_OPEN_SECONDS: Final = 60.0  # of one wait for the pool, which has its own limits
_RETRY_INITIAL_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.5  # at a reconcile that ignores its cancellation
_RETRY_MAX_SECONDS: Final = 60.0  # a cluster that is back is used within a minute, as by the pool


@final
class FleetCluster(Generic[_T]):
    """Keeps one cluster open and engaged, from `keep` until that is cancelled.

    Args:
        name: its name.
        address: what its connection depends on.
        pool: opens it.
        group: runs its controllers; None if it has none.
        controllers: returns the controllers of what the pool opened.
        engages: called with its controllers before they are engaged.
    """

    def __init__(
        self,
        name: str,
        address: object,
        *,
        pool: ClusterPool[_T],
        group: ControllerGroup | None,
        controllers: Callable[[_T], Controller[Any] | Sequence[Controller[Any]]],
        engages: Callable[[FleetCluster[_T]], None],
    ) -> None:
        self.name: str = name
        self.address: object = address
        self.controllers: tuple[Controller[Any], ...] = ()
        """Those that are engaged, or have left reconciles behind that ignore their cancellation."""
        self._scope = anyio.CancelScope()
        self._pool = pool
        self._group = group
        self._controllers_of = controllers
        self._engages = engages
        self._now = asyncio.get_running_loop().time
        self._state: FleetClusterState = "opening"
        self._since = self._now()
        self._reason = ""
        self._retry_at: float | None = None
        self._backoff = ExponentialBackoff(
            initial_seconds=_RETRY_INITIAL_SECONDS,
            max_seconds=_RETRY_MAX_SECONDS,
            reset_after_seconds=2 * _RETRY_MAX_SECONDS,
        )

    def end_nowait(self, why: str) -> None:
        """Have it closed; `keep` returns when that is done."""
        if not self._scope.cancel_called:
            _log.info("cluster %s is closed: %s", self.name, why)
        self._scope.cancel()

    async def keep(self) -> None:
        """Use the cluster until `end_nowait`; then close it.

        Returns only when no reconcile of it runs any more: its keys must not be handled twice.

        Cancellation:
            Disengages and closes it, which the deadlines bound, and then takes effect.
        """
        try:
            with self._scope:
                while True:
                    await self._use()
        finally:
            self._change("ending")
            await run_shielded(f"the close of cluster {self.name}", self._close())
        await self._wait_for_left()

    async def _use(self) -> None:
        """Open it, and use it until it breaks; then wait until it may be tried again."""
        if self._group is not None and self._group.lifecycle.has_ended:
            await self._give_up("the group has ended", logging.INFO)  # maybe by a signal
        try:
            value = await self._pool.get(self.name, timeout_seconds=_OPEN_SECONDS)
        except ClusterUnavailableError as error:  # the pool has logged it
            await self._wait(error.reason, error.retry_after_seconds or 0.0)
            return
        except LifecycleError as error:
            await self._give_up(str(error), logging.ERROR)
            return
        failure = await self._serve(value)
        await run_shielded(f"the end of cluster {self.name}", self._disengage())
        await self._wait_for_left()
        if self._group is not None and self._group.lifecycle.has_ended:
            return
        if failure:
            _log.warning("cluster %s cannot be used: %s", self.name, failure)
            await run_shielded(f"the close of cluster {self.name}", self._close())
        # What breaks again and again, however briefly it was open, is tried less and less often.
        await self._wait(failure or "it broke, or was evicted", self._backoff.next(self._now()))

    async def _serve(self, value: _T) -> str:
        """Engage its controllers, and wait until it is not open any more.

        Returns:
            Why it cannot be used; empty if it could.
        """
        if self._group is None:
            self._change("working")
            await self._pool.wait_closed(self.name)
            return ""
        try:
            controllers = checked_controllers(self._controllers_of(value))
            self.controllers = controllers
            self._engages(self)
            self._group.engage(controllers, self.name)
        except BaseException as error:
            self.controllers = ()
            if isinstance(error, ENDS_PROGRAM):
                raise
            return error_text(error)  # the user's function; it concerns this cluster alone
        self._change("starting")
        async with anyio.create_task_group() as group:
            group.start_soon(self._follow_pool, group.cancel_scope)
            await self._group.wait_disengaged(self.name)
            group.cancel_scope.cancel()
        status = self._group.engaged(self.name)
        self._change("ending")
        return status.reason if status is not None and status.state == "failed" else ""

    async def _follow_pool(self, scope: anyio.CancelScope) -> None:
        await self._pool.wait_closed(self.name)
        scope.cancel()

    async def _disengage(self) -> None:
        if self.controllers and self._group is not None:
            await self._group.disengage(self.name)

    async def _close(self) -> None:
        await self._disengage()
        with suppress(LifecycleError):  # the pool is closed, and with it the cluster
            await self._pool.evict(self.name)

    async def _wait_for_left(self) -> None:
        """Wait until no reconcile runs that ignored its cancellation."""
        while left := [name for one in self.controllers for name in one.engine.abandoned]:
            self._reason = f"ignoring cancellation: {', '.join(left)}"
            await anyio.sleep(_LOOK_SECONDS)
        self.controllers = ()

    async def _wait(self, reason: str, seconds: float) -> None:
        """Wait until it may be tried again."""
        self._reason = reason
        if seconds > 0:
            self._retry_at = self._now() + seconds
            self._change("failed", reason)
            await anyio.sleep(seconds)
            self._retry_at = None
            self._change("opening", reason)

    async def _give_up(self, reason: str, level: int) -> None:
        _log.log(level, "cluster %s is not used any more: %s", self.name, reason)
        self._change("failed", reason)
        await anyio.sleep_forever()

    def _change(self, state: FleetClusterState, reason: str = "") -> None:
        if state != self._state:
            self._state, self._since = state, self._now()
        self._reason = reason

    def status(self, pooled: PooledClusterStatus | None, no_address: str) -> FleetClusterStatus:
        """Return its state; from any thread.

        Args:
            pooled: its state in the pool.
            no_address: why its address is not known any more; empty if it is.
        """
        state, reason, age_seconds = self._state, self._reason, None
        engaged = None
        if self._group is not None and self.controllers:
            engaged = self._group.engaged(self.name)
        if engaged is not None and state == "starting":
            age_seconds = engaged.age_seconds
            reason = engaged.reason
            if engaged.state == "working":
                state = "working"
        if state == "opening" and pooled is not None:
            reason = pooled.reason or reason
        retry_at = self._retry_at
        return FleetClusterStatus(
            name=self.name,
            state=state,
            state_seconds=max(0.0, self._now() - self._since),
            reason=reason or no_address,
            retry_after_seconds=None if retry_at is None else max(0.0, retry_at - self._now()),
            age_seconds=age_seconds,
        )
