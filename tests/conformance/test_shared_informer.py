"""The promises of client-go's shared informer, each under the name of the upstream test.

The upstream name opens each docstring. What differs, and why, is in
`docs/reference/conformance-differences.md`. Objects come from the embedded server over HTTP, where
upstream has a fake source.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import anyio
import pytest

from pyinformer.cache.informer import Registration, SharedInformer, StoreSink
from pyinformer.cache.informer.delivery import Handler, SharedProcessor
from pyinformer.cache.store import Indexer
from pyinformer.errors import InvalidArgumentError, LifecycleError
from pyinformer.objects import Added, Event, JSONObject, Updated
from pyinformer.testing import Fault
from tests.cache.informer.clusters import Notes, cluster_of, informer_of, listed, pod
from tests.pods import make
from tests.sinks import SinkOwner
from tests.virtual_time import VirtualTimeLoop, elapse
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.testing import APIServer


@pytest.mark.covers("client-go tools/cache: TestIndexer")
async def test_indexer(apiserver: APIServer) -> None:
    """TestIndexer: of what exists and of what comes; an index may be added while it runs."""
    for name in ("a", "b"):
        apiserver.create(pod(name, node="n1"))
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        informer.add_index("node", "spec.nodeName")
        async with informer:
            await informer.wait_for_cache_sync(timeout_seconds=100)
            assert len(informer.lister.by_index("node", "n1")) == 2
            apiserver.create(pod("c", node="n1"))
            await until(lambda: len(informer.lister.by_index("node", "n1")) == 3)

            informer.add_index("name", lambda obj: obj.metadata.name)
            assert [obj.key for obj in informer.lister.by_index("name", "c")] == ["default/c"]


@pytest.mark.covers(
    "client-go tools/cache: TestListenerResyncPeriods",
    "client-go tools/cache: TestListenerResyncPeriodsDelayed",
)
@pytest.mark.parametrize("delayed", [False, True])
def test_listener_resync_periods(delayed: bool) -> None:
    """TestListenerResyncPeriods, TestListenerResyncPeriodsDelayed: each by its own period."""

    async def body() -> None:
        indexer: Indexer = Indexer()
        crashes: list[BaseException] = []
        owner = SinkOwner()
        store_sink: StoreSink[None] = StoreSink(indexer, owner)
        processor = SharedProcessor("pods", store_sink, on_crash=crashes.append)
        everybody = {seconds: Notes() for seconds in (0.0, 2.0, 3.0)}
        for seconds, notes in everybody.items():
            processor.add(Handler.of(notes), mailbox_size=9, resync_period_seconds=seconds)
        async with anyio.create_task_group() as group:
            if delayed:
                for _ in store_sink.replace_nowait({"ns/a": make("ns/a")}, "1"):
                    pass
                await elapse(10.0)
            processor.start_nowait(group)
            if not delayed:
                for _ in store_sink.replace_nowait({"ns/a": make("ns/a")}, "1"):
                    pass
            heard = []
            for _ in range(3):
                heard.append([len(notes.events) for notes in everybody.values()])
                await elapse(1.75)
            await processor.aclose(1.0)
            group.cancel_scope.cancel()

        assert heard == [[0, 0, 0], [1, 1, 1], [1, 2, 2]]
        assert crashes == owner.crashes == []
        assert [notes.faults for notes in everybody.values()] == [[]] * 3

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(body())


@pytest.mark.covers("client-go tools/cache: TestSharedInformerInitializationRace")
async def test_shared_informer_initialization_race(apiserver: APIServer) -> None:
    """TestSharedInformerInitializationRace: a handler may come at any moment of the start."""
    apiserver.create(pod("a"))
    async with cluster_of(apiserver) as cluster:
        for turns in range(6):
            informer = SharedInformer(cluster, "v1", "pods")
            starting = asyncio.create_task(informer.start())
            for _ in range(turns):
                await asyncio.sleep(0)
            notes = Notes()
            registration = informer.add_event_handler(notes)
            await starting
            await registration.wait_synced(timeout_seconds=100)
            await informer.aclose()
            assert notes.heard == ["add default/a"]


@pytest.mark.covers("client-go tools/cache: TestSharedInformerWatchDisruption")
async def test_shared_informer_watch_disruption(apiserver: APIServer) -> None:
    """TestSharedInformerWatchDisruption: a relist causes events for new, changed and deleted."""
    for name in ("same", "changes", "goes"):
        apiserver.create(pod(name))
    plain, reminded = Notes(), Notes()
    async with informer_of(apiserver) as informer:
        for notes, seconds in ((plain, 0.0), (reminded, 0.01)):
            registration = informer.add_event_handler(notes, resync_period_seconds=seconds)
            await registration.wait_synced(timeout_seconds=100)
        apiserver.stop_accepting()
        apiserver.drop_connections()
        apiserver.delete("v1", "pods", "goes")
        apiserver.patch("v1", "pods", "changes", {"metadata": {"labels": {"a": "b"}}})
        apiserver.create(pod("new"))
        apiserver.compact()
        apiserver.accept_again()
        for notes in (plain, reminded):
            await notes.until_heard(
                "add default/new", "update default/changes", "delete default/goes"
            )
        await reminded.until_heard("update default/same")

    assert sorted(plain.heard[3:]) == [
        "add default/new",
        "delete default/goes",
        "update default/changes",
    ]
    assert plain.mirror == reminded.mirror == listed(apiserver)
    assert plain.faults == reminded.faults == []


@pytest.mark.covers("client-go tools/cache: TestSharedInformerErrorHandling")
async def test_shared_informer_error_handling(apiserver: APIServer) -> None:
    """TestSharedInformerErrorHandling: the list's error can be seen; here in the status."""
    apiserver.faults.add(Fault(resource="pods", status=403, message="Access Denied", times=None))
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods") as informer,
    ):
        await until(lambda: "Access Denied" in str(informer.status().reflector.last_error))


