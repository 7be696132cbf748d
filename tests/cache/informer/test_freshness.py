"""How changes of a cache reach its overlay and its barrier.

The sink is driven by hand, and time is virtual: a waiter is released in the turn of the loop in
which the cache gets there, not a second later by a list of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import anyio
import pytest

import pyinformer
from pyinformer.cache.informer import InformerSettings, Scope, StoreSink
from pyinformer.cache.informer._barrier import WriteTarget
from pyinformer.cache.informer._context import InformerContext
from pyinformer.cache.informer._metrics import InformerMetrics
from pyinformer.cache.informer._own_write_progress import Freshness
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.cache.store import Indexer
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated, VersionOrder
from pyinformer.telemetry.metrics import NO_METRICS
from tests.pods import make
from tests.sinks import SinkOwner
from tests.waiting import until

pytestmark = pytest.mark.virtual_time


class Reflector:
    """What fills the cache, as far as it is asked where it stands."""

    def __init__(self) -> None:
        self.position = "100"
        self.epoch = 0
        self.is_resetting = False
        self.version_order = VersionOrder.GLOBAL
        self.buried: set[tuple[str, str]] = set()

    def has_tombstone(self, key: str, uid: str) -> bool:
        """Return whether a deletion is remembered."""
        return (key, uid) in self.buried


class Running:
    """The lifecycle of an informer that runs."""

    def now(self) -> float:
        """Return the loop's time."""
        return 0.0

    def check_running(self) -> None:
        """Raise nothing."""


class Bench:
    """A cache with everything that follows its changes."""

    def __init__(self) -> None:
        self.indexer: Indexer[None] = Indexer()
        self.reflector = Reflector()
        scope = Scope.of("v1", "pods", None, None, None)
        context: InformerContext[None] = InformerContext(
            cluster=cast("Any", None),
            settings=InformerSettings(),
            options=ReflectorOptions(),
            metrics=InformerMetrics(NO_METRICS, cast("Any", None), scope),
            lifecycle=cast("Any", Running()),
        )
        self.freshness: Freshness[None] = Freshness(context, scope, self.indexer)
        self.store_sink: StoreSink[None] = StoreSink(
            self.indexer, SinkOwner(), freshness=self.freshness
        )
        self.freshness.follow(
            cast("Any", self.reflector), on_missed_state=self.store_sink.on_missed_state
        )
        self.list("100", make("ns/a", resource_version="90"))

    def list(self, resource_version: str, *objects: KubeObject) -> None:
        """Take a complete list."""
        found = {str(obj.key): obj for obj in objects}
        for _ in self.store_sink.replace_nowait(found, resource_version):
            pass
        self.reflector.position = resource_version

    def hear(self, event: Event[None], resource_version: str) -> None:
        """Take an event, and move the position behind it, as a reflector does."""
        self.store_sink.apply_nowait(event)
        self.reflector.position = resource_version


async def _ends_at_once(
    bench: Bench, wait: Callable[[], Coroutine[None, None, None]], happens: Callable[[], None]
) -> None:
    now = asyncio.get_running_loop().time
    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await until(lambda: bench.freshness.barrier.waiters)
        began_at = now()
        happens()
    assert now() == began_at


@pytest.mark.covers("client-go tools/cache: TestStoreResourceVersion")
async def test_an_event_releases_its_waiters() -> None:
    bench = Bench()
    await _ends_at_once(
        bench,
        lambda: bench.freshness.wait_until(WriteTarget.of("105", None, None), timeout_seconds=60),
        lambda: bench.hear(Added(make("ns/b", resource_version="105")), "105"),
    )


async def test_a_deletion_releases_its_waiters() -> None:
    bench = Bench()
    gone = make("ns/a", resource_version="105")
    await _ends_at_once(
        bench,
        lambda: bench.freshness.wait_until(
            WriteTarget.of(None, "ns/a", "uid-a"), timeout_seconds=60
        ),
        lambda: bench.hear(Deleted(gone), "105"),
    )


@pytest.mark.covers("client-go tools/cache: TestStoreResourceVersion")
async def test_a_bookmark_releases_waiters_and_own_writes() -> None:
    bench = Bench()
    bench.freshness.overlay.put(make("ns/ghost", resource_version="105"))

    def bookmark() -> None:
        bench.reflector.position = "105"
        bench.store_sink.bookmark_nowait("105")

    await _ends_at_once(
        bench,
        lambda: bench.freshness.wait_until(WriteTarget.of("105", None, None), timeout_seconds=60),
        bookmark,
    )
    assert not bench.freshness.overlay.entries


