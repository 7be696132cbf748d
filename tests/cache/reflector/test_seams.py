"""A reflector under another library: a sink without bodies, changed settings, a final end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pyinformer.cache.reflector import Guard, Reflector, Snapshot
from pyinformer.cache.reflector.machine.steps import LoadFailed, LoadMode, Sleep, WatchFailed
from pyinformer.client.transport import ClusterConfig, Connection, ListWatch
from pyinformer.errors import ConnectionEndedError, ForbiddenError, InformerError
from pyinformer.objects import (
    Added,
    Deleted,
    Event,
    KubeObject,
    ObjectMeta,
    Updated,
)
from pyinformer.testing import APIServer, Fault
from tests.cache.reflector.machine_bench import EXPIRED, LOST, WATCH_LIST, Bench, status
from tests.cache.reflector.running import options, put, reflecting, remove, verbs
from tests.cache.reflector.samples import PODS, DictSink, codec, pod, pod_bytes
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class KeySink:
    """Keeps key, uid and version of each object, and the names of what it received."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, str]] = {}
        self.received: list[str] = []
        self.lists: list[dict[str, bool]] = []
        """Of each list: whether the object under a key has a body."""

    def get(self, key: str) -> KubeObject[None] | None:
        """Return an object without a body."""
        if key not in self.known:
            return None
        uid, version = self.known[key]
        namespace, _, name = key.rpartition("/")
        return KubeObject(key, ObjectMeta(namespace, name, uid, version), None, b"", PODS_KIND)

    def keys(self) -> list[str]:
        """Return every key."""
        return list(self.known)

    def apply_nowait(self, event: Event[None]) -> None:
        """Apply one change."""
        match event:
            case Added(obj) | Updated(_, obj):
                self.known[obj.key] = (obj.metadata.uid, obj.metadata.resource_version)
            case Deleted(obj):
                del self.known[obj.key]
        self.received.append(f"{type(event).__name__} {event.key}")

    def replace_nowait(
        self, objects: Mapping[str, KubeObject[None]], resource_version: str
    ) -> Iterator[None]:
        """Take a complete list."""
        self.lists.append({key: bool(obj.raw) for key, obj in objects.items()})
        self.known = {
            key: (obj.metadata.uid, obj.metadata.resource_version) for key, obj in objects.items()
        }
        yield

    def bookmark_nowait(self, resource_version: str) -> None:
        """Ignore it."""


PODS_KIND = pod("a", "1").gvk


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        put(running, "a", "b")
        yield running


async def test_a_sink_may_keep_no_bodies(server: APIServer) -> None:
    connection = Connection(ClusterConfig(server=server.url))
    sink = KeySink()
    reflector: Reflector[None] = Reflector(ListWatch(connection, PODS), sink, options=options())
    task = asyncio.create_task(reflector.run())
    try:
        await until(lambda: server.open_watches)
        put(server, "a", value="n1")
        put(server, "c")
        remove(server, "b")
        await until(lambda: len(sink.received) == 3)
        reflector.request_relist("the test wants it")
        await until(lambda: len(sink.lists) == 2)
    finally:
        task.cancel()
        await asyncio.wait({task})
        await connection.aclose()
    assert sink.received == ["Updated default/a", "Added default/c", "Deleted default/b"]
    assert sink.lists == [
        {"default/a": True, "default/b": True},
        {"default/a": False, "default/c": False},  # unchanged: what the sink had returned
    ]


def test_the_first_list_of_a_reflector_passes_what_a_filled_sink_knows_as_well() -> None:
    sink = DictSink(pod("a", "90"))
    snapshot = Snapshot(codec(), sink, Guard(), is_first=True)
    item = b"," + pod_bytes("a", "90") + b","
    snapshot.on_item(item, 1, len(item) - 1)
    listed = snapshot.complete("200")["a"]
    assert listed == sink.objects["a"]
    assert listed is not sink.objects["a"]


async def test_options_are_read_again_for_each_request(server: APIServer) -> None:
    put(server, "c", "d")
    wanted = [options(page_size=2)]
    async with reflecting(server, with_options=lambda: wanted[0]) as running:
        await running.until_watching()
        assert verbs(server) == ["list", "list", "watch"]
        wanted[0] = options(page_size=500)
        running.reflector.request_relist("the test wants it")
        await running.until_watching(loads=2)
        assert verbs(server)[3:] == ["list", "watch"]


def test_watch_lists_can_be_allowed_later() -> None:
    bench = Bench(use_watch_list=False).watching()
    bench.machine.configure(use_watch_list=True, max_retry_seconds=None)
    bench.now += 500
    assert bench.after_delay(WatchFailed(EXPIRED, established=True)) == WATCH_LIST


async def test_the_last_error_is_an_error(server: APIServer) -> None:
    server.faults.add(Fault(verb="list", status=403, times=None))
    async with reflecting(server) as running:
        await until(lambda: isinstance(running.reflector.last_error, ForbiddenError))
        server.faults.clear()
        await running.until_watching()
        assert running.reflector.last_error is None


class Ended:
    """A connection that has ended for good."""

    config = ClusterConfig(server="https://server")

    def stream(self, *_: object, **__: object) -> None:
        """Raise."""
        raise ConnectionEndedError("no credentials are left")


async def test_a_reflector_ends_when_its_connection_has_ended_for_good() -> None:
    list_watch = ListWatch(Ended(), PODS)  # type: ignore[arg-type]  # it never works
    reflector: Reflector[None] = Reflector(list_watch, DictSink())
    with pytest.raises(ConnectionEndedError, match="no credentials are left"):
        await reflector.run()


def _limited(limit: float) -> tuple[Bench, list[tuple[int, InformerError]]]:
    bench, asked = Bench(use_watch_list=False), []

    def most(failures: int, error: InformerError) -> float:
        asked.append((failures, error))
        return limit

    bench.machine.configure(use_watch_list=False, max_retry_seconds=most)
    return bench, asked


def test_a_limit_shortens_the_delays_after_failures() -> None:
    bench, asked = _limited(0.125)
    bench.start()
    for _ in range(9):
        command = bench.step(LoadFailed(LoadMode.PAGED, LOST))
        assert isinstance(command, Sleep)
        assert command.seconds == 0.125
    assert asked == [(number, LOST) for number in range(1, 10)]


def test_a_limit_does_not_shorten_what_the_server_asks_for() -> None:
    bench, _ = _limited(0.125)
    bench.start()
    command = bench.step(LoadFailed(LoadMode.PAGED, status(429, 7.0)))
    assert isinstance(command, Sleep)
    assert command.seconds == 7.0


def test_a_watch_that_lasted_counts_as_no_failure() -> None:
    bench, asked = _limited(0.0)
    bench.watching()
    command = bench.step(WatchFailed(LOST, established=True, seconds=2.0))
    assert isinstance(command, Sleep)
    assert command.seconds == 0.0
    bench.watching().step(WatchFailed(LOST, established=True, seconds=1.9))
    assert asked == [(0, LOST), (1, LOST)]
