"""A factory on a server over real HTTP: sharing, starting, removing, its status, its lifetime."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import inspect
import json
import random
import sys
import threading
import weakref
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import pytest

import pyinformer
from pyinformer.cache.informer import SharedInformer, SharedInformerFactory, core_of
from pyinformer.errors import (
    CacheSyncTimeoutError,
    InformerConflictError,
    InternalError,
    InvalidArgumentError,
    InvalidSelectorError,
    InvalidTypeError,
    LifecycleError,
)
from pyinformer.objects import Added, Deleted, Event, Updated, View
from pyinformer.telemetry import Watchdog
from pyinformer.testing import Fault, World
from tests.cache.informer.clusters import HURRIED, Notes, cluster_of, listed, pod
from tests.waiting import now, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.testing import APIServer


class PodSpec(View):
    node_name: str = ""


class PodView(View):
    spec: PodSpec = PodSpec()


@asynccontextmanager
async def factory_of(
    server: APIServer, *, grace_seconds: float = 5.0, start: bool = True
) -> AsyncIterator[SharedInformerFactory]:
    """Run a factory."""
    async with (
        cluster_of(server) as cluster,
        SharedInformerFactory(cluster, grace_seconds=grace_seconds, options=HURRIED) as factory,
    ):
        if start:
            await factory.start()
        yield factory


async def test_an_informer_that_a_callback_of_the_loop_requests_is_started(
    apiserver: APIServer,
) -> None:
    """As `loop.call_soon_threadsafe` does, which other threads use; with sniffio as without."""
    apiserver.create(pod("a"))
    async with factory_of(apiserver) as factory:
        asyncio.get_running_loop().call_soon(factory.informer, "v1", "pods")
        await until(lambda: factory.informers)
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert factory.informer("v1", "pods").lister.keys() == ["default/a"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 brought eager tasks")
async def test_a_handler_is_not_called_before_its_registration_is_returned(
    apiserver: APIServer,
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined,unused-ignore]
    calls: list[object] = []

    async def once(event: Event[None]) -> None:
        calls.append(event)
        await registration.remove()

    apiserver.create(pod("a"))
    apiserver.create(pod("b"))
    async with factory_of(apiserver) as factory:
        informer = factory.informer("v1", "pods")
        await informer.wait_for_cache_sync(timeout_seconds=100)
        registration = informer.add_event_handler(once)
        assert calls == []
        await until(lambda: calls and not informer.status().handlers)
    assert len(calls) == 1


@pytest.mark.covers("controller-runtime pkg/cache: should be able to get informer for the object")
async def test_the_call_site_of_the_design_runs(apiserver: APIServer) -> None:
    apiserver.create(pod("web-1", node="node-1", app="web"))
    seen: list[str] = []
    streamed: list[str] = []
    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        pods = factory.informer("v1", "pods", model=PodView)
        pods.add_index("node", "spec.nodeName")
        pods.add_event_handler(
            on_add=lambda obj: seen.append(f"add {obj.key}"),
            on_update=lambda old, new: seen.append(f"update {new.key}"),
            on_delete=lambda obj: seen.append(f"delete {obj.key}"),
        )
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        web = pods.lister.namespace("default").list(label_selector="app=web")
        on_node = pods.lister.by_index("node", "node-1")
        assert [found.view.spec.node_name for found in web] == ["node-1"]
        assert [found.key for found in on_node] == ["default/web-1"]
        apiserver.patch("v1", "pods", "web-1", {"metadata": {"labels": {"a": "b"}}})
        await until(lambda: "update default/web-1" in seen)
        async with pods.events() as events:
            apiserver.delete("v1", "pods", "web-1")
            async for event in events:
                match event:
                    case pyinformer.Added(obj):
                        streamed.append(f"add {obj.key}")
                    case pyinformer.Updated(_, new):
                        streamed.append(f"update {new.key}")
                    case pyinformer.Deleted(last_known):
                        streamed.append(f"delete {last_known.key}")
                        break
        await until(lambda: len(seen) == 3)

    assert seen == ["add default/web-1", "update default/web-1", "delete default/web-1"]
    assert streamed == ["add default/web-1", "delete default/web-1"]


@pytest.mark.covers("controller-runtime pkg/cache: should be able to get informer for the object")
async def test_equal_options_share_one_informer(apiserver: APIServer) -> None:
    async with factory_of(apiserver) as factory:
        pods = factory.informer("v1", "pods", label_selector="b=2,a=1", model=PodView)
        again = factory.informer("v1", "pods", label_selector={"a": "1", "b": "2"}, model=PodView)
        others = [
            factory.informer("v1", "pods"),
            factory.informer("v1", "pods", namespaces="default"),
            factory.informer("v1", "secrets"),
            factory.informer("v1", "pods", field_selector="spec.nodeName=n"),
        ]
        await factory.wait_for_cache_sync(timeout_seconds=100)

        assert again is pods
        assert len({id(informer) for informer in (pods, *others)}) == 5
        assert len([r for r in apiserver.requests if r.verb == "watch"]) == 5


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("model", PodView),
        ("memory", "raw"),
        ("transform", lambda obj: obj),
        ("queue", "real_fifo"),
    ],
)
async def test_different_options_for_a_shared_informer_conflict(
    apiserver: APIServer, option: str, value: Any
) -> None:
    async with factory_of(apiserver, start=False) as factory:
        first = factory.informer("v1", "pods")  # the first place
        options = {option: value}
        with pytest.raises(InformerConflictError) as raised:
            factory.informer("v1", "pods", **options)

        line = test_different_options_for_a_shared_informer_conflict.__code__.co_firstlineno
        error = raised.value
        assert error.option == option
        assert error.first_call_site.startswith(f"{__file__}:")
        places = [error.first_call_site, error.second_call_site]
        assert all(int(place.rpartition(":")[2]) > line for place in places)
        assert len(set(places)) == 2
        assert str(error) == (
            f"{option}: the informer for pods.v1 exists with another {option} (created at"
            f" {places[0]}, requested again at {places[1]}); use the same options in both places,"
            " or private=True for a separate informer"
        )

        private = factory.informer("v1", "pods", private=True, **options)
        assert private is not first
        assert factory.informer("v1", "pods") is first


async def test_a_folder_whose_name_begins_like_the_package_is_outside_of_it(
    apiserver: APIServer,
) -> None:
    """A user's `pyinformer_app/main.py` is a call site, though it may lie beside the package."""
    beside = f"{Path(pyinformer.__file__).parent}_app/main.py"
    code = compile("factory.informer('v1', 'pods', memory='raw')", beside, "exec")
    async with factory_of(apiserver, start=False) as factory:
        factory.informer("v1", "pods")
        with pytest.raises(InformerConflictError) as raised:
            exec(code, {"factory": factory})  # noqa: S102 - names a file

    assert raised.value.second_call_site == f"{beside}:1"


