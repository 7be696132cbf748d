"""`pyinformer demo`: informers follow a small simulated cluster over real HTTP.

The exit status is 0 only if at the end every cache, and a mirror built only from handler calls,
equals what the server lists.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO, final

import anyio

from pyinformer.cache.informer import SharedInformer, SharedInformerFactory
from pyinformer.cli._shutdown import shutdown_signals
from pyinformer.cli.demo._cache_comparison import differences, list_objects
from pyinformer.cli.demo._demo_messages import (
    DeploymentView,
    EventLog,
    NodeView,
    PodView,
    deployment_message,
    node_message,
    pod_message,
)
from pyinformer.cli.demo._driver import Driver, Steppable
from pyinformer.cli.demo._handler_mirror import HandlerMirror
from pyinformer.cli.demo._metrics import Frame, WatchedResource, format_size, rss_bytes
from pyinformer.cli.demo._output_modes import Screen, screen_for
from pyinformer.cli.demo._simulated_cluster import DemoWorld
from pyinformer.client.cluster import connect
from pyinformer.errors import InformerError
from pyinformer.objects import Event, KubeObject, compare_resource_versions

if TYPE_CHECKING:
    from pyinformer.testing import APIServer

_SYNC_TIMEOUT_SECONDS = 10.0
_CATCH_UP_TIMEOUT_SECONDS = 10.0
_POLL_SECONDS = 0.02
_NAMED = 10  # printed differences; further ones are only counted
_SIGNALLED = 128  # plus the number of the signal, as in shells


def demo(*, seconds: float, seed: int, output: TextIO) -> int:
    """Run the demo. Call it in the main thread.

    Args:
        seconds: how long to watch the cluster.
        seed: the seed of the simulated events.
        output: receives the table, or the lines, and the summary.

    Returns:
        The exit status: 0 if everything is equal, 1 if not or if the demo could not run, 128 plus
        the number of the signal if Ctrl-C or SIGTERM ended it early.
    """
    from pyinformer.testing import APIServer

    run = DemoRun(seconds, output, screen_for(output, os.environ))
    try:
        with APIServer(seed=seed) as server:
            world = DemoWorld(server, seed=seed)
            world.populate()
            return asyncio.run(run.run(server, world))
    except KeyboardInterrupt:  # before the loop handles the signal, or a second one
        return _SIGNALLED + signal.SIGINT
    except (InformerError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        run.say(f"the demo failed: {error}")
        return 1
    finally:
        run.screen.close()


@final
@dataclass(eq=False)
class DemoRun:
    """One run of the demo."""

    seconds: float
    output: TextIO
    screen: Screen
    event_log: EventLog = field(default_factory=EventLog)
    watched: list[WatchedResource] = field(default_factory=list)
    elapsed_seconds: float = 0.0
    signalled: int = 0
    """The number of the signal that ended the demo early, or 0."""

    def say(self, line: str) -> None:
        """Print a line."""
        print(line, file=self.output, flush=True)

    async def run(self, server: APIServer, world: Steppable) -> int:
        """Watch the cluster, compare the caches with the server, and print a summary.

        Cancellation:
            Closes the informers and prints nothing.
        """
        wrong: list[str] = []
        async with connect(server=server.url) as cluster, SharedInformerFactory(cluster) as factory:
            self._add_informers(factory)
            with anyio.CancelScope() as scope, _handle_signals(partial(self._end, scope)):
                with Driver(world) as driver:
                    await factory.start()
                    await factory.wait_for_cache_sync(timeout_seconds=_SYNC_TIMEOUT_SECONDS)
                    await self._watch(server.url)
                wrong = await self._compare(server, driver)
            self.screen.close(self._frame(server.url))
        return self._print_summary(wrong)

    def _end(self, scope: anyio.CancelScope, number: int) -> None:
        self.signalled = number
        scope.cancel()

    def _add_informers(self, factory: SharedInformerFactory) -> None:
        pods = factory.informer("v1", "pods", model=PodView)
        pods.add_index("node", "spec.nodeName")

        def pods_on(node: str) -> int:
            return len(pods.lister.by_index("node", node, allow_unsynced=True))

        self._watch_resource("v1", "pods", pods, pod_message)
        nodes = factory.informer("v1", "nodes", model=NodeView)
        self._watch_resource("v1", "nodes", nodes, partial(node_message, pods_on=pods_on))
        deployments = factory.informer("apps/v1", "deployments", model=DeploymentView)
        self._watch_resource("apps/v1", "deployments", deployments, deployment_message)
        replica_sets = factory.informer("apps/v1", "replicasets")
        self._watch_resource("apps/v1", "replicasets", replica_sets, None)

    def _watch_resource(
        self,
        api_version: str,
        plural: str,
        informer: SharedInformer[Any],
        message_of: Callable[[Any], str | None] | None,
    ) -> None:
        mirror: HandlerMirror[Any] = HandlerMirror()
        informer.add_event_handler(mirror, name=f"mirror of {plural}")
        if message_of is not None:
            say = message_of

            def record(event: Event[Any]) -> None:
                self.event_log.record(plural, event.key, say(event))

            informer.add_event_handler(record, name=f"messages about {plural}")
        self.watched.append(WatchedResource(api_version, plural, informer, mirror))

    async def _watch(self, server: str) -> None:
        """Show frames until the time is over."""
        clock = asyncio.get_running_loop().time
        began = clock()
        while (left := self.seconds - self.elapsed_seconds) > 0:
            self.screen.show(self._frame(server))
            await anyio.sleep(min(left, self.screen.interval_seconds))
            self.elapsed_seconds = clock() - began

    def _frame(self, server: str) -> Frame:
        now = asyncio.get_running_loop().time()
        return Frame(
            elapsed_seconds=self.elapsed_seconds,
            total_seconds=self.seconds,
            server=server,
            rss_bytes=rss_bytes(),
            rows=tuple(watched.row(now) for watched in self.watched),
            event_log=self.event_log,
        )

    async def _compare(self, server: APIServer, driver: Driver) -> list[str]:
        """Wait until the informers have caught up, and compare them with the server."""
        wrong = [] if driver.error is None else [f"the simulation failed: {driver.error!r}"]
        wrong += await wait_caught_up(self.watched, server)
        for watched in self.watched:
            listed = await asyncio.to_thread(
                list_objects, server.url, watched.api_version, watched.plural
            )
            cache: dict[str, KubeObject[Any]] = {
                obj.key: obj for obj in watched.informer.lister.list(allow_unsynced=True)
            }
            mirror, plural = watched.mirror, watched.plural
            wrong += differences(f"the cache of {plural}", cache, listed)
            wrong += differences(f"the mirror of {plural}", mirror.objects, listed)
            wrong += [
                f"the handler of {plural} was called wrongly: {what}"
                for what in mirror.contradictions
            ]
        return wrong

    def _print_summary(self, wrong: list[str]) -> int:
        events = sum(watched.mirror.calls for watched in self.watched)
        self.say("")
        self.say(
            f"{self.elapsed_seconds:.1f} s: {events:,} events delivered to handlers,"
            f" process RSS {format_size(rss_bytes())} (API server included)"
        )
        for watched in self.watched:
            count = len(watched.informer.lister.keys(allow_unsynced=True))
            self.say(f"  {count:>5,} {watched.plural:<12}{watched.mirror.calls:>7,} events")
        if self.signalled:
            self.say("interrupted: nothing was compared")
            return _SIGNALLED + self.signalled
        if wrong:
            total = f"{len(wrong)} difference{'s' if len(wrong) > 1 else ''}"
            self.say(f"NOT EQUAL to what the server lists, {total}:")
            for difference in wrong[:_NAMED]:
                self.say(f"  {difference}")
            return 1
        self.say("equal to what the server lists, by key, uid, resource version and body:")
        self.say("  every cache, and a mirror of each built from handler calls alone")
        return 0


async def wait_caught_up(watched: list[WatchedResource], server: APIServer) -> list[str]:
    """Wait until every write has reached the handlers.

    Returns:
        A sentence for each informer that did not catch up in time or whose handlers raised.

    Cancellation:
        Safe.
    """
    target = server.resource_version
    behind: list[str] = []
    with anyio.move_on_after(_CATCH_UP_TIMEOUT_SECONDS):
        while True:
            server.send_bookmarks()  # only these advance the position of a quiet resource
            behind = [late for one in watched if (late := _lateness(one.informer, target))]
            if not behind:
                break
            await anyio.sleep(_POLL_SECONDS)
    failed = [
        f"{handler.name} raised {handler.failed} times, last {handler.last_error}"
        for one in watched
        for handler in one.informer.status().handlers
        if handler.failed
    ]
    return behind + failed


def _lateness(informer: SharedInformer[Any], target: str) -> str:
    """Return what an informer and its handlers still lack; empty if nothing."""
    status = informer.status()
    if not status.position or compare_resource_versions(status.position, target) < 0:
        return f"{status} is at {status.position or 'no position'}, the server at {target}"
    for handler in status.handlers:
        if handler.depth or handler.in_flight_key is not None:
            return f"{handler.name} has {handler.depth} events waiting"
    return ""


@contextmanager
def _handle_signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Call `stop` at the first Ctrl-C or SIGTERM; a second one ends the process."""
    loop = asyncio.get_running_loop()
    numbers = shutdown_signals()
    before = {number: signal.getsignal(number) for number in numbers}

    def once(number: int) -> None:
        for one in numbers:
            loop.remove_signal_handler(one)
        stop(number)

    try:
        for number in numbers:
            loop.add_signal_handler(number, once, number)
    except NotImplementedError:  # Windows: there asyncio.run() handles Ctrl-C
        numbers = ()
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