@pytest.mark.covers(
    "client-go tools/cache: TestSharedInformerTransformer",
    "client-go tools/cache: TestTransformingInformer",
)
async def test_shared_informer_transformer(apiserver: APIServer) -> None:
    """TestSharedInformerTransformer: handlers and cache have what the transform made."""

    def transform(obj: JSONObject) -> JSONObject:
        return {**obj, "spec": {"nodeName": "changed"}}

    apiserver.create(pod("a"))
    found: list[object] = []
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods", transform=transform) as informer,
    ):
        registration = informer.add_event_handler(
            on_add=lambda obj: found.append(obj.at("spec.nodeName", str))
        )
        await registration.wait_synced(timeout_seconds=100)
        found.append(informer.lister["default/a"].at("spec.nodeName", str))

    assert found == ["changed", "changed"]


@pytest.mark.covers("client-go tools/cache: TestSharedInformerRemoveHandler")
async def test_shared_informer_remove_handler(apiserver: APIServer) -> None:
    """TestSharedInformerRemoveHandler: two, one, none."""
    async with informer_of(apiserver) as informer:
        registrations = [informer.add_event_handler(Notes()) for _ in range(2)]
        counts = [len(informer.status().handlers)]
        for registration in registrations:
            await informer.remove_event_handler(registration)
            counts.append(len(informer.status().handlers))

    assert counts == [2, 1, 0]


@pytest.mark.covers("client-go tools/cache: TestSharedInformerRemoveForeignHandler")
async def test_shared_informer_remove_foreign_handler(apiserver: APIServer) -> None:
    """TestSharedInformerRemoveForeignHandler: no effect; here it is also an error."""
    notes = Notes()
    async with informer_of(apiserver) as own, informer_of(apiserver) as foreign:
        registration = own.add_event_handler(notes)
        with pytest.raises(InvalidArgumentError):
            await foreign.remove_event_handler(registration)
        apiserver.create(pod("a"))
        await notes.until_heard("add default/a")


@pytest.mark.covers("client-go tools/cache: TestSharedInformerMultipleRegistration")
async def test_shared_informer_multiple_registration(apiserver: APIServer) -> None:
    """TestSharedInformerMultipleRegistration: the same handler twice is two registrations."""
    heard: list[str] = []

    def handler(event: Event[None]) -> None:
        heard.append(event.key)

    async with informer_of(apiserver) as informer:
        first = informer.add_event_handler(handler)
        informer.add_event_handler(handler)
        apiserver.create(pod("a"))
        await until(lambda: len(heard) == 2)
        await first.remove()
        apiserver.create(pod("b"))
        await until(lambda: len(heard) == 3)
        assert len(informer.status().handlers) == 1

    assert heard == ["default/a", "default/a", "default/b"]


