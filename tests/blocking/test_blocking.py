"""The blocking face on a real socket: reads, writes, handlers, events, timeouts, and its ends."""

from __future__ import annotations

import functools
import queue
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
import sniffio

import pyinformer
from pyinformer.blocking import (
    BlockingCluster,
    BlockingInformer,
    BlockingInformerFactory,
    Runner,
    timeout,
)
from pyinformer.errors import InvalidTypeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer import Event
    from pyinformer.testing import APIServer


class PodView(pyinformer.View):
    """What is read of a pod here."""

    labels: dict[str, str] | None = None


def pod(name: str, **labels: str) -> dict[str, Any]:
    """Return a pod to create."""
    metadata = {"namespace": "default", "name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}


@pytest.fixture
def runner() -> Iterator[Runner]:
    """Run a loop in a thread."""
    with pyinformer.run_in_thread() as running:
        yield running


@pytest.fixture
def cluster(runner: Runner, apiserver: APIServer) -> Iterator[BlockingCluster]:
    """Connect to an embedded server."""
    with runner.connect(server=apiserver.url) as connected:
        yield connected


@pytest.fixture
def factory(cluster: BlockingCluster) -> Iterator[BlockingInformerFactory]:
    """Make a factory that closes quickly."""
    with cluster.informer_factory(grace_seconds=2.0) as made:
        yield made


@pytest.fixture
def pods(factory: BlockingInformerFactory) -> BlockingInformer[None]:
    """Follow pods; the cache is synced."""
    informer = factory.informer("v1", "pods")
    factory.start()
    factory.wait_for_cache_sync(timeout_seconds=100)
    return informer


def test_a_call_ends_where_sniffio_is_installed(runner: Runner) -> None:
    """With it, anyio knows asyncio only inside a task, and not in a callback of the loop."""

    async def library() -> str:
        return sniffio.current_async_library()

    with timeout(30.0):
        assert runner.call(library) == "asyncio"


def test_the_end_of_a_runner_leaves_a_called_function_its_clean_up() -> None:
    began = threading.Event()
    steps: list[str] = []

    async def work() -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            for step in ("rolled back", "reported"):
                await anyio.lowlevel.checkpoint()
                steps.append(step)

    def call(runner: Runner) -> None:
        with pytest.raises(pyinformer.errors.LifecycleError, match="cancelled while it waited"):
            runner.call(work)

    with pyinformer.run_in_thread() as runner:
        calling = threading.Thread(target=call, args=(runner,))
        calling.start()
        assert began.wait(100)
    calling.join(100)
    assert steps == ["rolled back", "reported"]


def test_the_blocking_client_reads_the_cache_with_the_same_lister(
    apiserver: APIServer,
) -> None:
    apiserver.create(pod("a", app="web"))
    with (
        pyinformer.run_in_thread() as runner,
        runner.connect(server=apiserver.url) as cluster,
        cluster.informer_factory() as factory,
    ):
        pods = factory.informer("v1", "pods", model=pyinformer.View)
        factory.start()
        factory.wait_for_cache_sync(timeout_seconds=100)

        assert type(pods.lister) is pyinformer.Lister
        assert [one.key for one in pods.lister.list(label_selector="app=web")] == ["default/a"]
        assert pods.has_synced
        assert factory.status().informers[0].objects == 1
    assert not runner.is_running


class Name(msgspec.Struct, frozen=True):
    """A part of the model."""

    name: str


class Named(msgspec.Struct, frozen=True):
    """The model of a pod."""

    metadata: Name


def test_an_informer_has_models_in_threads(
    cluster: BlockingCluster, factory: BlockingInformerFactory
) -> None:
    pods = factory.informer("v1", "pods", model=Named)
    pods.add_index("name", lambda pod: pod.view.metadata.name)
    calls: queue.Queue[tuple[str, int]] = queue.Queue()
    pods.add_event_handler(
        on_add=lambda pod: calls.put((pod.view.metadata.name, threading.get_ident()))
    )
    events: queue.Queue[Event[Named]] = queue.Queue()
    pods.add_event_handler(events.put, name="events")
    factory.start()
    pods.wait_for_cache_sync(timeout_seconds=100)
    with pods.events() as stream:
        cluster.create(pod("a"))
        streamed = next(stream)
        assert iter(stream) is stream
    found = pods.wait_for("default/a", bool, timeout_seconds=100)
    name, thread = calls.get(timeout=100)

    assert found is not None
    assert found.view == Named(Name("a"))
    assert [one.view.metadata.name for one in pods.lister.by_index("name", "a")] == ["a"]
    assert streamed.key == events.get(timeout=100).key == "default/a"
    assert (name, pods.settings.model) == ("a", Named)
    assert thread != threading.get_ident()
    assert pods is factory.informer("v1", "pods", model=Named)


def test_writes_return_objects_and_are_read_at_once(
    cluster: BlockingCluster, pods: BlockingInformer[None]
) -> None:
    made = cluster.create(pod("a"))
    body = made.to_dict()
    body["metadata"]["labels"] = {"app": "web"}
    changed = cluster.patch(made, body)

    (read,) = pods.lister.list()
    assert read.metadata.labels["app"] == "web"
    pods.wait_until(changed.metadata.resource_version, timeout_seconds=100)
    assert cluster.get("v1", "pods", "default/a") == changed
    assert cluster.delete("v1", "pods", "default/a") is None
    assert pods.wait_for("default/a", lambda one: one is None, timeout_seconds=100) is None


def test_a_list_is_a_plain_iterator_of_pages(cluster: BlockingCluster) -> None:
    for name in "abc":
        cluster.create(pod(name))
    found = cluster.list("v1", "pods", namespace="default", page_size=2)
    assert [one.key for one in found] == ["default/a", "default/b", "default/c"]
    assert found.resource_version
    assert found.next_page() == []
    pages = cluster.list("v1", "pods", page_size=2)
    assert [len(pages.next_page()) for _ in range(3)] == [2, 1, 0]
    gone = cluster.delete_collection("v1", "pods", namespace="default")
    assert len(gone) == 3
    assert b'"items":[]' in cluster.request("GET", "/api/v1/pods")


def test_a_page_is_not_lost_to_a_timeout(cluster: BlockingCluster) -> None:
    for name in "abc":
        cluster.create(pod(name))
    found = cluster.list("v1", "pods", page_size=1)
    seen = [next(found).key]
    with pytest.raises(TimeoutError), timeout(0.0):
        next(found)
    assert [*seen, *(one.key for one in found)] == ["default/a", "default/b", "default/c"]


def test_errors_are_raised_with_their_own_type_and_without_a_group(
    cluster: BlockingCluster, pods: BlockingInformer[None], factory: BlockingInformerFactory
) -> None:
    with pytest.raises(pyinformer.NotFoundError, match="missing"):
        cluster.get("v1", "pods", "default/missing")
    with pytest.raises(pyinformer.errors.WaitTimeoutError):
        pods.wait_for("default/a", lambda one: one is not None, timeout_seconds=0.05)
    with pytest.raises(TypeError):
        cluster.get("v1", "pods")  # type: ignore[call-arg]  # as any function says it
    here = f"{__file__}:"
    with pytest.raises(pyinformer.errors.InformerConflictError) as conflict:
        factory.informer("v1", "pods", memory="raw")
    assert str(conflict.value).count(here) == 2


def test_one_informer_has_one_blocking_proxy(
    factory: BlockingInformerFactory, pods: BlockingInformer[None]
) -> None:
    assert factory.informer("v1", "pods") is pods
    assert factory.informers == (pods,)
    factory.remove_informer(pods)
    assert pods.is_closed
    assert len(factory.informers) == 0


def test_handlers_run_in_a_thread_in_order_and_may_block(
    cluster: BlockingCluster, pods: BlockingInformer[None]
) -> None:
    heard: list[str] = []
    threads: set[int] = set()
    done = threading.Event()

    def on_add(one: pyinformer.KubeObject) -> None:
        threads.add(threading.get_ident())
        heard.append(f"add {one.metadata.name}")
        if one.metadata.name == "a":
            cluster.create(pod("b"))  # a blocking call from a handler

    def on_delete(one: pyinformer.KubeObject) -> None:
        threads.add(threading.get_ident())
        heard.append(f"delete {one.metadata.name}")
        done.set()

    registration = pods.add_event_handler(on_add=on_add, on_delete=on_delete)
    registration.wait_synced(timeout_seconds=100)
    cluster.create(pod("a"))
    pods.wait_for("default/b", lambda one: one is not None, timeout_seconds=100)
    cluster.delete("v1", "pods", "default/a")

    assert done.wait(100)
    assert heard == ["add a", "add b", "delete a"]
    assert threading.get_ident() not in threads
    pods.remove_event_handler(registration)
    assert pods.status().handlers == ()


class Recorder:
    """An object with all three methods; on_add does not block, and records its thread."""

    def __init__(self) -> None:
        self.heard = threading.Event()
        self.thread: str = ""

    def on_add(self, _: object) -> None:
        """Keep which thread it is."""
        self.thread = threading.current_thread().name
        self.heard.set()

    def on_update(self, old: object, new: object) -> None:
        """Ignore the event."""

    def on_delete(self, obj: object) -> None:
        """Ignore the event."""


def test_a_handler_that_is_an_object_keeps_its_name_and_gets_a_thread(
    apiserver: APIServer, pods: BlockingInformer[None]
) -> None:
    recorder = Recorder()
    registration = pods.add_event_handler(recorder)
    apiserver.create(pod("a"))

    assert recorder.heard.wait(100)
    assert "Recorder" in registration.name
    assert recorder.thread != threading.current_thread().name
    assert recorder.thread != "pyinformer"  # which is the loop's


def test_a_function_of_an_event_and_an_asynchronous_one_are_handlers_too(
    apiserver: APIServer, pods: BlockingInformer[None]
) -> None:
    plain, asynchronous = threading.Event(), threading.Event()
    where: list[int] = []

    def on_event(event: object) -> None:
        assert isinstance(event, pyinformer.Added)
        where.append(threading.get_ident())
        plain.set()

    async def on_add(_: object) -> None:
        await anyio.lowlevel.checkpoint()
        where.append(threading.get_ident())
        asynchronous.set()

    pods.add_event_handler(on_event)
    pods.add_event_handler(on_add=on_add)
    apiserver.create(pod("a"))

    assert plain.wait(100)
    assert asynchronous.wait(100)
    assert len(set(where)) == 2


def test_an_asynchronous_handler_behind_a_plain_decorator_is_called(
    apiserver: APIServer, pods: BlockingInformer[None]
) -> None:
    called = threading.Event()

    async def on_event(_: object) -> None:
        await anyio.lowlevel.checkpoint()
        called.set()

    @functools.wraps(on_event)
    def decorated(event: object) -> object:
        return on_event(event)

    pods.add_event_handler(decorated)
    apiserver.create(pod("a"))

    assert called.wait(100)


@pytest.mark.parametrize("handler", [None, 5, object(), Recorder])
def test_an_invalid_handler_is_refused_as_by_the_asynchronous_informer(
    pods: BlockingInformer[None], handler: Any
) -> None:
    with pytest.raises(pyinformer.errors.InvalidTypeError):
        pods.add_event_handler(handler)


def test_a_handler_that_calls_sys_exit_fails_and_ends_nothing(
    apiserver: APIServer, pods: BlockingInformer[None]
) -> None:
    again = threading.Event()

    def on_add(one: pyinformer.KubeObject) -> None:
        if one.metadata.name == "a":
            raise SystemExit(3)
        again.set()

    pods.add_event_handler(on_add=on_add)
    apiserver.create(pod("a"))
    apiserver.create(pod("b"))

    assert again.wait(100)
    (status,) = pods.status().handlers
    assert status.failed == 1


def test_events_are_an_iterator_that_break_may_leave(
    cluster: BlockingCluster, pods: BlockingInformer[None]
) -> None:
    for name in "abc":
        cluster.create(pod(name))
    pods.wait_for("default/c", lambda one: one is not None)
    seen = []
    with pods.events() as events:
        for event in events:
            match event:
                case pyinformer.Added(one):
                    seen.append(one.metadata.name)
                    if len(seen) == 3:
                        cluster.delete(one)
                case pyinformer.Deleted(one):
                    seen.append(f"-{one.metadata.name}")
                    break

    assert sorted(seen[:3]) == ["a", "b", "c"]
    assert seen[3:] == [f"-{seen[2]}"]


def test_a_timeout_cuts_a_wait_off_and_loses_no_event(
    cluster: BlockingCluster, pods: BlockingInformer[None]
) -> None:
    with pods.events(initial=False) as events:
        with pytest.raises(TimeoutError), timeout(0.05):
            next(events)
        cluster.create(pod("a"))
        with timeout(10.0):
            event = next(events)

    assert isinstance(event, pyinformer.Added)
    assert event.object.key == "default/a"


def test_an_inner_timeout_cannot_lengthen_an_outer_one(pods: BlockingInformer[None]) -> None:
    with pods.events(initial=False) as events, timeout(0.0), timeout(30.0):  # noqa: SIM117
        with pytest.raises(TimeoutError):
            next(events)


def test_events_coalesce_and_overflow_as_the_asynchronous_ones(
    cluster: BlockingCluster, pods: BlockingInformer[None]
) -> None:
    with pods.events(max_events=1) as all_, pods.events(delivery="coalesced") as merged:
        made = cluster.create(pod("a"))
        pods.wait_until(made.metadata.resource_version, key="default/a", timeout_seconds=100)
        body = made.to_dict()
        body["metadata"]["labels"] = {"n": "1"}
        changed = cluster.patch(made, body)
        pods.wait_until(changed.metadata.resource_version, key="default/a", timeout_seconds=100)
        with timeout(10.0):
            newest = next(merged)
            first = next(all_)
            with pytest.raises(pyinformer.errors.EventStreamOverflowError):
                next(all_)

    assert isinstance(newest, pyinformer.Added)
    assert newest.object.metadata.labels["n"] == "1"
    assert isinstance(first, pyinformer.Added)


def test_the_iteration_ends_when_the_informer_is_closed(
    cluster: BlockingCluster, pods: BlockingInformer[None]
) -> None:
    names: list[str] = []
    one_came = threading.Event()

    def collect() -> None:
        for event in events:
            names.append(type(event).__name__)
            one_came.set()

    with ThreadPoolExecutor(1) as pool, pods.events() as events:
        cluster.create(pod("a"))
        ended = pool.submit(collect)
        assert one_came.wait(100)
        pods.close()
        ended.result(100)

    assert names == ["Added"]


def test_many_threads_may_call_at_once(
    cluster: BlockingCluster, pods: BlockingInformer[None]
) -> None:
    def write(number: int) -> str:
        key = cluster.create(pod(f"p{number}")).key
        assert pods.lister.get(key) is not None  # own writes are read at once, from any thread
        return key

    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(write, range(40)))

    assert len(set(keys)) == 40
    pods.wait_for("default/p39", lambda one: one is not None)
    assert len(pods.lister.list()) == 40