async def test_private_informers_are_not_shared(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with factory_of(apiserver) as factory:
        one = factory.informer("v1", "pods", private=True)
        other = factory.informer("v1", "pods", private=True)
        shared = factory.informer("v1", "pods", memory="raw")
        await factory.wait_for_cache_sync(timeout_seconds=100)

        assert len({id(informer) for informer in (one, other, shared)}) == 3
        assert [len(informer.lister.list()) for informer in (one, other, shared)] == [1, 1, 1]


class Mutable(View):
    names: list[str]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        pytest.param(
            ("pods", "v1"),
            {},
            InvalidArgumentError,
            "arguments swapped: write ('v1', 'pods')",
            id="swapped",
        ),
        pytest.param(
            ("v1", "pods"),
            {"namespaces": ["a", "b"], "namespace_selector": "team=a"},
            ValueError,
            "cannot be combined with `namespaces`",
            id="namespaces",
        ),
        pytest.param(
            ("v1", "pods"),
            {"label_selector": "a in (b"},
            InvalidSelectorError,
            "label_selector: cannot parse 'a in (b'",
            id="selector",
        ),
        pytest.param(
            ("v1", "pods"),
            {"model": Mutable},
            InvalidTypeError,
            "cannot be a view",
            id="view",
        ),
        pytest.param(
            ("v1", "pods"), {"memory": "none"}, InvalidArgumentError, "must be one of", id="memory"
        ),
        pytest.param(
            ("v1", "pods"),
            {"namespace": "shop"},
            TypeError,
            "namespace: is not an option here: did you mean namespaces?",
            id="misspelled",
        ),
        pytest.param(
            ("v1", "pods"), {"modle": View}, TypeError, "did you mean model?", id="misspelled-model"
        ),
        pytest.param(
            ("v1", "pods"), {"ttl": 5}, TypeError, "the options are absent, audit_p", id="unknown"
        ),
    ],
)
async def test_invalid_options_are_refused_at_the_call_and_leave_no_state(
    apiserver: APIServer, arguments: Any, options: Any, error: type[Exception], words: str
) -> None:
    async with factory_of(apiserver) as factory:
        with pytest.raises(error) as raised:
            factory.informer(*arguments, **options)

        assert words in str(raised.value)
        assert factory.status().informers == ()
        await factory.wait_for_cache_sync(timeout_seconds=1)


