"""Several controllers of one program, started and stopped together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import anyio

from pyinformer._runtime.tasks import Startable
from pyinformer.controller._engagement import Engagement
from pyinformer.controller._lifecycle import Lifecycle
from pyinformer.controller._status import ControllerGroupStatus
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import check_iterable, check_text

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from pyinformer.cache.informer import SharedInformer, SharedInformerFactory
    from pyinformer.controller._controller import Controller
    from pyinformer.controller._status import EngagedClusterStatus


@final
class ControllerGroup(Startable):
    """Runs controllers together: `async with ControllerGroup(a, b)`, or `await group.run()`.

    Each controller begins as soon as its caches have synced, independently of the others. If one
    does not sync within its `sync_timeout_seconds`, the whole group ends: those of a cluster that
    may be down when the program starts are engaged later, with `engage`. A cluster that goes down
    later delays no controller: its caches keep their objects and catch up.

    Args:
        controllers: each with a unique name; none of them started. None of them is needed.
        factories: started before the controllers, and closed after them.

    Raises:
        InvalidArgumentError: two controllers have the same name.
        InvalidTypeError: one of them is not a controller, or `factories` are none.
    """

    def __init__(
        self, *controllers: Controller[Any], factories: Sequence[SharedInformerFactory] = ()
    ) -> None:
        names = _checked_names("controllers", controllers)
        check_iterable("factories", factories, shown="a sequence of factories")
        self._controllers = controllers
        self._engaged: dict[str, Engagement] = {}
        name = f"controllers {', '.join(names)}" if names else "a group of engaged clusters"
        engines = tuple(controller.engine for controller in controllers)
        self.lifecycle: Lifecycle = Lifecycle(name, engines, factories)
        """Its start and end, for an Operator."""

    async def start(self) -> None:
        """Start the caches, wait until they have synced, and start the workers.

        Each controller begins when its own caches have synced.

        Raises:
            CacheSyncTimeoutError: a cache or a source took too long; everything was stopped.
            LifecycleError: it, or one of the controllers, was started or closed before.

        Cancellation:
            Stops what was started, waits for that, then continues.
        """
        await self.lifecycle.start()

    async def run_one(
        self,
        controller: Controller[Any],
        factories: Sequence[SharedInformerFactory],
        on_started: Callable[[], None],
    ) -> None:
        """Start one more controller and run its sources; for an Operator.

        Args:
            controller: with a name of its own.
            factories: started before it, and closed after it.
            on_started: called when its workers run.

        Raises:
            InformerError: it could not start. It was stopped, and the others continue.

        Cancellation:
            The way to stop the sources; `lifecycle.start_soon` makes such a task.
        """

        def started() -> None:
            """Show it from now on: the group was ready before."""
            self._controllers = (*self._controllers, controller)
            on_started()

        await self.lifecycle.run_one(controller.engine, factories, started)

    def engage(self, controller: Controller[Any] | Sequence[Controller[Any]], cluster: str) -> None:
        """Start the controllers of a further cluster beside the others; with the group at first.

            group.engage(Controller("sync", sync, factory.informer("v1", "pods")), "east")
            ...
            await group.disengage("east")

        They have a queue and workers of their own, so that a cluster that stalls holds up only its
        own keys. They begin when their caches have synced, however long that takes; `status()`
        says what they wait for. They end with the group at the latest. If a cache of theirs
        crashes or is closed before it has synced, they alone end: that is logged, and shown until
        they are disengaged.

        Args:
            controller: one that was not started, or several with different names. Informers of the
                cluster that do not run are started, and closed when they are disengaged. Those of
                other clusters have to run when the group does, best by its `factories`.
            cluster: the name to disengage them by, that of their informers' cluster.

        Raises:
            InvalidArgumentError: a cluster of this name is engaged, or their informers are in
                others; or two controllers have the same name.
            InvalidTypeError: it is not a controller, or the name not a text.
            LifecycleError: the group has ended, or belongs to another event loop; or a controller
                was started before.
        """
        controllers = checked_controllers(controller)
        check_text("cluster", cluster)
        self.lifecycle.claim_loop()
        self._forget_ended()
        if cluster in self._engaged:
            reason = self._engaged[cluster].why_not_again()
            raise InvalidArgumentError("cluster", reason)
        for one in controllers:
            one.engine.refuse_if_begun()
            for primary in one.engine.primaries:
                if primary.cluster.name != cluster:
                    reason = (
                        f"must be {primary.cluster.name!r}, the name of the cluster of {primary!r},"
                        f" got {cluster!r}"
                    )
                    raise InvalidArgumentError("cluster", reason)
        engagement = Engagement(cluster, controllers, self.lifecycle)
        engagement.begin()
        self._engaged[cluster] = engagement

    async def disengage(self, cluster: str) -> None:
        """Stop the controllers of a cluster: sources, running reconciles, own caches.

        Running reconciles have their time to finish, and are then cancelled, as at the end of a
        controller; waiting requests are dropped. A name that is not engaged is ignored. A reconcile
        that ignores its cancellation is not waited for; as long as it runs, the cluster is shown,
        and cannot be engaged again: its keys would be reconciled twice.

        Args:
            cluster: the name under which they were engaged.

        Raises:
            InvalidTypeError: the name is not a text.

        Cancellation:
            Takes effect when they have ended, which their deadlines bound.
        """
        check_text("cluster", cluster)
        engagement = self._engaged.get(cluster)
        if engagement is None:
            return
        try:
            await engagement.end()
        finally:
            self._forget_ended()

    def _forget_ended(self) -> None:
        """Forget what was disengaged, but for reconciles that ignore their cancellation."""
        self._engaged = {name: one for name, one in self._engaged.items() if not one.is_over}

    def engaged(self, cluster: str) -> EngagedClusterStatus | None:
        """Return the state of an engaged cluster; None if no cluster of this name is engaged.

        Raises:
            InvalidTypeError: the name is not a text.
        """
        check_text("cluster", cluster)
        engagement = self._engaged.get(cluster)
        return None if engagement is None or engagement.is_over else engagement.status()

    @property
    def engaged_informers(self) -> tuple[SharedInformer[Any], ...]:
        """The informers of the engaged clusters: no factory has them."""
        found = (one for each in tuple(self._engaged.values()) for one in each.informers)
        return tuple(dict.fromkeys(found))

    async def wait_disengaged(self, cluster: str) -> None:
        """Wait until the controllers of a cluster have ended, by themselves or not.

        Returns at once if it is not engaged.

        Raises:
            InvalidTypeError: the name is not a text.

        Cancellation:
            Safe; they continue.
        """
        check_text("cluster", cluster)
        engagement = self._engaged.get(cluster)
        if engagement is not None:
            await engagement.wait_ended()

    async def wait_ended(self) -> None:
        """Wait until it is closed or has crashed.

        Cancellation:
            Safe.
        """
        await self.lifecycle.wait_ended()

    async def aclose(self) -> None:
        """Stop in order: sources, running reconciles, caches. A second call only waits.

        Raises:
            InternalError: something inside had crashed.

        Cancellation:
            Takes effect when everything has ended, which the deadlines bound.
        """
        await self.lifecycle.aclose()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start, and run until SIGTERM or SIGINT asks for the end; a second signal forces it.

        At SIGUSR1 it logs its status. Outside the main thread it does not handle signals.

        Raises:
            CacheSyncTimeoutError: a cache or a source took too long; everything was stopped.
            InternalError: something inside crashed.

        Cancellation:
            Closes as aclose() does, then continues.
        """
        await self.lifecycle.run(on_started=task_status.started)

    def status(self) -> ControllerGroupStatus:
        """Return the group's state: a frozen record without object content."""
        return ControllerGroupStatus(
            controllers=tuple(controller.status() for controller in self._controllers),
            watchdog=self.lifecycle.watchdog.statistics(),
            abandoned=tuple(name for one in self.lifecycle.engines for name in one.abandoned),
            engaged=tuple(one.status() for one in tuple(self._engaged.values()) if not one.is_over),
        )

    def __repr__(self) -> str:
        return f"<ControllerGroup of {len(self._controllers)} controllers>"


def checked_controllers(
    controller: Controller[Any] | Sequence[Controller[Any]],
) -> tuple[Controller[Any], ...]:
    """Return one controller, or several, as a tuple.

    Raises:
        InvalidArgumentError: two have the same name, or there is none.
        InvalidTypeError: one of them is not a controller.
    """
    found = tuple(controller) if isinstance(controller, Sequence) else (controller,)
    if not found:
        raise InvalidArgumentError("controller", "must not be empty: at least one is engaged")
    _checked_names("controller", found)
    return found


def _checked_names(argument: str, controllers: Sequence[Controller[Any]]) -> list[str]:
    for controller in controllers:
        if not hasattr(controller, "engine"):
            reason = f"must be Controllers, got {type(controller).__name__}"
            raise InvalidTypeError(argument, reason)
    names = [controller.name for controller in controllers]
    for name in names:
        if names.count(name) > 1:
            reason = f"two are named {name!r}; metrics and logs need unique names"
            raise InvalidArgumentError(argument, reason)
    return names