def test_a_call_from_the_loops_own_thread_is_refused(
    runner: Runner, cluster: BlockingCluster
) -> None:
    async def on_loop() -> None:
        await anyio.lowlevel.checkpoint()
        cluster.get("v1", "pods", "default/a")

    with pytest.raises(pyinformer.errors.LifecycleError, match=r"own thread .*\.asynchronous"):
        runner.call(on_loop)
    with pytest.raises(pyinformer.errors.LifecycleError, match="own thread"):
        runner.call(_close, runner)


def test_a_call_of_what_is_not_a_function_is_refused(runner: Runner) -> None:
    """A coroutine is closed: it would be reported as never awaited."""
    call: Any = runner.call
    for given in (_close(runner), None):
        with pytest.raises(
            InvalidTypeError, match=r"^function: must be a function, runner\.call\("
        ):
            call(given)


async def _close(runner: Runner) -> None:
    runner.close()


def test_members_without_a_blocking_version_are_reached_by_call(
    runner: Runner, cluster: BlockingCluster
) -> None:
    made, operation = runner.call(
        pyinformer.create_or_update, cluster.asynchronous, pod("a"), lambda _: None
    )

    assert operation == "created"
    assert made.key == "default/a"


def test_calls_after_the_end_and_before_the_start_are_refused(apiserver: APIServer) -> None:
    runner = pyinformer.run_in_thread()
    with pytest.raises(pyinformer.errors.LifecycleError, match="not started"):
        runner.call(anyio.sleep, 0)
    with runner, runner.connect(server=apiserver.url) as cluster:
        factory = cluster.informer_factory()
        pods = factory.informer("v1", "pods")
        factory.start()
        factory.wait_for_cache_sync()
    with pytest.raises(pyinformer.errors.LifecycleError, match="closed"):
        cluster.get("v1", "pods", "default/a")
    with pytest.raises(pyinformer.errors.LifecycleError, match="started only once"):
        runner.start()
    runner.close()
    factory.close()
    assert pods.is_closed  # the factory closed it
    with pytest.raises(pyinformer.errors.LifecycleError, match="closed, so its cache"):
        pods.lister.list()