@pytest.mark.covers(
    "controller-runtime pkg/cache: should be able to get informer for the object without"
)
async def test_an_informer_made_after_the_start_starts(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with factory_of(apiserver) as factory:
        pods = factory.informer("v1", "pods")
        await pods.wait_for_cache_sync(timeout_seconds=100)

        assert [obj.key for obj in pods.lister.list()] == ["default/a"]


async def test_an_informer_made_by_a_handler_starts(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    found = asyncio.Event()

    async with factory_of(apiserver) as factory:

        async def handler(event: Event[None]) -> None:
            secrets = factory.informer("v1", "secrets")
            await secrets.wait_for_cache_sync(timeout_seconds=100)
            found.set()

        factory.informer("v1", "pods").add_event_handler(handler)
        async with asyncio.timeout(100):
            await found.wait()


@pytest.mark.covers("controller-runtime pkg/cache: should be able to stop and restart informers")
async def test_a_removed_informer_has_stopped_and_can_be_made_again(apiserver: APIServer) -> None:
    async with factory_of(apiserver) as factory:
        pods = factory.informer("v1", "pods")
        kept = factory.informer("v1", "secrets")
        await factory.wait_for_cache_sync(timeout_seconds=100)
        await factory.remove_informer(pods)
        await until(lambda: apiserver.open_watches == 1)
        assert not pods.is_running
        assert kept.is_running

        anew = factory.informer("v1", "pods", memory="raw")  # no conflict with what is gone
        assert anew is not pods
        await factory.wait_for_cache_sync(timeout_seconds=100)
        await factory.remove_informer(pods)  # a second time does nothing
        assert anew.is_running
        assert [one.informer for one in factory.status().informers] == ["secrets.v1", "pods.v1"]


async def test_an_informer_removed_in_the_same_step_affects_no_other(apiserver: APIServer) -> None:
    async with factory_of(apiserver) as factory:
        kept = factory.informer("v1", "secrets")
        for _ in range(5):
            await factory.remove_informer(factory.informer("v1", "pods"))
        await factory.wait_for_cache_sync(timeout_seconds=100)

        assert kept.has_synced
        assert factory.informer("v1", "pods").is_running


async def test_an_informer_that_its_user_closed_is_not_handed_out_again(
    apiserver: APIServer,
) -> None:
    async with factory_of(apiserver) as factory:
        pods = factory.informer("v1", "pods")
        await pods.aclose()
        again = factory.informer("v1", "pods")
        await factory.wait_for_cache_sync(timeout_seconds=100)

        assert again is not pods
        assert again.has_synced
        assert len(factory.status().informers) == 1
        assert factory.status().has_synced


async def test_another_factorys_informer_is_not_removed(apiserver: APIServer) -> None:
    async with factory_of(apiserver) as one, factory_of(apiserver) as other:
        pods = one.informer("v1", "pods")
        with pytest.raises(InvalidArgumentError, match=r"pods\.v1> is not one of this factory"):
            await other.remove_informer(pods)
        assert pods.is_running


@pytest.mark.covers(
    "controller-runtime pkg/cache: should error when starting the cache a second time"
)
async def test_a_second_start_does_nothing(apiserver: APIServer) -> None:
    async def start_and_wait(factory: SharedInformerFactory) -> None:
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)

    async with factory_of(apiserver, start=False) as factory:
        factory.informer("v1", "pods")
        async with asyncio.TaskGroup() as group:
            group.create_task(start_and_wait(factory))
            group.create_task(start_and_wait(factory))


async def test_a_removal_names_a_handler_that_does_not_end(apiserver: APIServer) -> None:
    began, let_go = asyncio.Event(), asyncio.Event()

    async def stubborn(event: Event[None]) -> None:
        began.set()
        while not let_go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await let_go.wait()

    apiserver.create(pod("a"))
    async with factory_of(apiserver, grace_seconds=0.05) as factory:
        pods = factory.informer("v1", "pods")
        pods.add_event_handler(stubborn)
        await began.wait()
        await factory.remove_informer(pods)

        assert factory.status().informers == ()
        (name,) = factory.status().abandoned_handlers
        assert "stubborn" in name
        let_go.set()
        await until(lambda: not factory.status().abandoned_handlers)


async def test_a_removed_informer_leaves_no_cache_behind(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with factory_of(apiserver) as factory:
        cached = weakref.ref(factory.informer("v1", "pods"))
        await factory.wait_for_cache_sync(timeout_seconds=100)
        await factory.remove_informer(_alive(cached))
        gc.collect()

        assert cached() is None


def _alive(informer: weakref.ref[SharedInformer[None]]) -> SharedInformer[None]:
    found = informer()
    assert found is not None
    return found


async def test_a_cancelled_removal_has_removed(apiserver: APIServer) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def handler(event: Event[None]) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await go_on.wait()

    apiserver.create(pod("a"))
    async with factory_of(apiserver) as factory:
        pods = factory.informer("v1", "pods")
        pods.add_event_handler(handler)
        await began.wait()
        removing = asyncio.create_task(factory.remove_informer(pods))
        await until(lambda: core_of(pods).introspection.reflector_state()[0] == "stopped")
        removing.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await removing
        assert factory.informer("v1", "pods") is not pods


async def test_a_status_can_be_encoded_by_the_standard_library(apiserver: APIServer) -> None:
    async with factory_of(apiserver) as factory:
        factory.informer("v1", "pods").add_event_handler(Notes(), name="notes")
        await factory.wait_for_cache_sync(timeout_seconds=100)
        status = factory.status()

    served = json.loads(json.dumps(dataclasses.asdict(status)))

    assert served == msgspec.json.decode(msgspec.json.encode(status))
    assert served["informers"][0]["reflector"]["state"] == "watching"


async def test_status_can_be_read_from_any_thread_at_any_time(apiserver: APIServer) -> None:
    def served(factory: SharedInformerFactory) -> Any:
        return msgspec.json.decode(msgspec.json.encode(factory.status()))

    async with factory_of(apiserver, start=False) as factory:
        pods = factory.informer("v1", "pods")
        pods.add_event_handler(Notes(), name="notes")
        before = await asyncio.to_thread(served, factory)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        during = await asyncio.to_thread(served, factory)
        assert factory.status().has_synced
    after = await asyncio.to_thread(served, factory)

    assert [each["informers"][0]["reflector"]["state"] for each in (before, during, after)] == [
        "new",
        "watching",
        "stopped",
    ]
    assert during["informers"][0]["handlers"][0]["name"] == "notes"
    assert during["abandoned_handlers"] == []
    assert during["watchdog"]["blocked"] == 0
    with pytest.raises(AttributeError):
        factory.status().informers = ()  # type: ignore[misc]


@pytest.mark.parametrize("given", ["https://cluster.example", None])
def test_a_value_that_is_not_a_cluster_is_refused_at_once(given: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"^cluster: .*async with .*connect\(\)"):
        SharedInformerFactory(given)


def test_a_connection_that_was_not_entered_is_refused_at_once() -> None:
    not_entered: Any = pyinformer.connect(server="http://127.0.0.1:1")
    with pytest.raises(InvalidTypeError, match=r"^cluster: .*async with .*connect\(\)"):
        SharedInformerFactory(not_entered)


async def test_status_can_be_read_by_a_thread_while_handlers_come_and_go(
    apiserver: APIServer,
) -> None:
    for number in range(20):
        apiserver.create(pod(f"p{number}"))
    stop = threading.Event()
    errors: list[BaseException] = []
    reads = 0

    async with factory_of(apiserver) as factory:

        def read() -> None:
            nonlocal reads
            try:
                while not stop.wait(0.001):  # lets the loop have the interpreter in between
                    msgspec.json.encode(factory.status())
                    reads += 1
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        for number in range(50):
            pods = factory.informer("v1", "pods")
            pods.add_index(f"i{number}", "spec.nodeName")
            registration = pods.add_event_handler(Notes())
            await pods.wait_for_cache_sync(timeout_seconds=100)
            await registration.wait_synced(timeout_seconds=100)
            if number % 2:
                await registration.remove()
            if number % 5 == 0:
                await factory.remove_informer(pods)
        stop.set()
        await asyncio.to_thread(thread.join)

    assert errors == []
    assert reads > 0


async def test_the_watchdog_names_the_handler_that_blocks_the_loop(apiserver: APIServer) -> None:
    waits_for_nothing = threading.Event()
    returned = asyncio.Event()

    def blocks_the_loop(event: Event[None]) -> None:
        waits_for_nothing.wait(1.3)
        returned.set()

    apiserver.create(pod("a"))
    async with factory_of(apiserver) as factory:
        factory.informer("v1", "pods").add_event_handler(blocks_the_loop)
        await returned.wait()
        await until(lambda: factory.status().watchdog.longest_seconds > 1.0)
        watchdog = factory.status().watchdog

    assert watchdog.blocked == 1
    assert watchdog.last_culprit is not None
    assert "blocks_the_loop of pods.v1" in watchdog.last_culprit


async def test_two_starts_at_once_are_one(apiserver: APIServer) -> None:
    async with factory_of(apiserver, start=False) as factory:
        factory.informer("v1", "pods")
        await asyncio.gather(factory.start(), factory.start())
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)

        assert len([r for r in apiserver.requests if r.verb == "watch"]) == 1


async def test_a_closed_factory_refuses_everything(apiserver: APIServer) -> None:
    async with factory_of(apiserver) as factory:
        pods = factory.informer("v1", "pods")
    await factory.aclose()
    await factory.remove_informer(pods)

    with pytest.raises(LifecycleError, match="the factory is closed: make a new one"):
        factory.informer("v1", "pods")
    for call in (factory.start, factory.wait_for_cache_sync, factory.__aenter__, factory.run):
        with pytest.raises(LifecycleError, match="closed: make a new one"):
            await call()


async def test_a_factory_that_never_started_closes_its_informers(apiserver: APIServer) -> None:
    async with factory_of(apiserver, start=False) as factory:
        pods = factory.informer("v1", "pods")
        registration = pods.add_event_handler(Notes())

    assert pods.is_closed
    assert not registration.has_synced
    assert apiserver.requests == ()


async def test_an_error_of_the_caller_is_raised_without_a_group(apiserver: APIServer) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        async with factory_of(apiserver) as factory:
            await factory.informer("v1", "pods").wait_for_cache_sync(timeout_seconds=100)
            raise ZeroDivisionError

    assert not hasattr(raised.value, "__notes__")


async def test_the_block_may_be_entered_in_one_task_and_left_in_another(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster:
        factory = SharedInformerFactory(cluster)
        await asyncio.create_task(factory.__aenter__())
        pods = factory.informer("v1", "pods")
        await asyncio.create_task(factory.start())
        await factory.wait_for_cache_sync(timeout_seconds=100)
        await asyncio.create_task(factory.__aexit__(None, None, None))
        assert pods.is_closed


async def test_run_works_in_a_task_group_of_the_caller(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        factory = SharedInformerFactory(cluster)
        pods = factory.informer("v1", "pods")
        async with anyio.create_task_group() as group:
            await group.start(factory.run)
            await factory.wait_for_cache_sync(timeout_seconds=100)
            group.cancel_scope.cancel()
        assert pods.is_closed


async def test_run_ends_when_the_factory_is_closed_elsewhere(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, asyncio.TaskGroup() as group:
        factory = SharedInformerFactory(cluster)
        pods = factory.informer("v1", "pods")
        running = group.create_task(factory.run())
        await until(lambda: pods.has_synced)
        await factory.aclose()
        await running


async def test_a_handler_may_close_its_own_factory(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    done = asyncio.Event()

    async def last_will(event: Event[None]) -> None:
        await factory.aclose()
        done.set()

    apiserver.create(pod("a"))
    async with factory_of(apiserver) as factory:
        factory.informer("v1", "secrets").add_event_handler(Notes())
        factory.informer("v1", "pods").add_event_handler(last_will)
        async with asyncio.timeout(100):
            await done.wait()

    assert "left to itself" not in caplog.text
    assert "did not stop" not in caplog.text


async def test_a_handler_may_remove_its_own_informer(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    done = asyncio.Event()

    async def last_will(event: Event[None]) -> None:
        await factory.remove_informer(pods)
        done.set()

    apiserver.create(pod("a"))
    async with factory_of(apiserver) as factory:
        pods = factory.informer("v1", "pods")
        pods.add_event_handler(last_will)
        async with asyncio.timeout(100):
            await done.wait()

    assert "left to itself" not in caplog.text


def test_closing_with_stuck_handlers_in_many_informers_takes_one_grace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with World([pod("a")], virtual_time=True) as world:

        async def close() -> None:
            let_go = asyncio.Event()

            async def stuck(event: Event[None]) -> None:
                while not let_go.is_set():
                    with contextlib.suppress(asyncio.CancelledError):
                        await let_go.wait()

            factory = SharedInformerFactory(world.cluster, grace_seconds=300.0)
            for _ in range(4):
                factory.informer("v1", "pods", private=True).add_event_handler(stuck)
            await factory.start()
            await until(
                lambda: all(one.handlers[0].in_flight_key for one in factory.status().informers)
            )
            began = now()
            await factory.aclose()

            assert now() - began == 300.0
            assert len(factory.status().abandoned_handlers) == 4
            let_go.set()
            await until(lambda: not factory.status().abandoned_handlers)

        world.run(close)
    assert "did not stop" not in caplog.text


async def test_a_cancelled_close_has_closed(apiserver: APIServer) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def handler(event: Event[None]) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await go_on.wait()

    apiserver.create(pod("a"))
    async with factory_of(apiserver) as factory:
        pods = factory.informer("v1", "pods")
        pods.add_event_handler(handler)
        await began.wait()
        closing = asyncio.create_task(factory.aclose())
        await until(lambda: core_of(pods).introspection.reflector_state()[0] == "stopped")
        closing.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert pods.is_closed


@pytest.mark.covers("controller-runtime pkg/cache: TestMultiNamespaceCacheStart_ContextCancel")
@pytest.mark.exhaustive
async def test_cancelled_or_closed_at_any_moment_a_factory_leaves_nothing(
    apiserver: APIServer,
) -> None:
    """C52: the fixtures look for tasks, threads and sockets, this one for the watchdog."""
    rng = random.Random(6)
    for number in range(100):
        apiserver.create(pod(f"p{number}"))

    async def session(cluster: pyinformer.Cluster) -> None:
        async with SharedInformerFactory(cluster) as factory:
            pods = factory.informer("v1", "pods")
            pods.add_event_handler(Notes())
            await factory.start()
            factory.informer("v1", "secrets")
            await factory.wait_for_cache_sync(timeout_seconds=100)
            await factory.remove_informer(pods)

    async with cluster_of(apiserver) as cluster:
        for _ in range(60):
            running = asyncio.create_task(session(cluster))
            for _ in range(rng.randrange(60)):
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait((running,))
            assert running.cancelled() or running.exception() is None
        await until(lambda: apiserver.open_watches == 0)
    assert not [t for t in threading.enumerate() if t.name == "pyinformer watchdog"]


async def test_a_factory_closed_during_its_start_leaves_no_watchdog(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster:
        for turns in range(5):
            factory = SharedInformerFactory(cluster)
            factory.informer("v1", "pods")
            starting = asyncio.create_task(factory.start())
            for _ in range(turns):
                await asyncio.sleep(0)
            await factory.aclose()
            with contextlib.suppress(LifecycleError):
                await starting
    assert not [t for t in threading.enumerate() if t.name == "pyinformer watchdog"]


class Broken:
    """A receiver of ours with a bug."""

    def put_nowait(self, event: Event[None]) -> None:
        """Fail."""
        raise ZeroDivisionError

    def preload_nowait(self, objects: object) -> None:
        """Take what exists."""

    def on_initial_list_complete(self) -> None:
        """Do nothing."""

    def on_missed_state(self, was: object, now: object) -> None:
        """Do nothing."""


async def crash(informer: SharedInformer[None], apiserver: APIServer) -> None:
    """Let the informer meet a bug."""
    await informer.wait_for_cache_sync(timeout_seconds=100)
    core_of(informer).caches.attach(Broken())
    apiserver.create(pod("boom"))
    await until(lambda: informer.crash)


async def test_a_crash_in_one_informer_is_raised_without_a_group_and_leaves_the_others(
    apiserver: APIServer,
) -> None:
    with pytest.raises(InternalError) as raised:
        async with factory_of(apiserver) as factory:
            kept = factory.informer("v1", "secrets")
            await crash(factory.informer("v1", "pods"), apiserver)
            assert kept.is_running
            assert [one.crash is None for one in factory.status().informers] == [True, False]

    assert "informer of pods.v1 crashed with ZeroDivisionError" in str(raised.value)
    assert kept.is_closed


async def test_a_crash_is_a_note_on_the_callers_error(apiserver: APIServer) -> None:
    with pytest.raises(KeyError) as raised:
        async with factory_of(apiserver) as factory:
            await crash(factory.informer("v1", "pods"), apiserver)
            raise KeyError("the user's")

    assert "crashed with ZeroDivisionError" in raised.value.__notes__[0]


async def test_a_crash_ends_run(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        factory = SharedInformerFactory(cluster)
        pods = factory.informer("v1", "pods")
        running = asyncio.create_task(factory.run())
        await until(lambda: pods.is_running)
        await crash(pods, apiserver)
        with pytest.raises(InternalError):
            await running


async def test_a_crash_of_an_informer_is_raised_by_its_removal(apiserver: APIServer) -> None:
    async with factory_of(apiserver) as factory:
        pods = factory.informer("v1", "pods")
        await crash(pods, apiserver)
        with pytest.raises(InternalError):
            await factory.remove_informer(pods)
        again = factory.informer("v1", "pods")
        await again.wait_for_cache_sync(timeout_seconds=100)


@pytest.mark.covers("client-go tools/cache: TestHammerController")
@pytest.mark.parametrize("queue", ["direct", "real_fifo", "delta_fifo"])
async def test_a_mirror_built_from_handler_calls_equals_the_server(
    apiserver: APIServer, queue: Any
) -> None:
    """Changes, recreations, cuts of the connection and forgotten history, by a seed."""
    rng = random.Random(20)
    notes = Notes()
    async with factory_of(apiserver) as factory:
        pods = factory.informer("v1", "pods", queue=queue)
        pods.add_event_handler(notes)
        await factory.wait_for_cache_sync(timeout_seconds=100)
        for number in range(400):
            name = f"p{rng.randrange(30)}"
            with contextlib.suppress(pyinformer.NotFoundError, pyinformer.ConflictError):
                match rng.randrange(3):
                    case 0:
                        apiserver.create(pod(name))
                    case 1:
                        label = {"metadata": {"labels": {"n": str(number)}}}
                        apiserver.patch("v1", "pods", name, label)
                    case _:
                        apiserver.delete("v1", "pods", name)
            if number % 100 == 50:
                apiserver.drop_connections()
            if number == 250:
                apiserver.compact()
            await asyncio.sleep(0)
        wanted = listed(apiserver)
        await until(lambda: notes.mirror == wanted)
        cached = {
            str(obj.key): (obj.metadata.uid, obj.metadata.resource_version)
            for obj in pods.lister.list()
        }

    assert cached == wanted
    assert notes.faults == []
    assert {type(event) for event in notes.events} == {Added, Updated, Deleted}


async def test_one_dead_resource_does_not_delay_another(apiserver: APIServer) -> None:
    apiserver.faults.add(Fault(resource="pods", hang=True, times=None))
    async with factory_of(apiserver) as factory:
        factory.informer("v1", "pods")
        secrets = factory.informer("v1", "secrets")
        await secrets.wait_for_cache_sync(timeout_seconds=100)
        with pytest.raises(CacheSyncTimeoutError) as raised:
            await factory.wait_for_cache_sync(timeout_seconds=0.05)
        assert len(raised.value.pending) == 1
        apiserver.faults.clear()


def test_the_watchdog_of_a_factory_has_the_promised_limit() -> None:
    assert inspect.signature(Watchdog).parameters["limit_seconds"].default == 1.0
