"""An informer on a server over real HTTP: handlers, reads, lifetimes, streams, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import threading
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import pytest

import pyinformer
from pyinformer.cache.informer import SharedInformer, core_of
from pyinformer.client.cluster import CURRENT_WRITER
from pyinformer.errors import (
    CacheNotSyncedError,
    CacheSyncTimeoutError,
    EventStreamOverflowError,
    IndexNotFoundError,
    InternalError,
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
    NotCachedError,
    ObjectNotFoundError,
)
from pyinformer.objects import Added, Deleted, Event, Updated, View
from pyinformer.testing import Fault, World
from tests.cache.informer.clusters import HURRIED, Notes, cluster_of, informer_of, listed, pod
from tests.waiting import now, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.testing import APIServer

pytestmark = pytest.mark.every_loop


async def test_a_handler_added_before_during_or_after_start_gets_the_same_objects(
    apiserver: APIServer,
) -> None:
    for name in ("a", "b"):
        apiserver.create(pod(name))
    apiserver.faults.add(Fault(resource="pods", hang=True))
    before, during, after = Notes(), Notes(), Notes()
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        informer.add_event_handler(before)
        async with informer:
            await until(lambda: apiserver.faults.held)
            registration = informer.add_event_handler(during)
            assert not registration.has_synced
            apiserver.faults.release()
            await informer.wait_for_cache_sync(timeout_seconds=100)
            registrations = [registration, informer.add_event_handler(after)]
            for each in registrations:
                await each.wait_synced(timeout_seconds=100)
            assert [each.has_synced for each in registrations] == [True, True]
            apiserver.create(pod("c"))
            apiserver.delete("v1", "pods", "a")
            for notes in (before, during, after):
                await notes.until_heard("add default/c", "delete default/a")

    for notes in (before, during, after):
        assert set(notes.heard[:2]) == {"add default/a", "add default/b"}
        assert all(isinstance(e, Added) and e.is_in_initial_list for e in notes.events[:2])
        assert notes.heard[2:] == ["add default/c", "delete default/a"]
        assert notes.mirror == listed(apiserver)
        assert notes.faults == []


def moved_on(informer: SharedInformer[None], position: str, thread: threading.Thread) -> bool:
    """Return whether something has happened since this position, or nothing will."""
    return informer.status().position != position or not thread.is_alive()


async def test_a_handler_added_during_many_updates_misses_and_repeats_nothing(
    apiserver: APIServer,
) -> None:
    """C54: handlers come while a thousand changes arrive."""
    rng = random.Random(7)
    for number in range(50):
        apiserver.create(pod(f"p{number}"))
    everybody = [Notes() for _ in range(20)]

    def storm() -> None:
        for number in range(1000):
            name = f"p{rng.randrange(60)}"
            with contextlib.suppress(pyinformer.NotFoundError, pyinformer.ConflictError):
                match rng.randrange(3):
                    case 0:
                        apiserver.create(pod(name))
                    case 1:
                        label = {"metadata": {"labels": {"n": str(number)}}}
                        apiserver.patch("v1", "pods", name, label)
                    case _:
                        apiserver.delete("v1", "pods", name)

    async with informer_of(apiserver) as informer:
        thread = threading.Thread(target=storm)
        thread.start()
        for notes in everybody:
            informer.add_event_handler(notes)
            await until(partial(moved_on, informer, informer.status().position, thread))
        await until(lambda: not thread.is_alive())
        wanted = listed(apiserver)
        await until(lambda: all(notes.mirror == wanted for notes in everybody))

    assert [notes.faults for notes in everybody] == [[]] * 20


async def test_in_every_callback_the_cache_has_that_version_or_a_newer_one(
    apiserver: APIServer,
) -> None:
    behind: list[str] = []
    calls = 0
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")

        def handler(event: Event[None]) -> None:
            nonlocal calls
            calls += 1
            cached = informer.lister.get(event.key)
            match event:
                case Deleted(last):
                    ok = cached is None or cached.metadata.uid != last.metadata.uid
                case Added(obj) | Updated(_, obj):
                    version = int(obj.metadata.resource_version)
                    ok = cached is None or int(cached.metadata.resource_version) >= version
            if not ok:
                behind.append(str(event))

        informer.add_event_handler(handler)
        async with informer:
            await informer.wait_for_cache_sync(timeout_seconds=100)
            for number in range(50):
                apiserver.create(pod("a"))
                apiserver.patch("v1", "pods", "a", {"metadata": {"labels": {"n": str(number)}}})
                apiserver.delete("v1", "pods", "a")
            await until(lambda: calls == 150)

    assert behind == []


async def test_a_recreated_object_is_a_deletion_and_an_addition(apiserver: APIServer) -> None:
    notes = Notes()
    apiserver.create(pod("a"))
    apiserver.create(pod("b"))
    async with informer_of(apiserver) as informer:
        await informer.add_event_handler(notes).wait_synced(timeout_seconds=100)
        apiserver.stop_accepting()
        apiserver.drop_connections()
        apiserver.delete("v1", "pods", "a")
        apiserver.create(pod("a"))
        apiserver.compact()  # so that a relist has to find out
        apiserver.accept_again()
        await until(lambda: len(notes.heard) == 4)

    assert notes.heard[2:] == ["delete default/a", "add default/a"]
    assert notes.mirror == listed(apiserver)
    assert notes.faults == []


@pytest.mark.parametrize("queue", ["direct", "real_fifo", "delta_fifo"])
async def test_a_relist_delivers_only_the_differences(apiserver: APIServer, queue: Any) -> None:
    notes = Notes()
    for name in ("same", "changes", "goes"):
        apiserver.create(pod(name))
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods", queue=queue, options=HURRIED) as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        await informer.add_event_handler(notes).wait_synced(timeout_seconds=100)
        apiserver.stop_accepting()
        apiserver.drop_connections()
        apiserver.delete("v1", "pods", "goes")
        apiserver.patch("v1", "pods", "changes", {"metadata": {"labels": {"a": "b"}}})
        apiserver.create(pod("new"))
        apiserver.compact()
        apiserver.accept_again()
        await notes.until_heard("add default/new", "update default/changes", "delete default/goes")

    assert len(notes.heard) == 6
    assert notes.mirror == listed(apiserver)
    assert notes.faults == []
    assert isinstance(notes.events[3], Deleted) or queue == "delta_fifo"  # deletions first


@pytest.mark.parametrize("queue", ["direct", "real_fifo", "delta_fifo"])
async def test_an_object_that_leaves_the_selection_may_still_exist(
    apiserver: APIServer, queue: Any
) -> None:
    apiserver.create(pod("a", app="web"))
    notes = Notes()
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(
            cluster, "v1", "pods", label_selector={"app": "web"}, queue=queue
        ) as informer,
    ):
        informer.add_event_handler(notes)
        await informer.wait_for_cache_sync(timeout_seconds=100)
        apiserver.patch("v1", "pods", "a", {"metadata": {"labels": {"app": "db"}}})
        await notes.until_heard("delete default/a")

    last = notes.events[-1]
    assert isinstance(last, Deleted)
    assert last.may_still_exist


async def test_a_removed_handler_gets_nothing_from_that_moment(apiserver: APIServer) -> None:
    removed, other = Notes(), Notes()
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(removed)
        informer.add_event_handler(other)
        apiserver.create(pod("a"))
        await removed.until_heard("add default/a")
        await registration.remove()
        apiserver.create(pod("b"))
        await other.until_heard("add default/b")
        await registration.remove()  # a second time does nothing

    assert removed.heard == ["add default/a"]


async def test_removal_waits_for_the_call_in_flight(apiserver: APIServer) -> None:
    began, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(event: Event[None]) -> None:
        began.set()
        await go_on.wait()
        ended.set()

    apiserver.create(pod("a"))
    apiserver.create(pod("b"))
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(handler)
        await began.wait()
        removing = asyncio.create_task(registration.remove())
        await until(lambda: not informer.status().handlers)
        assert not removing.done()
        go_on.set()
        await removing

        assert ended.is_set()
        began.clear()
    assert not began.is_set()  # the handler was never called for the other pod


async def test_removal_abandons_and_names_a_call_that_does_not_end(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    began, let_go = asyncio.Event(), asyncio.Event()

    async def stubborn(event: Event[None]) -> None:
        began.set()
        while not let_go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await let_go.wait()

    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(stubborn)
        await began.wait()
        await registration.remove(grace_seconds=0.01)

        (name,) = informer.abandoned_handlers
        assert "stubborn" in name
        assert "stubborn" in caplog.text
        let_go.set()
        await until(lambda: not informer.abandoned_handlers)


async def test_a_handler_that_removes_itself_gets_no_second_call(apiserver: APIServer) -> None:
    heard: list[str] = []
    done = asyncio.Event()

    async def once(event: Event[None]) -> None:
        heard.append(event.key)
        await registration.remove()
        done.set()

    for name in ("a", "b"):
        apiserver.create(pod(name))
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(once)
        await done.wait()
        apiserver.create(pod("c"))
        await until(lambda: len(informer.lister.list()) == 3)

    assert len(heard) == 1


async def test_a_handler_may_close_its_own_informer(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Also after it has removed itself in the same call; no handler is abandoned."""
    done = asyncio.Event()

    async def last_will(event: Event[None]) -> None:
        await registration.remove()
        await informer.aclose()
        done.set()

    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(last_will)
        async with asyncio.timeout(100):
            await done.wait()

    assert "left to itself" not in caplog.text


