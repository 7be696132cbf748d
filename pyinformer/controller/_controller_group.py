"""Several controllers of one program, started and stopped together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import anyio

from pyinformer._runtime.tasks import Startable
from pyinformer.controller._lifecycle import Lifecycle
from pyinformer.controller._status import ControllerGroupStatus
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import check_iterable

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from pyinformer.cache.informer import SharedInformerFactory
    from pyinformer.controller._controller import Controller


@final
class ControllerGroup(Startable):
    """Runs controllers together: `async with ControllerGroup(a, b)`, or `await group.run()`.

    Each controller begins as soon as its caches have synced, independently of the others. If one
    does not sync within its `sync_timeout_seconds`, the whole group ends. So put the informers of a
    cluster that may be down when the program starts into a separate controller and group. A cluster
    that goes down later delays no controller: its caches keep their objects and catch up.

    Args:
        controllers: each with a unique name; none of them started.
        factories: started before the controllers, and closed after them.

    Raises:
        InvalidArgumentError: two controllers have the same name.
        InvalidTypeError: one of them is not a controller, or `factories` are none.
    """

    def __init__(
        self, *controllers: Controller[Any], factories: Sequence[SharedInformerFactory] = ()
    ) -> None:
        for controller in controllers:
            if not hasattr(controller, "engine"):
                reason = f"must be Controllers, got {type(controller).__name__}"
                raise InvalidTypeError("controllers", reason)
        check_iterable("factories", factories, shown="a sequence of factories")
        names = [controller.name for controller in controllers]
        for name in names:
            if names.count(name) > 1:
                reason = f"two are named {name!r}; metrics and logs need unique names"
                raise InvalidArgumentError("controllers", reason)
        self._controllers = controllers
        name = f"controllers {', '.join(names)}"
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
            abandoned=tuple(name for one in self._controllers for name in one.engine.abandoned),
        )

    def __repr__(self) -> str:
        return f"<ControllerGroup of {len(self._controllers)} controllers>"