@pytest.mark.covers("client-go tools/cache: TestRemovingRemovedSharedInformer")
async def test_removing_removed_shared_informer(apiserver: APIServer) -> None:
    """TestRemovingRemovedSharedInformer: the second removal does nothing."""
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(Notes())
        for _ in range(2):
            await informer.remove_event_handler(registration)


@pytest.mark.covers("client-go tools/cache: TestSharedInformerHandlerAbuse")
async def test_shared_informer_handler_abuse(apiserver: APIServer) -> None:
    """TestSharedInformerHandlerAbuse: many add and remove while events come and it stops."""
    rng = random.Random(14)
    faults: list[list[str]] = []
    refused = 0

    async def abuse(informer: SharedInformer[None]) -> None:
        nonlocal refused
        registrations: list[Registration[None]] = []
        while True:
            notes = Notes()
            try:
                registrations.append(informer.add_event_handler(notes))
            except LifecycleError:
                refused += 1
                return
            faults.append(notes.faults)
            await asyncio.sleep(0)
            if rng.random() < 0.9:
                await registrations.pop(rng.randrange(len(registrations))).remove()

    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        await informer.start()
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(abuse(informer))
            for number in range(100):
                apiserver.create(pod(f"p{number}"))
                await asyncio.sleep(0)
            await informer.aclose()

    assert refused == 20
    assert len(faults) > 200
    assert all(found == [] for found in faults)


@pytest.mark.covers("client-go tools/cache: TestStateSharedInformer")
async def test_state_shared_informer(apiserver: APIServer) -> None:
    """TestStateSharedInformer: not started, running, closed."""
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        states = [(informer.is_running, informer.is_closed)]
        await informer.start()
        states.append((informer.is_running, informer.is_closed))
        await informer.aclose()
        states.append((informer.is_running, informer.is_closed))

    assert states == [(False, False), (True, False), (False, True)]


@pytest.mark.covers("client-go tools/cache: TestAddOnStoppedSharedInformer")
async def test_add_on_stopped_shared_informer(apiserver: APIServer) -> None:
    """TestAddOnStoppedSharedInformer: an error that says why."""
    async with informer_of(apiserver) as informer:
        pass

    with pytest.raises(LifecycleError, match=r"the informer of pods\.v1 is closed: make a new"):
        informer.add_event_handler(Notes())


@pytest.mark.covers("client-go tools/cache: TestRemoveOnStoppedSharedInformer")
async def test_remove_on_stopped_shared_informer(apiserver: APIServer) -> None:
    """TestRemoveOnStoppedSharedInformer: allowed."""
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(Notes())

    await informer.remove_event_handler(registration)


@pytest.mark.covers("client-go tools/cache: TestRemoveWhileActive")
async def test_remove_while_active(apiserver: APIServer) -> None:
    """TestRemoveWhileActive: no event after the removal."""
    notes, other = Notes(), Notes()
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(notes)
        await registration.wait_synced(timeout_seconds=100)
        await registration.remove()
        informer.add_event_handler(other)
        apiserver.create(pod("a"))
        await other.until_heard("add default/a")

    assert notes.heard == []


@pytest.mark.covers("client-go tools/cache: TestAddWhileActive")
async def test_add_while_active(apiserver: APIServer) -> None:
    """TestAddWhileActive: a late handler syncs after its initial events; both get the next."""
    go_on = asyncio.Event()
    late: list[str] = []

    async def slow(event: Event[None]) -> None:
        await go_on.wait()
        late.append(event.key)

    notes = Notes()
    apiserver.create(pod("a"))
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        first = informer.add_event_handler(notes)
        assert not first.has_synced
        async with informer:
            await first.wait_synced(timeout_seconds=100)
            assert notes.heard == ["add default/a"]

            second = informer.add_event_handler(slow)
            await until(lambda: informer.status().handlers[1].in_flight_key)
            assert not second.has_synced
            go_on.set()
            await second.wait_synced(timeout_seconds=100)
            assert late == ["default/a"]

            apiserver.create(pod("b"))
            await notes.until_heard("add default/b")
            await until(lambda: late == ["default/a", "default/b"])