async def test_a_removed_handler_leaves_no_task_behind(apiserver: APIServer) -> None:
    async with informer_of(apiserver) as informer:
        before = len(asyncio.all_tasks())
        for _ in range(20):
            registration = informer.add_event_handler(Notes(), resync_period_seconds=3600.0)
            await registration.remove()
        await until(lambda: len(asyncio.all_tasks()) == before)


async def test_a_handler_that_a_callback_of_the_loop_adds_is_resynced(
    apiserver: APIServer,
) -> None:
    """As `loop.call_soon_threadsafe` does, which other threads use; with sniffio as without."""
    often = Notes()
    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        add = functools.partial(informer.add_event_handler, often, resync_period_seconds=0.01)
        asyncio.get_running_loop().call_soon(add)
        await until(lambda: len(often.events) > 3)


async def test_a_handler_that_a_reconcile_adds_does_not_write_in_its_name(
    apiserver: APIServer,
) -> None:
    writers: list[object] = []
    writer: Any = object()
    async with informer_of(apiserver) as informer:
        token = CURRENT_WRITER.set(writer)
        informer.add_event_handler(lambda _: writers.append(CURRENT_WRITER.get()))
        CURRENT_WRITER.reset(token)
        apiserver.create(pod("a"))
        await until(lambda: writers)
    assert writers == [None]