async def test_a_list_releases_waiters() -> None:
    bench = Bench()
    await _ends_at_once(
        bench,
        lambda: bench.freshness.wait_until(WriteTarget.of("105", None, None), timeout_seconds=60),
        lambda: bench.list("106"),
    )


async def test_a_receiver_of_a_list_reads_no_deleted_object() -> None:
    bench = Bench()
    bench.freshness.overlay.put(make("ns/ghost", resource_version="105"))
    found: list[bool] = []

    class Receiver:
        """Looks for the ghost at each event."""

        def put_nowait(self, event: Event[None]) -> None:
            """Look."""
            found.append("ns/ghost" in bench.freshness.overlay.entries)

        def preload_nowait(self, objects: object) -> None:
            """Take nothing."""

        def on_initial_list_complete(self) -> None:
            """Do nothing."""

        def on_missed_state(self, was: object, now: object) -> None:
            """Do nothing."""

    bench.store_sink.attach(Receiver())
    bench.list("110", make("ns/b", resource_version="108"))
    assert found == [False, False]  # ns/a is gone, ns/b is new


async def test_an_answer_older_than_a_list_in_delivery_is_already_known() -> None:
    bench = Bench()
    steps = bench.store_sink.replace_nowait(
        {f"ns/{n}": make(f"ns/{n}", resource_version="105") for n in range(200)}, "110"
    )
    while bench.indexer.resource_version != "110":
        next(steps)
    bench.freshness.overlay.put(make("ns/ghost", resource_version="107"))
    assert bench.reflector.position == "100"  # it moves when everything is announced
    assert not bench.freshness.overlay.entries


async def test_a_list_of_another_history_proves_no_own_write() -> None:
    """Its version is beyond the write's, which was perhaps never made there."""
    bench = Bench()
    bench.reflector.is_resetting = True
    steps = bench.store_sink.replace_nowait(
        {f"ns/{n}": make(f"ns/{n}", resource_version="105") for n in range(200)}, "110"
    )
    while bench.indexer.resource_version != "110":
        next(steps)
    assert not bench.freshness.has_seen(WriteTarget.of("107", None, None))


async def test_a_late_answer_to_a_deletion_hides_nothing() -> None:
    bench = Bench()
    bench.hear(Deleted(make("ns/a", resource_version="105")), "105")
    bench.reflector.buried.add(("ns/a", "uid-a"))
    bench.freshness.overlay.put_tombstone("ns/a", "uid-a")
    assert not bench.freshness.overlay.entries


async def test_an_own_deletion_stays_hidden_while_others_that_the_cache_lacks_pass() -> None:
    """Their events come in a burst, and say nothing about when the own deletion took effect."""
    bench = Bench()
    bench.freshness.overlay.put_tombstone("ns/a", "uid-a")
    for position in range(101, 110):
        bench.reflector.position = str(position)
        bench.store_sink.passed_nowait(str(position))
    assert "ns/a" in bench.freshness.overlay.entries
    for position in range(110, 113):
        bench.reflector.position = str(position)
        bench.store_sink.bookmark_nowait(str(position))
    assert not bench.freshness.overlay.entries, "a watch that runs for minutes is right"


async def test_an_own_write_ends_with_a_deletion_of_what_the_cache_lacks() -> None:
    bench = Bench()
    bench.freshness.overlay.put(make("ns/b", resource_version="105"))
    bench.reflector.position = "106"
    bench.store_sink.passed_nowait("106")
    assert not bench.freshness.overlay.entries


async def test_a_cached_version_replaces_the_own_write() -> None:
    bench = Bench()
    old, new = make("ns/a", resource_version="90"), make("ns/a", resource_version="105")
    bench.freshness.overlay.put(new)
    bench.hear(Updated(old, new), "105")
    assert not bench.freshness.overlay.entries


async def test_an_own_write_that_a_list_lacks_is_reported_as_gone() -> None:
    """It was never in the cache, so no event says that it is gone."""
    bench = Bench()
    told: list[tuple[str, object]] = []

    class Receiver:
        """Records the events."""

        def put_nowait(self, event: Event[None]) -> None:
            """Write down the event."""
            told.append((type(event).__name__, event.key))

        def preload_nowait(self, objects: object) -> None:
            """Take nothing."""

        def on_initial_list_complete(self) -> None:
            """Do nothing."""

        def on_missed_state(self, was: pyinformer.KubeObject, now: object) -> None:
            """Write down what is gone."""
            assert "ns/ghost" not in bench.freshness.overlay.entries
            told.append((str(was.key), now))

    bench.store_sink.attach(Receiver())
    bench.freshness.overlay.put(make("ns/ghost", resource_version="105"))
    assert told == []
    bench.list("110", make("ns/a", resource_version="90"))
    assert told == [("ns/ghost", None)]
