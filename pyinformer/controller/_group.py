"""Several controllers of one program, started and stopped together.

What enters are controllers and the factories of their informers; what leaves is one lifetime: all
caches, then each controller's sync and workers; and at the end all sources, all drains, all caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import anyio

from pyinformer.apimachinery import InvalidArgumentError
from pyinformer.controller._lifecycle import Lifecycle
from pyinformer.controller._status import ControllerGroupStatus
from pyinformer.tasks import Startable

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from pyinformer.controller._controller import Controller
    from pyinformer.informer import SharedInformerFactory


@final
class ControllerGroup(Startable):
    """Runs controllers together: `async with ControllerGroup(a, b)`, or `await group.run()`.

    Each controller works as soon as all of its own caches have synced, whatever becomes of the
    others'; one that does not sync within its `sync_timeout_seconds` ends the group, since half a
    program is not what was asked for. So what is in a cluster that may be down when this program
    starts belongs into a controller and a group of its own. A cluster that goes down later
    delays nobody: its caches stay as they are and catch up.

    Args:
        controllers: each with a name of its own; none of them started.
        factories: are started before the controllers, and closed after them.

    Raises:
        InvalidArgumentError: two controllers have one name.
    """

    def __init__(
        self, *controllers: Controller[Any], factories: Sequence[SharedInformerFactory] = ()
    ) -> None:
        names = [controller.name for controller in controllers]
        for name in names:
            if names.count(name) > 1:
                reason = f"two are called {name!r}; metrics and logs could not tell them apart"
                raise InvalidArgumentError("controllers", reason)
        self._controllers = controllers
        self._engines = tuple(controller.engine for controller in controllers)
        self.life: Lifecycle = Lifecycle(
            f"controllers {', '.join(names)}", self._engines, factories
        )
        """What it does, for an Operator."""

    async def start(self) -> None:
        """Start the caches, wait until they have synced, and let the workers begin.

        Each controller begins when its own caches have synced.

        Raises:
            CacheSyncTimeoutError: a cache or a source took too long; everything was stopped.
            LifecycleError: it, or one of the controllers, was started or closed before.

        Cancellation:
            Stops what was started, waits for that, then goes on.
        """
        await self.life.start()

    async def wait_ended(self) -> None:
        """Wait until it is closed or has crashed.

        Cancellation:
            Safe.
        """
        await self.life.wait_ended()

    async def aclose(self) -> None:
        """Stop in order: all sources, what is in flight, then the caches. A second call only waits.

        Raises:
            InternalError: something inside had crashed.

        Cancellation:
            Takes effect when everything has ended, which the deadlines bound.
        """
        await self.life.aclose()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start, and stay until SIGTERM or SIGINT asks for the end; a second signal forces it.

        SIGUSR1 has it log how everything is. Outside of the main thread no signals are heard.

        Raises:
            CacheSyncTimeoutError: a cache or a source took too long; everything was stopped.
            InternalError: something inside crashed.

        Cancellation:
            Closes as aclose() does, then goes on.
        """
        await self.life.run(task_status=task_status)

    def status(self) -> ControllerGroupStatus:
        """Return how everything is doing: a frozen record without object content."""
        return ControllerGroupStatus(
            controllers=tuple(controller.status() for controller in self._controllers),
            watchdog=self.life.watchdog.statistics(),
            abandoned=tuple(name for engine in self._engines for name in engine.abandoned),
        )

    def __repr__(self) -> str:
        return f"<ControllerGroup of {len(self._controllers)} controllers>"