async def test_each_handler_is_resynced_by_its_own_period(apiserver: APIServer) -> None:
    often, never = Notes(), Notes()
    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        informer.add_event_handler(often, resync_period_seconds=0.01)
        informer.add_event_handler(never)
        await until(lambda: len(often.events) > 3)
        apiserver.create(pod("b"))
        await never.until_heard("add default/b")

    reminder = often.events[1]
    assert isinstance(reminder, Updated)
    assert reminder.is_resync
    assert reminder.old is reminder.new
    assert never.heard == ["add default/a", "add default/b"]
    assert often.faults == []


@pytest.mark.parametrize("kind", ["async", "thread", "raising"])
async def test_a_bad_handler_affects_no_other_and_is_named(apiserver: APIServer, kind: str) -> None:
    let_go, began = threading.Event(), threading.Event()
    never = asyncio.Event()

    async def hangs(event: Event[None]) -> None:
        began.set()
        await never.wait()

    def blocks(event: Event[None]) -> None:
        began.set()
        let_go.wait()

    def raises(event: Event[None]) -> None:
        began.set()
        raise KeyError("the secret of the object")

    handlers: dict[str, Any] = {
        "async": hangs,
        "thread": pyinformer.in_thread(blocks),
        "raising": raises,
    }
    notes = Notes()
    async with informer_of(apiserver) as informer:
        informer.add_event_handler(handlers[kind])
        informer.add_event_handler(notes)
        for number in range(20):
            apiserver.create(pod(f"p{number}"))
        await notes.until_heard("add default/p19")
        await until(began.is_set)
        if kind == "raising":
            await until(lambda: informer.status().handlers[0].failed == 20)
        bad, good = informer.status().handlers
        let_go.set()

    assert good.delivered == 20
    if kind == "raising":
        assert bad.name.endswith("raises")
        assert bad.last_error is not None
        assert "KeyError" in bad.last_error
        assert "secret" not in bad.last_error
    else:
        assert bad.in_flight_key == "default/p0"
        assert bad.name.endswith("hangs" if kind == "async" else "blocks")


def two(one: object, other: object) -> None: ...


class Half:
    def on_add(self, obj: object) -> None: ...


async def generator(event: object) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        pytest.param({}, InvalidTypeError, "pass handler(event)", id="nothing"),
        pytest.param(
            {"handler": two}, InvalidTypeError, "a function like handler(event)", id="signature"
        ),
        pytest.param(
            {"on_update": len},
            InvalidTypeError,
            "a function like on_update(old, new)",
            id="part",
        ),
        pytest.param({"handler": 7}, InvalidTypeError, "got a int", id="number"),
        pytest.param({"handler": Half()}, InvalidTypeError, "no on_update", id="half"),
        pytest.param({"handler": generator}, InvalidTypeError, "generator", id="generator"),
        pytest.param(
            {"handler": print, "resync_period_seconds": -1.0},
            InvalidArgumentError,
            "resync_period_seconds: must be seconds >= 0, got -1.0",
            id="negative",
        ),
        pytest.param(
            {"handler": print, "resync_period_seconds": float("nan")},
            InvalidArgumentError,
            "resync_period_seconds: must be seconds >= 0, got nan",
            id="nan",
        ),
        pytest.param(
            {"handler": print, "mailbox_size": 0},
            InvalidArgumentError,
            "mailbox_size: must be an integer >= 1, got 0",
            id="mailbox",
        ),
    ],
)
async def test_an_invalid_handler_is_refused_at_the_call(
    apiserver: APIServer, arguments: Any, error: type[Exception], words: str
) -> None:
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        with pytest.raises(error) as raised:
            informer.add_event_handler(**arguments)

        assert words in str(raised.value)
        assert informer.status().handlers == ()


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), None, "5"])
async def test_invalid_durations_are_refused(apiserver: APIServer, seconds: Any) -> None:
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(Notes())
        for call in (
            informer.wait_for_cache_sync(timeout_seconds=seconds),
            registration.wait_synced(timeout_seconds=seconds),
            registration.remove(grace_seconds=seconds),
            informer.remove_event_handler(registration, grace_seconds=seconds),
        ):
            with pytest.raises(InvalidArgumentError, match="must be seconds >= 0"):
                await call
        assert len(informer.status().handlers) == 1
        async with cluster_of(apiserver) as cluster:
            with pytest.raises(InvalidArgumentError, match="grace_seconds"):
                SharedInformer(cluster, "v1", "pods", grace_seconds=seconds)