@pytest.mark.covers("client-go tools/cache: TestShutdown")
@pytest.mark.parametrize("case", ["removed-before", "added-late", "never-run"])
async def test_shutdown(apiserver: APIServer, case: str) -> None:
    """TestShutdown: nothing is left, which the fixtures look for."""
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        registration = informer.add_event_handler(Notes(), resync_period_seconds=60.0)
        if case == "never-run":
            await informer.aclose()
            return
        async with informer:
            await informer.wait_for_cache_sync(timeout_seconds=100)
            if case == "removed-before":
                await registration.remove()
            else:
                informer.add_event_handler(Notes(), resync_period_seconds=60.0)


@pytest.mark.covers("client-go tools/cache: TestEventPanics")
async def test_event_panics(apiserver: APIServer, caplog: pytest.LogCaptureFixture) -> None:
    """TestEventPanics: each failure is counted, the first logged, and the next event comes."""

    def panics(event: Event[None]) -> None:
        raise ZeroDivisionError

    for number in range(3):
        apiserver.create(pod(f"p{number}"))
    async with informer_of(apiserver) as informer:
        registrations = [informer.add_event_handler(panics) for _ in range(2)]
        for registration in registrations:
            await registration.wait_synced(timeout_seconds=100)
        assert [handler.failed for handler in informer.status().handlers] == [3, 3]

    logged = [record.getMessage() for record in caplog.records if "failed on" in record.message]
    assert len(logged) == 2  # one for each handler: of a kind, one per minute is logged
    assert all("panics of pods.v1 failed on default/p" in line for line in logged)


@pytest.mark.covers("client-go tools/cache: TestRemoveEventHandler_AsynchronousPanic")
async def test_remove_event_handler_asynchronous_panic(apiserver: APIServer) -> None:
    """TestRemoveEventHandler_AsynchronousPanic: a call that outlives its removal may fail."""
    began, go_on = asyncio.Event(), asyncio.Event()

    async def panics(event: Event[None]) -> None:
        began.set()
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        raise ZeroDivisionError

    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(panics)
        await began.wait()
        await registration.remove(grace_seconds=0.0)
        assert len(informer.abandoned_handlers) == 1
        go_on.set()
        await until(lambda: not informer.abandoned_handlers)
        assert informer.is_running


@pytest.mark.covers("client-go tools/cache: TestRemoveEventHandler_SynchronousShutdown")
async def test_remove_event_handler_synchronous_shutdown(apiserver: APIServer) -> None:
    """TestRemoveEventHandler_SynchronousShutdown: the removal returns after the call."""
    began, go_on = asyncio.Event(), asyncio.Event()
    order: list[str] = []

    async def handler(event: Event[None]) -> None:
        began.set()
        await go_on.wait()
        order.append("call returned")

    async def remove(registration: Registration[None]) -> None:
        await registration.remove()
        order.append("removal returned")

    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(handler)
        await began.wait()
        removing = asyncio.create_task(remove(registration))
        await asyncio.sleep(0)
        go_on.set()
        await removing

    assert order == ["call returned", "removal returned"]


@pytest.mark.covers("client-go tools/cache: TestShutDownEventHandler_Lifecycles")
@pytest.mark.parametrize("case", ["never-started", "started-added", "added-started"])
async def test_shut_down_event_handler_lifecycles(apiserver: APIServer, case: str) -> None:
    """TestShutDownEventHandler_Lifecycles: at any moment of the informer's life."""
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        if case == "started-added":
            await informer.start()
        registration = informer.add_event_handler(Notes())
        if case == "added-started":
            await informer.start()
        async with asyncio.timeout(100):
            await registration.remove()
            await informer.aclose()


async def test_a_resync_is_an_update_of_an_object_to_itself(apiserver: APIServer) -> None:
    """S11: only handlers with a resync period get unchanged objects again."""
    apiserver.create(pod("a"))
    reminded = Notes()
    async with informer_of(apiserver) as informer:
        informer.add_event_handler(reminded, resync_period_seconds=0.01)
        await reminded.until_heard("update default/a")

    first, second = reminded.events[:2]
    assert isinstance(first, Added)
    assert isinstance(second, Updated)
    assert second.is_resync
