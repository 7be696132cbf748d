"""Plain functions of an operator: they write as async ones do, and end as those do."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import pyinformer
from pyinformer import blocking
from pyinformer._runtime.tasks import WorkerThreads
from pyinformer.blocking import BlockingCluster, run_with_cluster, timeout
from pyinformer.children import Children
from pyinformer.client.cluster import Cluster, WriteOptions
from pyinformer.controller import ControllerOptions
from pyinformer.controller.sources import Request
from pyinformer.errors import ConflictError, FencedError, InvalidTypeError, LifecycleError
from pyinformer.operator import Operator
from pyinformer.testing import APIServer, Fault, World
from tests.guards import Guard, guarded
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pyinformer.objects import JSONObject

pytestmark = pytest.mark.every_loop

_KEY = "default/made"


@pytest.fixture
def api() -> Iterator[APIServer]:
    """A server with one ConfigMap."""
    with APIServer() as server:
        server.create(config_map("a"))
        yield server


def config_map(name: str) -> JSONObject:
    """Return a ConfigMap."""
    metadata = {"namespace": "default", "name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}


def operator(work: Callable[[BlockingCluster], object], **options: Any) -> Operator:
    """Return an operator whose plain function does this for the ConfigMap."""
    app = Operator("test")

    @app.reconcile("v1", "configmaps", predicate=_is_a, options=ControllerOptions(**options))
    def reconcile(request: Request, obj: object, cluster: BlockingCluster) -> None:
        work(cluster)

    return app


def _is_a(_old: object, new: pyinformer.KubeObject | None) -> bool:
    return new is not None and new.metadata.name == "a"


@asynccontextmanager
async def running(api: APIServer, app: Operator) -> AsyncIterator[pyinformer.OperatorRun]:
    """Run an operator on the server."""
    async with pyinformer.connect(server=api.url) as cluster, app.running(cluster) as run:
        yield run


async def call(api: APIServer, function: Callable[[BlockingCluster], Any]) -> Any:
    """Run one function with a cluster, as the reconcile of an operator is run."""
    async with pyinformer.connect(server=api.url) as cluster:
        return await run_with_cluster(WorkerThreads("test"), function, cluster)


async def test_a_plain_function_writes_and_reads_its_own_write_at_once(api: APIServer) -> None:
    seen: list[Any] = []

    def work(cluster: BlockingCluster) -> None:
        seen.append(threading.get_ident() != main)
        cluster.create(config_map("made"))
        seen.append(app.lister("v1", "configmaps", cluster=cluster).get(_KEY))
        seen.append(sorted(one.metadata.name for one in cluster.list("v1", "configmaps")))

    main = threading.get_ident()
    app = operator(work)
    async with running(api, app) as run:
        (maps,) = run.controllers
        await until(lambda: maps.status().outcomes["success"])
    is_in_thread, own, names = seen
    assert is_in_thread
    assert own is not None, "its own write is in the cache before the watch delivers it"
    assert names == ["a", "made"]


class _Model(msgspec.Struct):
    """A model of anything."""


async def test_a_write_that_changes_nothing_is_counted_for_its_controller(api: APIServer) -> None:
    def work(cluster: BlockingCluster) -> None:
        for _ in range(3):
            cluster.apply(config_map("made"), field_manager="test")

    async with running(api, operator(work)) as run:
        (maps,) = run.controllers
        await until(lambda: maps.status().outcomes["success"])
        assert run.cluster.write_statistics().unchanged_by == {"configmaps": 2}


def test_a_function_that_in_thread_marks_would_get_the_wrong_cluster_and_is_refused() -> None:
    """It would write through a Cluster, which nothing awaits in its thread."""

    def reconcile(request: Request, obj: object, cluster: Cluster) -> None: ...
    def cleanup(request: Request, obj: object, cluster: Cluster) -> None: ...
    def unreadable(request: Request, obj: object, cluster: Cluster, error: object) -> None: ...
    def tick(cluster: Cluster) -> None: ...
    def daemon(request: Request, versions: object, cluster: Cluster) -> None: ...

    async def with_children(request: Request, obj: object, children: Children) -> None: ...

    app: Any = Operator("test")
    marked: Any = pyinformer.in_thread
    refused: Any = pytest.raises(InvalidTypeError, match="must not be marked by in_thread")
    with refused:
        app.reconcile("v1", "configmaps")(marked(reconcile))
    with refused:
        app.reconcile("v1", "configmaps")(functools.partial(marked(reconcile)))
    with refused:
        app.reconcile("v1", "configmaps", cleanup=marked(cleanup))(with_children)
    with refused:
        app.reconcile("v1", "configmaps", model=_Model, on_unreadable=marked(unreadable))(reconcile)
    with refused:
        app.every(1.0)(marked(tick))
    with pytest.raises(InvalidTypeError, match=r"must be `async def daemon\("):
        app.daemon("v1", "configmaps")(marked(daemon))


def test_a_function_that_only_looks_like_one_of_kopf_is_registered() -> None:
    """A handler of kopf has nothing but what kopf gives by name."""

    async def reconcile(request: Request, body: object, cluster: Cluster, **_: object) -> None: ...
    async def unreadable(
        request: Request, old: object, cluster: Cluster, error: object, **_: object
    ) -> None: ...

    Operator("test").reconcile("v1", "configmaps")(reconcile)
    register = Operator("test").reconcile(
        "v1", "configmaps", model=_Model, on_unreadable=unreadable
    )
    register(reconcile)


async def test_the_guard_of_a_term_holds_in_every_thread(api: APIServer) -> None:
    refused: list[type[Exception]] = []

    def write(cluster: BlockingCluster) -> None:
        with pytest.raises(FencedError) as caught:
            cluster.create(config_map("made"))
        refused.append(caught.type)

    def work(cluster: BlockingCluster) -> None:
        write(cluster)
        with ThreadPoolExecutor(1) as pool:  # its thread has no context of the reconcile
            pool.submit(write, cluster).result()
        assert cluster.get("v1", "configmaps", "default/a").metadata.name == "a"

    with guarded(Guard(passes=0)):
        await call(api, work)
    assert len(refused) == 2


class _Hanging:
    """A function that writes to a server which does not answer, and keeps its errors."""

    def __init__(self, api: APIServer) -> None:
        api.faults.add(Fault(verb="create", hang=True, times=1))
        self._api = api
        self.errors: list[Exception] = []
        self.cleaned_up = False

    @property
    def hangs(self) -> bool:
        """Whether the write has arrived."""
        return self._api.faults.held > 0

    def __call__(self, cluster: BlockingCluster) -> None:
        """Write, and clean up after an error."""
        try:
            cluster.create(config_map("made"))
        except Exception as error:
            self.errors.append(error)
            raise
        finally:
            cluster.create(config_map("cleaned-up"))
            self.cleaned_up = True


async def test_a_blocked_write_ends_when_the_operator_stops_past_its_drain(api: APIServer) -> None:
    hanging = _Hanging(api)
    async with running(api, operator(hanging, drain_timeout_seconds=0.0, grace_seconds=100.0)):
        await until(lambda: hanging.hangs)
    (error,) = hanging.errors
    assert isinstance(error, LifecycleError)
    assert "is being closed" in str(error)
    assert hanging.cleaned_up, "the cancellation is delivered once, as to an async function"


async def test_a_blocked_write_ends_at_the_deadline_of_the_reconcile(api: APIServer) -> None:
    hanging = _Hanging(api)
    app = operator(hanging, reconcile_timeout_seconds=0.5, grace_seconds=100.0)
    async with running(api, app) as run:
        (maps,) = run.controllers
        await until(lambda: maps.status().outcomes["timeout"])
        assert not maps.status().stuck
        await until(lambda: maps.status().outcomes["error"])
    assert isinstance(hanging.errors[0], LifecycleError)


async def test_a_cancellation_between_two_calls_ends_the_next_one(api: APIServer) -> None:
    began, proceed = threading.Event(), threading.Event()
    errors: list[Exception] = []

    def work(cluster: BlockingCluster) -> None:
        began.set()
        proceed.wait()
        try:
            cluster.create(config_map("made"))
        except LifecycleError as error:
            errors.append(error)
        cluster.create(config_map("second"))

    task = asyncio.create_task(call(api, work))
    await until(began.is_set)
    task.cancel()
    await asyncio.sleep(0)  # the cancellation is delivered
    proceed.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(errors) == 1
    names = {one["metadata"]["name"] for one in api.list("v1", "configmaps", "default")}
    assert names == {"a", "second"}


async def test_after_its_end_no_thread_may_use_the_cluster(api: APIServer) -> None:
    kept: list[BlockingCluster] = []
    await call(api, kept.append)
    with pytest.raises(LifecycleError, match="has returned"):
        await asyncio.to_thread(kept[0].get, "v1", "configmaps", "default/a")


async def test_the_call_of_a_thread_that_was_left_behind_ends_with_the_function(
    api: APIServer,
) -> None:
    hanging, pool = _Hanging(api), ThreadPoolExecutor(1)

    def work(cluster: BlockingCluster) -> Any:
        left = pool.submit(cluster.create, config_map("made"))
        while not hanging.hangs:
            assert not left.done()
        return left

    left = await call(api, work)
    with pytest.raises(LifecycleError, match="has returned"):
        left.result()
    pool.shutdown()


async def test_what_a_function_leaves_open_is_closed_when_it_returns(api: APIServer) -> None:
    def work(cluster: BlockingCluster) -> Any:
        factory = cluster.informer_factory()
        maps = factory.informer("v1", "configmaps", namespaces="default")
        factory.start()
        factory.wait_for_cache_sync(timeout_seconds=100)
        with cluster.informer_factory() as closed:
            assert closed.informers == ()
        return maps.asynchronous

    maps = await call(api, work)
    assert not maps.is_running


async def test_a_timeout_block_bounds_the_calls_of_a_function(api: APIServer) -> None:
    hanging = _Hanging(api)

    def work(cluster: BlockingCluster) -> None:
        with pytest.raises(TimeoutError), timeout(0.5):
            cluster.create(config_map("made"))
        with pytest.raises(TimeoutError), timeout(0.0):
            cluster.create(config_map("made"))
        cluster.create(config_map("later"))

    await call(api, work)
    assert not hanging.errors
    assert api.get("v1", "configmaps", "later", "default")


async def test_the_loops_own_thread_cannot_make_a_blocking_call(api: APIServer) -> None:
    kept: list[BlockingCluster] = []
    proceed = threading.Event()

    def work(cluster: BlockingCluster) -> None:
        kept.append(cluster)
        proceed.wait()

    task = asyncio.create_task(call(api, work))
    await until(lambda: kept)
    with pytest.raises(LifecycleError, match="make the function `async def`"):
        kept[0].get("v1", "configmaps", "default/a")
    proceed.set()
    await task


@pytest.mark.parametrize(
    ("has_wraps", "reason"),
    [(False, "returned an awaitable: make it `async def`"), (True, "a decorator makes a plain")],
)
async def test_a_plain_function_that_returns_a_coroutine_is_told_so(
    api: APIServer, caplog: pytest.LogCaptureFixture, reason: str, *, has_wraps: bool
) -> None:
    """As a decorator makes it that measures times, for example."""

    async def later(*_: object) -> None: ...

    def wrapped(*given: object) -> Any:
        return later(*given)

    app = Operator("test")
    app.reconcile("v1", "configmaps")(functools.wraps(later)(wrapped) if has_wraps else wrapped)
    async with running(api, app):
        await until(lambda: reason in caplog.text)


def test_a_world_reconciles_by_a_plain_function() -> None:
    app = operator(lambda cluster: cluster.create(config_map("made")))
    with World([config_map("a")]) as world:
        (maps,) = app.controllers(world.cluster, world.factory)

        assert world.reconcile(maps, "default/a").error is None

        assert world.get("v1", "configmaps", "made")


def test_virtual_time_passes_while_a_thread_waits_for_a_write() -> None:
    async def scenario() -> float:
        write_options = WriteOptions(retry_limit=1)
        cluster = Cluster(
            world.cluster.config, write_options=write_options, connection=world.cluster.connection
        )
        await run_with_cluster(
            WorkerThreads("test"), lambda given: given.create(config_map("made")), cluster
        )
        return asyncio.get_running_loop().time()

    with World([config_map("a")], virtual_time=True) as world:
        world.fail_on("configmaps", status=429, retry_after_seconds=3)
        assert world.run(scenario) >= 3
        assert world.get("v1", "configmaps", "made")


async def test_a_plain_reconcile_creates_and_updates_with_the_blocking_twin(api: APIServer) -> None:
    done: list[str] = []

    def edit(body: JSONObject) -> None:
        body["data"] = {"b": "2"}

    def work(cluster: BlockingCluster) -> None:
        for name in ("made", "made", "a"):
            upserted = blocking.create_or_update(
                cluster, config_map(name), edit, field_manager="test"
            )
            done.append(upserted.operation)

    async with running(api, operator(work)) as run:
        (maps,) = run.controllers
        await until(lambda: maps.status().outcomes["success"])
    assert done[:3] == ["created", "unchanged", "updated"]
    assert api.get("v1", "configmaps", "made")["data"] == {"b": "2"}


async def test_a_plain_reconcile_keeps_a_finalizer_until_it_has_cleaned_up(api: APIServer) -> None:
    phases: list[str] = []
    app = Operator("test")

    @app.reconcile("v1", "configmaps", field_selector="metadata.name=a")
    def reconcile(
        request: Request, obj: pyinformer.KubeObject | None, cluster: BlockingCluster
    ) -> None:
        with blocking.finalizer(cluster, obj, "acme.io/backups") as held:
            phases.append(held.phase)
            if phases.count("deleting") == 1:
                raise RuntimeError("the first attempt to clean up fails")

    async with running(api, app):
        await until(lambda: "active" in phases)
        assert api.get("v1", "configmaps", "a")["metadata"]["finalizers"] == ["acme.io/backups"]
        api.delete("v1", "configmaps", "a")
        await until(lambda: "gone" in phases)
    assert phases.count("deleting") == 2, "the block that failed removed nothing"


async def test_a_plain_function_starts_over_after_a_conflict(api: APIServer) -> None:
    calls: list[int] = []

    def work(cluster: BlockingCluster) -> str:
        def attempt() -> str:
            obj = cluster.get("v1", "configmaps", "default/a").to_dict()
            calls.append(1)
            if len(calls) < 3:  # another writer is quicker
                api.patch("v1", "configmaps", "a", {"data": {"other": str(len(calls))}})
            return cluster.replace({**obj, "data": {"b": "2"}}).metadata.name

        return blocking.retry_on_conflict(attempt, backoff_seconds=0.0)

    assert await call(api, work) == "a"
    assert len(calls) == 3
    assert api.get("v1", "configmaps", "a")["data"] == {"b": "2"}


async def test_a_plain_function_stops_after_its_attempts(api: APIServer) -> None:
    calls: list[int] = []

    def work(cluster: BlockingCluster) -> None:
        def attempt() -> None:
            calls.append(1)
            stale = cluster.get("v1", "configmaps", "default/a").to_dict()
            stale["metadata"]["resourceVersion"] = "1"
            cluster.replace(stale)

        with pytest.raises(ConflictError):
            blocking.retry_on_conflict(attempt, attempts=2, backoff_seconds=0.0)
        with pytest.raises(ConflictError):
            blocking.retry_on_conflict(lambda: cluster.create(config_map("a")))  # exists

    await call(api, work)
    assert len(calls) == 2


async def test_the_pause_between_attempts_ends_at_the_deadline_of_the_thread(
    api: APIServer,
) -> None:
    def attempt() -> None:
        raise ConflictError(status=409, reason="Conflict")

    def work(_cluster: BlockingCluster) -> None:
        with timeout(0.0), pytest.raises(TimeoutError):
            blocking.retry_on_conflict(attempt, backoff_seconds=100.0)

    await call(api, work)


async def test_a_blocking_attempt_must_not_be_async(api: APIServer) -> None:
    async def attempt() -> None:
        """Do nothing."""

    def work(_cluster: BlockingCluster) -> None:
        with pytest.raises(InvalidTypeError, match="must be a plain function"):
            _ = blocking.retry_on_conflict(attempt)

    await call(api, work)


async def test_a_plain_function_upgrades_managed_fields(api: APIServer) -> None:
    def work(cluster: BlockingCluster) -> str:
        cluster.patch(
            config_map("a"), {**config_map("a"), "data": {"b": "2"}}, field_manager="earlier"
        )
        found = blocking.upgrade_managed_fields(
            cluster, "v1", "configmaps", "default/a", managers=["earlier"], field_manager="test"
        )
        return found.metadata.name

    assert await call(api, work) == "a"


_ASYNC_FUNCTIONS = [
    pytest.param(
        lambda one: pyinformer.create_or_update(one, config_map("a")), id="create_or_update"
    ),
    pytest.param(
        lambda one: pyinformer.controller.upgrade_managed_fields(
            one, "v1", "configmaps", "default/a", managers=["a"]
        ),
        id="upgrade_managed_fields",
    ),
    pytest.param(
        lambda one: pyinformer.controller.finalizer(one, None, "acme.io/a"),
        id="finalizer",
    ),
    pytest.param(lambda one: operator(print).run_async(one), id="run_async"),
    pytest.param(lambda one: operator(print).running(one), id="running"),
    pytest.param(
        lambda one: operator(print).controllers(one, pyinformer.SharedInformerFactory(one)),
        id="controllers",
    ),
    pytest.param(pyinformer.SharedInformerFactory, id="factory"),
    pytest.param(lambda one: pyinformer.SharedInformer(one, "v1", "pods"), id="informer"),
    pytest.param(lambda one: pyinformer.controller.EventRecorder(one, "a"), id="recorder"),
    pytest.param(lambda one: pyinformer.LeaderElector(one, "a", namespace="a"), id="elector"),
]


@pytest.mark.parametrize("function", _ASYNC_FUNCTIONS)
async def test_an_async_function_refuses_the_blocking_cluster_at_the_call(
    api: APIServer, function: Callable[[Any], object]
) -> None:
    def work(cluster: BlockingCluster) -> None:
        with pytest.raises(InvalidTypeError, match=r"^cluster: .* pyinformer\.blocking"):
            function(cluster)  # and no coroutine is left, which would be a warning

    await call(api, work)


async def test_an_async_retry_in_a_plain_function_is_refused_at_the_call(api: APIServer) -> None:
    def work(cluster: BlockingCluster) -> None:
        with pytest.raises(InvalidTypeError, match=r"pyinformer\.blocking\.retry_on_conflict"):
            _ = pyinformer.retry_on_conflict(
                lambda: cluster.get("v1", "configmaps", "default/a")  # type: ignore[arg-type, return-value]
            )

    await call(api, work)


@pytest.mark.parametrize("name", ["create_or_update", "upgrade_managed_fields", "finalizer"])
async def test_a_blocking_function_refuses_the_asynchronous_cluster(
    api: APIServer, name: str
) -> None:
    arguments: dict[str, tuple[object, ...]] = {
        "create_or_update": (config_map("a"),),
        "upgrade_managed_fields": ("v1", "configmaps", "default/a"),
        "finalizer": (None, "acme.io/a"),
    }
    async with pyinformer.connect(server=api.url) as cluster:
        with pytest.raises(InvalidTypeError, match="cluster: must be the BlockingCluster"):
            getattr(blocking, name)(cluster, *arguments[name])