async def test_a_registration_of_another_informer_is_refused(apiserver: APIServer) -> None:
    notes = Notes()
    async with informer_of(apiserver) as pods, informer_of(apiserver, "secrets") as others:
        registration = pods.add_event_handler(notes)
        with pytest.raises(InvalidArgumentError, match=r"is not one of secrets\.v1"):
            await others.remove_event_handler(registration)
        apiserver.create(pod("a"))
        await notes.until_heard("add default/a")


async def test_a_cancelled_removal_has_removed(apiserver: APIServer) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    heard: list[str] = []

    async def handler(event: Event[None]) -> None:
        heard.append(event.key)
        began.set()
        await go_on.wait()

    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(handler)
        await began.wait()
        removing = asyncio.create_task(registration.remove())
        await until(lambda: not informer.status().handlers)
        removing.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await removing
        apiserver.create(pod("b"))
        await until(lambda: informer.lister.get("default/b"))
    assert heard == ["default/a"]


async def test_a_cancelled_wait_for_a_handler_affects_no_other(apiserver: APIServer) -> None:
    go_on = asyncio.Event()

    async def handler(event: Event[None]) -> None:
        await go_on.wait()

    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(handler)
        waiters = [asyncio.create_task(registration.wait_synced()) for _ in range(2)]
        await until(lambda: informer.status().handlers[0].in_flight_key)
        waiters[0].cancel()
        go_on.set()
        await waiters[1]
        with pytest.raises(asyncio.CancelledError):
            await waiters[0]


