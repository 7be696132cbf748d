"""What the user's code of a foreign peer does with each update, and when it has seen them all.

The same work at every peer: `metadata` reads the name and, of a pod, the phase; `object` takes the
object as the peer gives it, whole and decoded (none has a private copy to give); `queue` puts the
key into a queue that one worker empties. Handlers may be called on any thread, but on one at a
time.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from benchmarks.harness.latencies import Latencies
from benchmarks.harness.phases import Phases, Workload

_TIMEOUT_SECONDS = 800.0  # below that of the parent, so that a row names what it waited for

ForeignObject: TypeAlias = Any
Handler: TypeAlias = Callable[[ForeignObject], None]


@dataclass(frozen=True, slots=True)
class Reading:
    """How a peer's objects are read."""

    key: Callable[[ForeignObject], str]
    """`namespace/name`."""
    version: Callable[[ForeignObject], str]
    name: Callable[[ForeignObject], object]
    phase: Callable[[ForeignObject], object]
    """Of a pod's status."""


DICTS = Reading(
    key=lambda item: f"{item['metadata']['namespace']}/{item['metadata']['name']}",
    version=lambda item: item["metadata"]["resourceVersion"],
    name=lambda item: item["metadata"]["name"],
    phase=lambda item: item["status"]["phase"],
)
"""Of dicts as the API server's JSON has them."""

SNAKE_CASE = Reading(
    key=lambda item: f"{item.metadata.namespace}/{item.metadata.name}",
    version=lambda item: item.metadata.resource_version,
    name=lambda item: item.metadata.name,
    phase=lambda item: item.status.phase,
)
"""Of typed models with Python's names."""

CAMEL_CASE = Reading(
    key=lambda item: f"{item.metadata.namespace}/{item.metadata.name}",
    version=lambda item: item.metadata.resourceVersion,
    name=lambda item: item.metadata.name,
    phase=lambda item: item.status.phase,
)
"""Of typed models with the API's names."""


ChoiceT = TypeVar("ChoiceT")


def choose(by_resource: Mapping[str, ChoiceT], resource: str) -> ChoiceT:
    """Return what a peer has for a resource.

    Raises:
        NotImplementedError: it has nothing.
    """
    if resource not in by_resource:
        raise NotImplementedError(f"this peer has no model or call for {resource}")
    return by_resource[resource]


class Reactions:
    """All handlers of one peer; the first of them counts."""

    def __init__(self, phases: Phases, reading: Reading, *, on_thread: bool = False) -> None:
        """Prepare the handlers; to be called on the loop.

        Args:
            phases: the stopwatch, with the workload.
            reading: how the peer's objects are read.
            on_thread: the peer calls handlers on a thread of its own, not on the loop.
        """
        workload = phases.workload
        if workload.work != "follow":
            raise NotImplementedError(f"this peer takes no part in {workload.work!r}")
        self._keys: _Keys = _ThreadKeys() if on_thread else _LoopKeys()
        self._act = _act(workload, reading, self._keys)
        self.handlers: list[Handler] = [self._updated]
        self.handlers += [self._act] * (workload.handlers - 1)
        """Each is called once for every update."""
        self._phases = phases
        self._version = reading.version
        self._latencies = Latencies() if workload.updates_per_second else None
        self._updates = 0
        self._missing = workload.objects
        self._loop = asyncio.get_running_loop()
        self._has_initial_state = asyncio.Event()
        self._has_last_update = asyncio.Event()

    def added(self, _: ForeignObject) -> None:
        """Handle an object of the initial state."""
        self._missing -= 1
        if not self._missing:
            self._loop.call_soon_threadsafe(self._has_initial_state.set)

    def call(self, item: ForeignObject) -> None:
        """Call every handler, for a peer that has no list of its own."""
        for handler in self.handlers:
            handler(item)

    async def wait_for_initial_state(self) -> None:
        """Wait until `added` has seen every object.

        Cancellation:
            Safe.
        """
        async with _limit("the initial state"):
            await self._has_initial_state.wait()

    async def follow_updates(self) -> None:
        """Let the server send the updates, wait for the last one, and stop the clock.

        Cancellation:
            The server may or may not have begun to send.
        """
        workload = self._phases.workload
        if not workload.updates:
            return
        await self._phases.release_updates()
        async with _limit("the last update"):
            await self._has_last_update.wait()
            await self._keys.drained()
        self._phases.updated(seen=self._updates)
        if self._latencies is not None:
            self._phases.result.extra |= self._latencies.figures(workload)

    def _updated(self, item: ForeignObject) -> None:
        version = self._version(item)
        if self._latencies is not None:
            self._latencies.note(version)
        self._act(item)
        self._updates += 1
        if version == self._phases.workload.last_resource_version:
            self._loop.call_soon_threadsafe(self._has_last_update.set)


async def follow(
    stream: ForeignObject, store: dict[str, ForeignObject], reactions: Reactions
) -> None:
    """Keep a dict in step with pairs of a change and an object with camel-case names.

    Cancellation:
        Safe; what was taken is in the dict.
    """
    async for change, item in stream:
        if change == "DELETED":
            store.pop(CAMEL_CASE.key(item), None)
        else:
            store[CAMEL_CASE.key(item)] = item
            reactions.call(item)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run a watch during the block; if it ends or fails before the block, raise an error."""

    async def must_go_on() -> None:
        await work
        raise RuntimeError("the watch ended before the last update")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(must_go_on())
        yield
        task.cancel()


def _act(workload: Workload, reading: Reading, keys: _Keys) -> Handler:
    """Choose what is done with an update."""
    name, phase, key, put = reading.name, reading.phase, reading.key, keys.put

    def read_metadata(item: ForeignObject) -> None:
        name(item)
        if is_pod:
            phase(item)

    def take_object(item: ForeignObject) -> None:
        pass  # it is here, and all of it is decoded

    def put_key(item: ForeignObject) -> None:
        put(key(item))

    is_pod = workload.kind == "Pod"
    return {"metadata": read_metadata, "object": take_object, "queue": put_key}[workload.handler]


class _Keys(Protocol):
    """A queue of keys, emptied by one worker."""

    def put(self, key: str) -> None: ...

    async def drained(self) -> None: ...


class _LoopKeys:
    """Keys that are put and taken on the loop, by a worker that begins with the first."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None

    def put(self, key: str) -> None:
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        self._queue.put_nowait(key)

    async def drained(self) -> None:
        await self._queue.join()
        if self._worker is not None:
            self._worker.cancel()

    async def _work(self) -> None:
        while True:
            await self._queue.get()
            self._queue.task_done()


class _ThreadKeys:
    """Keys that one thread puts and another takes."""

    def __init__(self) -> None:
        self._queue: queue.Queue[str] = queue.Queue()
        self.put = self._queue.put
        threading.Thread(target=self._work, daemon=True).start()

    async def drained(self) -> None:
        await asyncio.to_thread(self._queue.join)

    def _work(self) -> None:
        while True:
            self._queue.get()
            self._queue.task_done()


@asynccontextmanager
async def _limit(awaited: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            yield
    except TimeoutError:
        raise TimeoutError(f"{awaited} was not seen within {_TIMEOUT_SECONDS:.0f} s") from None
