"""What one of several replicas of an operator is, whether they elect a leader or share the keys.

Its caches are full before it competes for a Lease, and what is deleted meanwhile is remembered.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import Host, Startable, run_shielded
from pyinformer.errors import InformerError, InternalError
from pyinformer.operator._recent_deletions import RecentDeletions

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from pyinformer.cache.informer import SharedInformerFactory
    from pyinformer.controller import Controller, ControllerGroupStatus
    from pyinformer.leaderelection import LeaderElector
    from pyinformer.operator._builder import ControllerBuilder
    from pyinformer.operator._reconciler import Reconciler

_log = get_logger(__name__)

CLOSE_SECONDS: Final = 10.0
"""Beyond the drain and the grace period of the controllers."""


class Replica(Startable):
    """Keeps the caches of an operator in step, while it competes with other replicas.

    Args:
        title: its name in logs and errors.
        builder: has the caches, and makes the controllers.
        grace_seconds: how long its end may take.
    """

    def __init__(self, title: str, builder: ControllerBuilder, *, grace_seconds: float) -> None:
        self._title = title
        self._builder = builder
        self._factories: tuple[SharedInformerFactory, ...] = (builder.factory,)
        self._deletions = RecentDeletions()
        self._waiting: dict[str, str] = {}
        """The functions that are not called yet, and why."""
        self._ended = anyio.Event()
        self._failure: InformerError | None = None
        self._host = Host(title, self._main, grace_seconds=grace_seconds)

    @property
    @abstractmethod
    def controllers(self) -> tuple[Controller[None], ...]:
        """The controllers that run."""

    @property
    @abstractmethod
    def elector(self) -> LeaderElector:
        """Competes for the Lease of the operator, or for that of this replica alone."""

    @abstractmethod
    async def _prepare(self) -> None:
        """Start what has to run before it competes; the caches have synced.

        Cancellation:
            `_close` stops what was started.
        """

    @abstractmethod
    async def _compete(self) -> None:
        """Compete until cancelled.

        Cancellation:
            Ends the work and releases the Lease, and then takes effect.
        """

    @abstractmethod
    async def _close(self) -> None:
        """Close what does not end with the competition.

        Cancellation:
            It is shielded.
        """

    @abstractmethod
    def force_nowait(self) -> None:
        """Stop waiting for reconciles."""

    @abstractmethod
    def close_abandoned(self) -> None:
        """End the reconciles that ignored everything else: the program is ending."""

    @abstractmethod
    def status(self) -> ControllerGroupStatus:
        """Return the state of the controllers; from any thread."""

    @property
    def not_ready(self) -> list[str]:
        """The caches that have not synced; a replica with full caches and without work is ready."""
        found = self._builder.factory.status().informers
        return [f"not synced: {one}" for one in found if not one.has_synced]

    async def start(self) -> None:
        """Start the caches, wait until they have synced, and begin to compete.

        Raises:
            CacheSyncTimeoutError: a cache did not sync in time.

        Cancellation:
            aclose() stops what was started.
        """
        factory = self._builder.factory
        self._deletions.hold()
        for each in self._builder.reconcilers:
            self._follow_deletions(each)
        await factory.start()
        timeout_seconds = max(one.sync_timeout_seconds for one in self._builder.options)
        await factory.wait_for_cache_sync(timeout_seconds=timeout_seconds)
        self._deletions.release()
        await self._prepare()
        await self._host.start()

    def _follow_deletions(self, each: Reconciler) -> None:
        self._deletions.follow(each.name, self._builder.sources_of_deletions(each))

    async def wait_ended(self) -> None:
        """Wait until it has ended by itself.

        Cancellation:
            Safe.
        """
        await self._ended.wait()

    async def aclose(self) -> None:
        """Stop in order: the work, the release of the Lease, caches. A second call only waits.

        Raises:
            InformerError: why it had ended; raised by the first call only.

        Cancellation:
            Takes effect when everything has ended, which the options bound.
        """
        try:
            await self._host.aclose()
        finally:
            self._deletions.close()
            try:
                await run_shielded(f"the close of {self._title}", self._close())
            finally:
                for factory in self._factories:
                    await factory.aclose()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def _main(self, _group: TaskGroup, ready: Callable[[], None]) -> None:
        ready()
        try:
            await self._compete()
        except InternalError:
            raise
        except InformerError as error:  # it names the cure, and is not a crash
            self._failure = error
            _log.error("%s has ended: %s", self._title, error)
        finally:
            self._ended.set()

    def _with_failure(self, status: ControllerGroupStatus) -> ControllerGroupStatus:
        """Return a status with what waits, and why it has ended."""
        failure = self._failure
        return replace(
            status,
            waiting=tuple(f"{name}: {why}" for name, why in self._waiting.copy().items()),
            failure="" if failure is None else f"{self._title} has ended: {failure}",
        )
