"""A controller whose events come from the test itself.

The test passes a reconcile function and options, and gets a running controller and a source to
which it reports events. Nothing needs a server, so time can be virtual.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from pyinformer import Controller, ControllerOptions, Request
from pyinformer.controller.sources import Reason, SourceStatus
from tests.limiters import doubling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from pyinformer import Event, Reconcile, Result
    from pyinformer.controller.sources import Enqueue, RequestId


class Said:
    """A source that notices what the test says."""

    informer = None

    def __init__(self, name: str = "said", *, has_synced: bool = True) -> None:
        self.name = name
        self.synced = anyio.Event()
        if has_synced:
            self.synced.set()
        self.enqueue: Enqueue | None = None
        self.is_running = False
        self.was_detached = False

    @property
    def has_synced(self) -> bool:
        """Whether the test has said so."""
        return self.synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the test continues it.

        Cancellation:
            Safe.
        """
        await self.synced.wait()

    def say(self, key: str, *, priority: int = 0, resource_version: str = "") -> None:
        """Have an event of this key."""
        assert self.enqueue is not None
        reason = Reason(self.name, "updated", key, resource_version)
        self.enqueue(Request(key), reason, priority=priority)

    def attach(self, enqueue: Enqueue) -> None:
        """Remember where requests go."""
        self.enqueue = enqueue

    async def run(self) -> None:
        """Run until cancelled.

        Cancellation:
            Ends it.
        """
        self.is_running = True
        try:
            await anyio.sleep_forever()
        finally:
            self.is_running = False

    def detach(self) -> None:
        """Record that the source is detached."""
        self.was_detached = True

    def requests_for(self, event: Event[object]) -> list[Request]:
        """Request what the event is about."""
        return [Request(event.key)]

    def replay(self, wanted: Callable[[RequestId], bool]) -> Iterator[None]:
        """Return nothing: it says what it is to say."""
        return iter(())

    def status(self) -> SourceStatus:
        """Say nothing of interest."""
        return SourceStatus(
            name=self.name,
            has_synced=self.has_synced,
            waiting=0,
            events=0,
            filtered=0,
            unchanged=0,
            enqueued=0,
            resyncs=0,
            failures=0,
            last_failure=None,
        )


class Calls:
    """A reconcile that notes when it was called and does what the test wants."""

    def __init__(self, *script: Result | BaseException | None) -> None:
        self.script = list(script)
        self.seen: list[tuple[float, str]] = []

    async def __call__(self, request: Request, obj: object) -> Result | None:
        """Note the call and follow the script; afterwards succeed.

        Cancellation:
            Never waits.
        """
        self.seen.append((round(asyncio.get_running_loop().time(), 6), str(request)))
        step = self.script.pop(0) if self.script else None
        if isinstance(step, BaseException):
            raise step
        return step

    @property
    def times(self) -> list[float]:
        """When it was called."""
        return [at for at, _ in self.seen]


def options(**changes: object) -> ControllerOptions:
    """Make options without chance."""
    first_seconds: Any = changes.pop("backoff_seconds", 0.005)
    settings: dict[str, object] = {"rate_limiter": doubling(first_seconds), "rng": random.Random(1)}
    return ControllerOptions(**(settings | changes))  # type: ignore[arg-type]


@asynccontextmanager
async def running(
    reconcile: Reconcile[None], **changes: Any
) -> AsyncIterator[tuple[Controller[None], Said]]:
    """Run a controller with a source that the test drives; one worker by default."""
    workers = changes.pop("workers", 1)
    controller = Controller("c", reconcile, workers=workers, options=options(**changes))
    source = Said()
    controller.add_source(source)
    async with controller:
        yield controller, source
