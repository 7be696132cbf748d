"""The controllers of one cluster that a running group has engaged, from then until it disengages.

They are started and ended by a task of the group, and no other cluster waits for them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.controller._lifecycle import Lifecycle
from pyinformer.controller._status import EngagedClusterStatus, EngagedState
from pyinformer.errors import InformerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyinformer.cache.informer import SharedInformer
    from pyinformer.controller._controller import Controller

_log = get_logger(__name__)


@final
class Engagement:
    """The controllers of one cluster.

    Args:
        cluster: its name.
        controllers: none of them started.
        group: the lifecycle of the group.
    """

    def __init__(
        self, cluster: str, controllers: Sequence[Controller[Any]], group: Lifecycle
    ) -> None:
        self.cluster: str = cluster
        self.controllers: tuple[Controller[Any], ...] = tuple(controllers)
        self._group = group
        self._lifecycle = Lifecycle(
            f"the controllers of cluster {cluster}",
            [one.engine for one in controllers],
            cluster=cluster,
            watchdog=group.watchdog,
        )
        self._state: EngagedState = "starting"
        self._now = asyncio.get_running_loop().time
        self._since = self._now()
        self._failure = ""
        self._is_over = False
        self._ended = anyio.Event()

    @property
    def is_over(self) -> bool:
        """Whether it was disengaged, and no reconcile is left that ignores its cancellation."""
        return self._is_over and not self._left

    def why_not_again(self) -> str:
        """Return why the cluster cannot be engaged now."""
        if not self._is_over:
            return f"{self.cluster!r} is engaged: `await group.disengage({self.cluster!r})` first"
        left = ", ".join(self._left)
        return f"{self.cluster!r} is still engaged: reconciles ignore their cancellation: {left}"

    @property
    def _left(self) -> list[str]:
        return [name for one in self.controllers for name in one.engine.abandoned]

    def begin(self) -> None:
        """Start them in a task of the group, with the group if that has not begun.

        Raises:
            LifecycleError: the group has ended.
        """
        self._group.run_beside(self._run, self._ended.set)

    async def _run(self) -> None:
        try:
            await self._group.run_engaged(self._lifecycle, self._started)
        except InformerError as error:
            if self._state != "ending":
                self._fail(error)

    def _started(self) -> None:
        if self._state == "starting":
            self._change("working")
            names = ", ".join(one.name for one in self.controllers)
            _log.info("cluster %s is engaged; its controllers work: %s", self.cluster, names)

    def _fail(self, error: InformerError) -> None:
        self._failure = str(error)
        self._change("failed")
        _log.error(
            "cluster %s: its controllers have ended, and wait to be disengaged and engaged"
            " again: %s",
            self.cluster,
            error,
        )

    def _change(self, state: EngagedState) -> None:
        self._state, self._since = state, self._now()

    async def end(self) -> None:
        """End them, and wait until they have ended.

        Cancellation:
            Takes effect when they have ended, which their deadlines bound.
        """
        if self._state != "failed":
            self._change("ending")
        try:
            with suppress(InformerError):  # logged by the task that runs them
                await self._lifecycle.aclose()
        finally:
            if not self._is_over:
                _log.info("cluster %s is disengaged", self.cluster)
            self._is_over = True

    async def wait_ended(self) -> None:
        """Wait until they have ended, by themselves or not.

        Cancellation:
            Safe.
        """
        await self._ended.wait()

    def status(self) -> EngagedClusterStatus:
        """Return their state; from any thread."""
        informers = self.informers
        ages = [one.age_seconds() for one in informers]
        known = [age for age in ages if age is not None]
        return EngagedClusterStatus(
            name=self.cluster,
            state=self._state,
            state_seconds=max(0.0, self._now() - self._since),
            reason=self._failure or self._missing(informers),
            age_seconds=max(known) if known and len(known) == len(ages) else None,
            controllers=tuple(one.status() for one in self.controllers),
        )

    @property
    def informers(self) -> list[SharedInformer[Any]]:
        """Those of all its controllers."""
        return list(
            dict.fromkeys(one for each in self.controllers for one in each.engine.informers)
        )

    def _missing(self, informers: Sequence[SharedInformer[Any]]) -> str:
        """Return what it waits for, or what its caches lack."""
        if self._left:
            return f"ignoring cancellation: {', '.join(self._left)}"
        if self._state == "starting":
            return "; ".join(line for one in informers for line in one.status().pending())
        if self._state != "working":
            return ""
        closed = [f"{one.name} is closed" for one in informers if one.is_closed]
        behind = [f"{one.name}: {one.staleness}" for one in informers if one.staleness]
        return "; ".join(closed or behind)