def test_closing_ends_the_calls_that_wait_in_other_threads(
    cluster: BlockingCluster, runner: Runner
) -> None:
    factory = cluster.informer_factory(grace_seconds=1.0)
    pods = factory.informer("v1", "pods")
    factory.start()
    waiting = threading.Event()

    def wait() -> None:
        with pods.events() as events:
            waiting.set()
            next(events)

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(wait)
        assert waiting.wait(100)
        runner.close()
        with pytest.raises(StopIteration):
            ended.result(10)
        with pytest.raises(pyinformer.errors.LifecycleError, match="closed"):
            pods.wait_for_cache_sync()


def test_an_event_stream_outside_of_a_with_block_names_the_blocking_call(
    pods: BlockingInformer[None],
) -> None:
    with pytest.raises(pyinformer.errors.LifecycleError, match=r": with informer\.events"):
        next(pods.events())


def test_a_handler_may_remove_itself_without_waiting_for_itself(
    apiserver: APIServer, pods: BlockingInformer[None]
) -> None:
    removed = threading.Event()

    def once(_: object) -> None:
        registration.remove(grace_seconds=30.0)
        removed.set()

    registration = pods.add_event_handler(on_add=once)
    apiserver.create(pod("a"))

    assert removed.wait(100)
    assert pods.status().handlers == ()


def test_a_call_with_a_timeout_of_zero_is_not_started(runner: Runner) -> None:
    begun = threading.Event()

    async def begin() -> None:
        begun.set()
        await anyio.lowlevel.checkpoint()

    with pytest.raises(TimeoutError, match=r"timeout\(\) block"), timeout(0.0):
        runner.call(begin)
    runner.call(anyio.lowlevel.checkpoint)
    assert not begun.is_set()


def test_a_signal_prints_the_status_and_its_handler_is_restored(
    factory: BlockingInformerFactory,
) -> None:

    before = signal.getsignal(signal.SIGUSR1)
    factory.log_status_on_signal()
    assert signal.getsignal(signal.SIGUSR1) != before
    factory.close()
    assert signal.getsignal(signal.SIGUSR1) == before