async def test_reading_a_cache_that_has_not_synced_raises(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    apiserver.faults.add(Fault(resource="pods", status=403, times=None))
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        lister = informer.lister
        with pytest.raises(CacheNotSyncedError, match=r"pods\.v1 is not synced \(state: new; last"):
            lister.list()
        async with informer:
            await until(lambda: informer.status().reflector.last_error)
            for read in (
                lister.list,
                lister.keys,
                lister.iter_async,
                lambda: lister.get("default/a"),
                lambda: lister["default/a"],
                lambda: "default/a" in lister,
                lister.namespace("default").list,
                lambda: lister.by_index("namespace", "default"),
            ):
                with pytest.raises(CacheNotSyncedError) as raised:
                    read()
                assert raised.value.state == "forbidden"
                assert "403" in str(raised.value)
            assert lister.list(allow_unsynced=True) == []
            assert lister.get("default/a", allow_unsynced=True) is None


async def test_a_namespace_that_is_not_watched_is_refused(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods", namespaces="default") as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        lister = informer.lister
        for read in (
            lister.namespace("kube-system").list,
            lambda: lister.get("kube-system/a"),
            lambda: lister.namespace("kube-system")["a"],
        ):
            with pytest.raises(NotCachedError) as raised:
                read()
            assert "pods.v1 in default does not watch namespace 'kube-system'" in str(raised.value)
        assert lister.get("kube-system/a", allow_unsynced=True) is None
        assert [obj.key for obj in lister.namespace("default").list()] == ["default/a"]


async def test_reading_a_synced_cache(apiserver: APIServer) -> None:
    for number in range(30):
        apiserver.create(pod(f"p{number}", node=f"n{number % 3}", app=f"a{number % 2}"))
    async with informer_of(apiserver) as informer:
        informer.add_index("node", "spec.nodeName")
        lister = informer.lister
        assert lister.get("default/missing") is None
        with pytest.raises(ObjectNotFoundError) as raised:
            lister["default/missing"]
        assert isinstance(raised.value, KeyError)
        assert "default/missing" in str(raised.value)
        assert len(lister.by_index("node", "n1")) == 10
        assert len(lister.list(label_selector="app=a1")) == 15
        assert len(lister.namespace("default").list(label_selector={"app": "a0"})) == 15
        walked = [obj.key async for obj in lister.iter_async(label_selector="app=a1")]
        assert len(walked) == 15
        with pytest.raises(IndexNotFoundError):
            lister.by_index("nothing", "n1")
        with pytest.raises(InvalidArgumentError, match="exists already"):
            informer.add_index("node", "spec.nodeName")
        with pytest.raises(InvalidArgumentError):
            informer.add_index("bad", "spec..")


async def test_an_index_function_that_raises_loses_no_object(apiserver: APIServer) -> None:
    def picky(obj: Any) -> str:
        if obj.metadata.name == "bad":
            raise KeyError("no such field")
        return "good"

    apiserver.create(pod("good"))
    apiserver.create(pod("bad"))
    async with informer_of(apiserver) as informer:
        informer.add_index("picky", picky)
        assert len(informer.lister.list()) == 2
        assert len(informer.lister.by_index("picky", "good")) == 1
        (index,) = [each for each in informer.status().indexes if each.name == "picky"]
        assert index.failures == 1


async def test_the_status_names_the_labels_that_lists_have_indexed(apiserver: APIServer) -> None:
    for number in range(500):
        apiserver.create(pod(f"p{number}", app=f"a{number % 50}"))
    async with informer_of(apiserver) as informer:
        assert informer.status().label_indexes == ()
        for _ in range(4):
            assert len(informer.lister.list(label_selector="app=a7")) == 10
        assert informer.status().label_indexes == ("app",)


async def test_what_the_cache_held_last_stays_readable_after_the_end(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        pass

    assert [obj.key for obj in informer.lister.list(allow_unsynced=True)] == ["default/a"]
    assert informer.status().reflector.state.value == "stopped"


async def test_status_is_frozen_has_no_content_and_can_be_served(apiserver: APIServer) -> None:
    """From any thread: a health endpoint has one of its own."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a", "labels": {"l": "in-the-label"}},
        "data": {"password": "aW4tdGhlLWRhdGE="},
    }

    def handler(event: Event[None]) -> None:
        raise ValueError(event)

    apiserver.create(secret)
    async with informer_of(apiserver, "secrets") as informer:
        informer.add_index("label", lambda obj: [][len(obj.metadata.labels)])
        registration = informer.add_event_handler(handler)
        await registration.wait_synced(timeout_seconds=100)
        served = await asyncio.to_thread(lambda: msgspec.json.encode(informer.status()))
        status = await asyncio.to_thread(informer.status)
        state = await asyncio.to_thread(core_of(informer).introspection.reflector_state)
        with pytest.raises(AttributeError):
            status.objects = 7  # type: ignore[misc]

    assert state == ("watching", None)
    assert b"in-the-label" not in served
    assert b"aW4tdGhlLWRhdGE=" not in served
    decoded = msgspec.json.decode(served)
    assert decoded["informer"] == "secrets.v1"
    assert decoded["has_synced"] is True
    assert decoded["handlers"][0]["failed"] == 1
    assert status.running_seconds > 0


async def test_status_can_be_asked_for_before_the_start_and_from_no_loop(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        informer.add_event_handler(Notes())
        status = await asyncio.to_thread(informer.status)

    assert str(status) == "pods.v1: new, 0 failed attempts, for 0.0 s"
    assert status.handlers[0].depth == 0


async def test_an_error_of_the_caller_is_raised_without_a_group(apiserver: APIServer) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        async with informer_of(apiserver):
            raise ZeroDivisionError

    assert raised.value.__cause__ is None
    assert not hasattr(raised.value, "__notes__")


async def test_the_block_may_be_entered_in_one_task_and_left_in_another(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        await asyncio.create_task(informer.__aenter__())
        await informer.wait_for_cache_sync(timeout_seconds=100)
        await asyncio.create_task(informer.__aexit__(None, None, None))
        assert not informer.is_running


async def test_run_works_in_a_task_group_of_the_caller(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, anyio.create_task_group() as group:
        informer = SharedInformer(cluster, "v1", "pods")
        await group.start(informer.run)
        await informer.wait_for_cache_sync(timeout_seconds=100)
        group.cancel_scope.cancel()
    assert informer.is_closed


async def test_run_ends_when_the_informer_is_closed_elsewhere(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, anyio.create_task_group() as group:
        informer = SharedInformer(cluster, "v1", "pods")
        await group.start(informer.run)
        await informer.aclose()


async def test_closing_is_idempotent_and_final(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        registration = informer.add_event_handler(Notes())
        await informer.start()
        await informer.start()
        await asyncio.gather(informer.aclose(), informer.aclose())
        await informer.aclose()
        for call in (informer.start(), informer.wait_for_cache_sync(), informer.__aenter__()):
            with pytest.raises(LifecycleError, match=r"closed|not running"):
                await call
        with pytest.raises(LifecycleError, match="closed: make a new one"):
            informer.events()
        with pytest.raises(LifecycleError, match="closed: make a new one"):
            informer.add_event_handler(Notes())
        await registration.remove()
        await informer.remove_event_handler(registration)


async def test_an_informer_that_never_ran_is_closed_at_once(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        registration = informer.add_event_handler(Notes())
        await informer.aclose()
        with pytest.raises(LifecycleError, match="was removed before it had synced"):
            await registration.wait_synced()


async def test_closing_while_it_syncs_closes_the_connection(apiserver: APIServer) -> None:
    apiserver.faults.add(Fault(resource="pods", hang=True))
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        await informer.start()
        await until(lambda: apiserver.faults.held)
        waiting = asyncio.create_task(informer.wait_for_cache_sync())
        await asyncio.sleep(0)
        async with asyncio.timeout(100):
            await informer.aclose()
            with pytest.raises(LifecycleError, match=r"pods\.v1 was closed before it had synced"):
                await waiting
    await until(lambda: not apiserver.faults.held)


def test_closing_with_stuck_handlers_takes_one_grace(caplog: pytest.LogCaptureFixture) -> None:
    with World([pod("a")], virtual_time=True) as world:

        async def close() -> None:
            let_go = asyncio.Event()

            async def stuck(event: Event[None]) -> None:
                while not let_go.is_set():
                    with contextlib.suppress(asyncio.CancelledError):
                        await let_go.wait()

            informer = SharedInformer(world.cluster, "v1", "pods", grace_seconds=300.0)
            for number in range(5):
                informer.add_event_handler(stuck, name=f"stuck{number}")
            await informer.start()
            await until(lambda: all(each.in_flight_key for each in informer.status().handlers))
            began = now()
            await informer.aclose()
            await informer.aclose()

            assert now() - began == 300.0
            assert len(informer.abandoned_handlers) == 5
            let_go.set()
            await until(lambda: not informer.abandoned_handlers)

        world.run(close)
    assert "did not stop" not in caplog.text


async def test_closing_with_a_stuck_thread_waits_its_grace_and_ends(apiserver: APIServer) -> None:
    let_go = threading.Event()

    def stuck(event: Event[None]) -> None:
        let_go.wait()

    apiserver.create(pod("a"))
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods", grace_seconds=0.2)
        informer.add_event_handler(pyinformer.in_thread(stuck))
        await informer.start()
        await until(lambda: informer.status().handlers[0].in_flight_key)
        began = now()
        await informer.aclose()

        assert now() - began >= 0.2 - 1e-6  # a difference of floats
        (name,) = informer.abandoned_handlers
        assert "stuck" in name
        let_go.set()
        await until(lambda: not informer.abandoned_handlers)


async def test_run_that_is_cancelled_has_closed(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        running = asyncio.create_task(informer.run())
        await until(lambda: informer.has_synced)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert informer.is_closed


async def test_a_users_clean_up_completes_at_the_close(apiserver: APIServer) -> None:
    began, rolled_back = asyncio.Event(), asyncio.Event()

    async def handler(event: Event[None]) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            tick = asyncio.Event()
            asyncio.get_running_loop().call_later(0.02, tick.set)
            await tick.wait()
            rolled_back.set()

    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        informer.add_event_handler(handler)
        await began.wait()

    assert rolled_back.is_set()


async def test_a_cancelled_close_has_closed(apiserver: APIServer) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def handler(event: Event[None]) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await go_on.wait()

    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        informer.add_event_handler(handler)
        await began.wait()
        closing = asyncio.create_task(informer.aclose())
        await until(lambda: core_of(informer).introspection.reflector_state()[0] == "stopped")
        closing.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert informer.status().handlers[0].is_removed


@pytest.mark.covers("controller-runtime pkg/cache: should allow for get informer to be cancelled")
async def test_a_cancelled_start_leaves_nothing_and_cannot_be_waited_for(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster:
        for turns in range(4):
            informer = SharedInformer(cluster, "v1", "pods")
            starting = asyncio.create_task(informer.start())
            for _ in range(turns):
                await asyncio.sleep(0)
            if starting.done():
                await informer.aclose()
                continue
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            if core_of(informer).lifecycle.is_started:
                assert informer.is_closed
                with pytest.raises(LifecycleError):
                    await informer.wait_for_cache_sync()


@pytest.mark.exhaustive
async def test_closed_at_any_moment_an_informer_leaves_nothing(apiserver: APIServer) -> None:
    """C52: many starts and stops at random points; the fixtures look for tasks and sockets."""
    rng = random.Random(52)
    for number in range(300):
        apiserver.create(pod(f"p{number}"))
    async with cluster_of(apiserver) as cluster:
        for _ in range(60):
            informer = SharedInformer(cluster, "v1", "pods")
            informer.add_event_handler(Notes())
            await informer.start()
            for _ in range(rng.randrange(40)):
                await asyncio.sleep(0)
            if rng.random() < 0.3:
                await informer.wait_for_cache_sync(timeout_seconds=100)
            await informer.aclose()
        await until(lambda: apiserver.open_watches == 0)


async def test_events_begin_with_what_exists(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer, informer.events() as events:
        first = await anext(events)
        apiserver.create(pod("b"))
        second = await anext(events)

    assert isinstance(first, Added)
    assert isinstance(second, Added)
    assert (first.key, first.is_in_initial_list) == ("default/a", True)
    assert (second.key, second.is_in_initial_list) == ("default/b", False)


async def test_events_entered_before_the_sync_get_everything_after_it(
    apiserver: APIServer,
) -> None:
    apiserver.create(pod("a"))
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        async with informer.events() as events:
            await informer.start()
            assert (await anext(events)).key == "default/a"
            await informer.aclose()
            assert [event async for event in events] == []


async def test_events_cannot_be_entered_after_the_end(apiserver: APIServer) -> None:
    async with informer_of(apiserver) as informer:
        events = informer.events()

    with pytest.raises(LifecycleError, match="closed: make a new one"):
        await events.__aenter__()


async def test_reprs_name_resource_and_scope(apiserver: APIServer) -> None:
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(print, name="printer")
        assert repr(informer) == "<SharedInformer of pods.v1>"
        assert repr(registration) == "<Registration of printer>"
        assert registration.name == "printer"


async def test_a_consumer_that_falls_behind_gets_a_typed_error(apiserver: APIServer) -> None:
    notes = Notes()
    async with informer_of(apiserver) as informer, informer.events(max_events=3) as events:
        informer.add_event_handler(notes)
        for number in range(5):
            apiserver.create(pod(f"p{number}"))
        await notes.until_heard("add default/p4")
        first = [str((await anext(events)).key) for _ in range(3)]
        with pytest.raises(EventStreamOverflowError) as raised:
            await anext(events)

    assert first == ["default/p0", "default/p1", "default/p2"]
    assert raised.value.limit == 3
    assert "pods.v1" in str(raised.value)


async def test_the_end_of_the_informer_ends_the_stream(apiserver: APIServer) -> None:
    async with informer_of(apiserver) as informer, informer.events() as events:
        consuming = asyncio.create_task(anext(events, None))
        await asyncio.sleep(0)
        await informer.aclose()
        assert await consuming is None


async def test_a_cancelled_step_takes_nothing(apiserver: APIServer) -> None:
    async with informer_of(apiserver) as informer, informer.events() as events:
        step = asyncio.create_task(anext(events))
        await asyncio.sleep(0)
        apiserver.create(pod("a"))
        await until(lambda: informer.lister.get("default/a"))
        step.cancel()
        got = [] if step.cancelled() else await asyncio.gather(step, return_exceptions=True)
        if not got or isinstance(got[0], BaseException):
            assert (await anext(events)).key == "default/a"


@pytest.mark.parametrize("max_events", [0, -1])
async def test_a_stream_without_room_is_refused(apiserver: APIServer, max_events: int) -> None:
    async with informer_of(apiserver) as informer:
        with pytest.raises(InvalidArgumentError, match="max_events"):
            informer.events(max_events=max_events)


class Broken:
    """A receiver of ours with a bug."""

    def put_nowait(self, event: Event[None]) -> None:
        """Fail."""
        raise ZeroDivisionError("a bug of ours")

    def preload_nowait(self, objects: object) -> None:
        """Take what exists."""

    def on_initial_list_complete(self) -> None:
        """Do nothing."""

    def on_missed_state(self, was: object, now: object) -> None:
        """Do nothing."""


async def crash(informer: SharedInformer[None], apiserver: APIServer) -> None:
    """Let the informer meet a bug."""
    core_of(informer).caches.attach(Broken())
    apiserver.create(pod("boom"))
    await until(lambda: informer.crash)


@pytest.mark.covers("client-go tools/cache: TestPanicPropagated")
async def test_an_internal_crash_is_raised_without_a_group_by_the_close(
    apiserver: APIServer,
) -> None:
    with pytest.raises(InternalError) as raised:
        async with informer_of(apiserver) as informer:
            await crash(informer, apiserver)
            assert not informer.is_running
            assert "crashed after" in str(informer.status())
            with pytest.raises(InternalError):
                await informer.wait_for_cache_sync()
            with pytest.raises(LifecycleError, match="crashed: make a new one"):
                informer.add_event_handler(Notes())

    assert "ZeroDivisionError" in str(raised.value)
    assert "please report this" in str(raised.value)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


@pytest.mark.covers("client-go tools/cache: TestPanicPropagated")
async def test_an_internal_crash_is_a_note_on_the_callers_error(apiserver: APIServer) -> None:
    with pytest.raises(KeyError) as raised:
        async with informer_of(apiserver) as informer:
            await crash(informer, apiserver)
            raise KeyError("the user's")

    assert "crashed with ZeroDivisionError" in raised.value.__notes__[0]


@pytest.mark.covers("client-go tools/cache: TestPanicPropagated")
async def test_an_internal_crash_ends_run_and_the_streams(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        running = asyncio.create_task(informer.run())
        await until(lambda: informer.has_synced)
        async with informer.events() as events:
            await crash(informer, apiserver)
            assert (await anext(events)).key == "default/boom"  # what was buffered comes first
            with pytest.raises(InternalError):
                await anext(events)
        with pytest.raises(InternalError):
            await running


async def test_a_crash_before_the_sync_ends_the_wait(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    apiserver.faults.add(Fault(resource="pods", hang=True))
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        await informer.start()
        waiting = asyncio.create_task(informer.wait_for_cache_sync())
        await until(lambda: apiserver.faults.held)
        core_of(informer).caches.all[0].indexer.replace_nowait = _fail  # type: ignore[method-assign, assignment]
        apiserver.faults.release()
        async with asyncio.timeout(100):
            with pytest.raises(InternalError):
                await waiting
        with pytest.raises(InternalError):
            await informer.aclose()


def _fail(*_: object) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("resource", "words"),
    [("nonsenses", "404"), ("pods", "watching")],
    ids=["unknown", "known"],
)
async def test_an_unknown_resource_is_reported(
    apiserver: APIServer, resource: str, words: str
) -> None:
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", resource) as informer,
    ):
        if resource == "pods":
            await informer.wait_for_cache_sync(timeout_seconds=100)
            await until(lambda: words in str(informer.status()))
            return
        with pytest.raises(CacheSyncTimeoutError) as raised:
            await informer.wait_for_cache_sync(timeout_seconds=0.3)
        assert words in str(raised.value)
        assert "nonsenses.v1: absent" in str(raised.value)


async def test_losing_the_resource_after_the_sync_keeps_the_cache(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        apiserver.faults.add(Fault(resource="pods", status=403, times=None))
        apiserver.drop_connections()
        await until(lambda: "403" in str(informer.status().reflector.last_error))

        assert [obj.key for obj in informer.lister.list()] == ["default/a"]
        assert informer.has_synced


class Mutable(View):
    values: list[str]


class NoView:
    pass


@pytest.mark.parametrize(
    ("model", "words"),
    [
        pytest.param(Mutable, "cannot be a view", id="view"),
        pytest.param(NoView, "cannot be decoded into NoView: use a msgspec.Struct", id="model"),
        pytest.param("PodView", "model", id="text"),
    ],
)
async def test_an_invalid_model_is_refused(apiserver: APIServer, model: Any, words: str) -> None:
    async with cluster_of(apiserver) as cluster:
        with pytest.raises(InvalidTypeError) as raised:
            SharedInformer(cluster, "v1", "pods", model=model)

    assert words in str(raised.value)


class Misfit(View):
    spec: int


async def test_a_view_that_does_not_fit_loses_no_object(apiserver: APIServer) -> None:
    """Each object is cached; the field that the view cannot read is named where it is asked for."""
    apiserver.create(pod("a"))
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods", model=Misfit) as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        found = informer.lister["default/a"]
        with pytest.raises(pyinformer.errors.InvalidObjectError, match="default/a"):
            _ = found.view
        assert found.at("spec.nodeName") == "n0"


async def test_a_lone_update_is_handled_in_the_callback_that_read_it(apiserver: APIServer) -> None:
    """Also with several namespaces, whose watches share the handler."""
    callers: list[set[str]] = []

    def handler(event: Event) -> None:
        frames = [frame for frame, _ in traceback.walk_stack(None)]
        callers.append({frame.f_code.co_name for frame in frames})

    apiserver.create(pod("a"))
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods", namespaces=["default", "other"]) as informer,
    ):
        await informer.add_event_handler(handler).wait_synced(timeout_seconds=100)
        for number in range(1, 200):  # on a busy machine, calls take longer than quick ones may
            apiserver.patch("v1", "pods", "a", {"metadata": {"labels": {"n": str(number)}}})
            await until(lambda: len(callers) > number)  # noqa: B023 - read before the next round
            if "on_turn" in callers[-1]:
                break

    assert "on_turn" not in callers[0], "the initial list is handled by the task"
    assert "on_turn" in callers[-1]
