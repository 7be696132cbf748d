"""The typed classes of other packages on a cluster: its login, guard, caches and errors."""

from __future__ import annotations

import asyncio
import importlib
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import anyio
import pytest

import pyinformer
from pyinformer.client import ClusterConfig, WriteOptions
from pyinformer.client.transport import RenewingCredentials
from pyinformer.client.transport.config import Login
from pyinformer.errors import (
    ConflictError,
    FencedError,
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
    NotFoundError,
    RequestTimeoutError,
    TransportError,
    UnauthorizedError,
)
from pyinformer.telemetry import MetricsRegistry
from pyinformer.testing import APIServer, Fault, Token, World
from tests.client.cluster.answering import Answering
from tests.guards import Guard, guarded
from tests.telemetry.metrics.reading import totals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pyinformer import Cluster

PACKAGES = ("kubernetes_asyncio", "kubernetes.aio")
each_package = pytest.mark.parametrize("package", PACKAGES)


def of(package: str) -> Any:
    """Return the client module of a package."""
    return importlib.import_module(f"{package}.client")


def config_map(package: str, name: str = "a", **data: str) -> Any:
    """Return a typed config map."""
    client = of(package)
    metadata = client.V1ObjectMeta(name=name, labels={"app": "web"})
    return client.V1ConfigMap(api_version="v1", kind="ConfigMap", metadata=metadata, data=data)


@asynccontextmanager
async def core_of(
    server: APIServer, package: str = PACKAGES[0], **options: Any
) -> AsyncIterator[tuple[Cluster, Any]]:
    """Connect, and make a CoreV1Api of the connection."""
    async with pyinformer.connect(server=server.url, **options) as cluster:
        yield cluster, cluster.api(of(package).CoreV1Api)


@each_package
async def test_objects_are_written_and_read_by_models(apiserver: APIServer, package: str) -> None:
    async with core_of(apiserver, package) as (cluster, core):
        made = await core.create_namespaced_config_map("default", config_map(package, v="1"))
        assert (made.metadata.name, made.data) == ("a", {"v": "1"})
        patch = {"data": {"w": "2"}}
        patched = await core.patch_namespaced_config_map("a", "default", patch)
        assert patched.data == {"v": "1", "w": "2"}
        operations = [{"op": "remove", "path": "/data/v"}]
        patched = await core.patch_namespaced_config_map("a", "default", operations)
        assert patched.data == {"w": "2"}
        found = await core.list_namespaced_config_map("default", label_selector="app=web", limit=1)
        assert [one.metadata.name for one in found.items] == ["a"]
        assert (await core.read_namespaced_config_map("a", "default")).data == {"w": "2"}
        await core.delete_namespaced_config_map("a", "default")
        assert not (await core.list_namespaced_config_map("default")).items
        assert cluster.write_statistics().sent == 4
    types = [one.headers.get("content-type") for one in apiserver.requests]
    assert "application/strategic-merge-patch+json" in types
    assert "application/json-patch+json" in types
    agents = {one.headers["user-agent"].partition("/")[0] for one in apiserver.requests}
    assert agents == {"pyinformer"}


@each_package
async def test_a_status_and_headers_are_those_of_the_response(
    apiserver: APIServer, package: str
) -> None:
    async with core_of(apiserver, package) as (_, core):
        body = config_map(package)
        found = await core.create_namespaced_config_map_with_http_info("default", body)
        if isinstance(found, tuple):
            _, status, headers = found
            assert headers["content-type"] == "application/json"
        else:
            status, headers = found.status_code, found.headers
        assert (status, headers["Content-Type"]) == (201, "application/json")


@each_package
async def test_custom_objects_are_dicts(apiserver: APIServer, package: str) -> None:
    apiserver.register("acme.io/v1", "Database", "databases")
    body = {"apiVersion": "acme.io/v1", "kind": "Database", "metadata": {"name": "a"}}
    async with pyinformer.connect(server=apiserver.url) as cluster:
        api = cluster.api(of(package).CustomObjectsApi)
        where = ("acme.io", "v1", "default", "databases")
        made = await api.create_namespaced_custom_object(*where, body)  # answered with 201
        assert made["metadata"]["name"] == "a"
        assert (await api.get_namespaced_custom_object(*where, "a")) == made


@each_package
async def test_a_refusal_is_the_exception_of_the_package(
    apiserver: APIServer, package: str
) -> None:
    client = of(package)
    async with core_of(apiserver, package) as (_, core):
        with pytest.raises(client.ApiException) as caught:
            await core.read_namespaced_config_map("none", "default")
        found: Any = caught.value
        assert (found.status, found.reason) == (404, "Not Found")
        assert '"reason":"NotFound"' in found.body
        assert found.headers["Content-Type"] == "application/json"
        assert isinstance(found.__cause__, NotFoundError)
        assert found.__cause__.names_object
        await core.create_namespaced_config_map("default", config_map(package))
        with pytest.raises(client.ApiException) as caught:
            await core.create_namespaced_config_map("default", config_map(package))
        assert isinstance(caught.value.__cause__, ConflictError)


async def test_the_official_package_raises_the_class_of_the_status(apiserver: APIServer) -> None:
    client = of("kubernetes.aio")
    async with core_of(apiserver, "kubernetes.aio") as (_, core):
        with pytest.raises(client.exceptions.NotFoundException):
            await core.read_namespaced_config_map("none", "default")


@each_package
async def test_what_is_no_answer_to_the_request_is_our_error(package: str) -> None:
    client = of(package)
    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises(TransportError):
            await cluster.api(client.CoreV1Api).read_namespaced_config_map("a", "default")
    with APIServer(tokens=[Token(value="t")]) as server:
        async with pyinformer.connect(server=server.url) as cluster:
            with pytest.raises(UnauthorizedError):
                await cluster.api(client.CoreV1Api).read_namespaced_config_map("a", "default")


@each_package
async def test_a_write_ends_with_the_term(apiserver: APIServer, package: str) -> None:
    async with core_of(apiserver, package) as (_, core):
        with guarded(Guard()) as guard:
            await core.create_namespaced_config_map("default", config_map(package))
            guard.shut()
            with pytest.raises(FencedError):
                await core.delete_namespaced_config_map("a", "default")
            await core.read_namespaced_config_map("a", "default")
    assert guard.written == [("configmaps.v1", "")]
    assert guard.refusals == 1


@each_package
async def test_own_writes_are_in_the_next_read_of_a_cache(package: str) -> None:
    """Of a cache that receives nothing: only the responses can have changed it."""
    with World() as world:
        maps = world.factory.informer("v1", "configmaps")
        core = world.cluster.api(of(package).CoreV1Api)

        async def write() -> list[str]:
            """Return the keys in the cache after each write."""
            seen = []
            await core.create_namespaced_config_map("default", config_map(package, "a"))
            await core.create_namespaced_config_map("default", config_map(package, "b"))
            seen.append(" ".join(sorted(one.key for one in maps.lister.list())))
            await core.delete_namespaced_config_map("a", "default")
            seen.append(" ".join(sorted(one.key for one in maps.lister.list())))
            return seen

        world.sync()
        with world.stale_caches():
            assert world.run(write) == ["default/a default/b", "default/b"]
        assert [one.verb for one in world.writes] == ["create", "create", "delete"]


async def test_a_dry_run_is_in_no_cache() -> None:
    with World() as world:
        maps = world.factory.informer("v1", "configmaps")
        core = world.cluster.api(of(PACKAGES[0]).CoreV1Api)

        async def write() -> int:
            """Return how many objects the cache has."""
            body = config_map(PACKAGES[0])
            await core.create_namespaced_config_map("default", body, dry_run="All")
            return len(list(maps.lister.list()))

        world.sync()
        with world.stale_caches():
            assert world.run(write) == 0


async def test_a_login_is_renewed() -> None:
    logins = iter(["old", "new"])

    async def log_in() -> Login:
        return Login({"Authorization": f"Bearer {next(logins)}"})

    with APIServer(tokens=[Token(value="new")]) as server:
        config = ClusterConfig(server=server.url, credentials=RenewingCredentials(log_in))
        async with pyinformer.connect(config=config) as cluster:
            core = cluster.api(of(PACKAGES[0]).CoreV1Api)
            assert (await core.list_namespaced_config_map("default")).items == []


async def test_a_busy_server_is_asked_again_and_requests_are_counted(apiserver: APIServer) -> None:
    registry = MetricsRegistry()
    apiserver.faults.add(Fault(status=429, retry_after_seconds=0, times=1))
    async with core_of(apiserver, metrics=registry) as (cluster, core):
        await core.create_namespaced_config_map("default", config_map(PACKAGES[0]))
        counts = totals(registry, "rest_client_requests_total", "code", "method")
        assert cluster.write_statistics().retried == 1
    assert counts == {("429", "POST"): 1, ("201", "POST"): 1}


async def test_writes_have_the_rate_of_writes(apiserver: APIServer) -> None:
    options = WriteOptions(writes_per_second=1.0)
    async with core_of(apiserver, write_options=options) as (_, core):
        for name in "ab":
            await core.create_namespaced_config_map("default", config_map(PACKAGES[0], name))
        with anyio.move_on_after(0.05) as scope:
            await core.create_namespaced_config_map("default", config_map(PACKAGES[0], "c"))
        assert scope.cancelled_caught
        assert len((await core.list_namespaced_config_map("default")).items) == 2


@each_package
async def test_a_request_may_have_its_own_deadline(apiserver: APIServer, package: str) -> None:
    apiserver.faults.add(Fault(hang=True, times=2))
    async with core_of(apiserver, package) as (_, core):
        for seconds in (0.05, (0.02, 0.03)):
            with pytest.raises(RequestTimeoutError, match=r"0\.05 s"):
                await core.read_namespaced_config_map("a", "default", _request_timeout=seconds)
        apiserver.faults.clear()


async def test_a_part_of_a_deadline_may_be_left_out(apiserver: APIServer) -> None:
    apiserver.faults.add(Fault(hang=True, times=3))
    timeout = aiohttp.ClientTimeout(total=None, connect=0.02, sock_read=0.03)
    async with core_of(apiserver) as (_, core):
        for seconds in ((None, 0.05), (0.05, None), timeout):
            with pytest.raises(RequestTimeoutError, match=r"0\.05 s"):
                await core.read_namespaced_config_map("a", "default", _request_timeout=seconds)
        apiserver.faults.clear()


@pytest.mark.parametrize(
    ("call", "argument", "cure"),
    [
        pytest.param(
            lambda core: core.list_namespaced_pod("default", watch=True),
            "watch",
            "informer",
            id="watch",
        ),
        pytest.param(
            lambda core: core.list_namespaced_pod("default", watch="yes"),
            "watch",
            "informer",
            id="watch-by-another-word",
        ),
        pytest.param(
            lambda core: core.create_namespaced_config_map("default", {"data": {"a": math.nan}}),
            "body",
            "NaN",
            id="not-finite",
        ),
        pytest.param(
            lambda core: core.create_namespaced_config_map("default", {"data": {"a": "\ud800"}}),
            "body",
            "Unicode",
            id="no-unicode",
        ),
        pytest.param(
            lambda core: core.list_namespaced_pod("default", label_selector="\ud800"),
            "query",
            "UTF-8",
            id="no-unicode-in-query",
        ),
        pytest.param(
            lambda core: core.list_namespaced_pod("default", _headers={"a": "b\r\nc: d"}),
            "_headers",
            "control characters",
            id="two-headers-in-one",
        ),
        *(
            pytest.param(
                lambda core, given=given: core.list_namespaced_pod(
                    "default", _request_timeout=given
                ),
                "_request_timeout",
                "seconds",
                id=f"timeout-{given!r:.10}",
            )
            for given in ("5", -1, (1, 2, 3), [1, 2], (1, "2"), math.nan, 10**400)
        ),
        pytest.param(
            lambda core: core.read_namespaced_pod_log("web", "default", follow=True),
            "follow",
            r"cluster\.logs",
            id="log",
        ),
        pytest.param(
            lambda core: core.list_namespaced_pod("default", _preload_content=False),
            "_preload_content",
            r"cluster\.request",
            id="raw",
        ),
        pytest.param(
            lambda core: core.connect_get_namespaced_pod_exec("web", "default", command="ls"),
            "path",
            r"exec\(\)",
            id="exec",
        ),
        pytest.param(
            lambda core: core.read_namespaced_pod("..", "default"), "path", "quoted", id="path"
        ),
        pytest.param(
            lambda core: core.delete_collection_namespaced_pod("default", label_selector=""),
            "query",
            "leave the selector out",
            id="empty-selector",
        ),
    ],
)
async def test_what_cannot_be_served_is_refused_with_a_cure(
    apiserver: APIServer, call: Callable[[Any], Any], argument: str, cure: str
) -> None:
    async with core_of(apiserver) as (_, core):
        with pytest.raises(InvalidArgumentError, match=cure) as caught:
            await call(core)
        assert caught.value.argument == argument
    assert not apiserver.requests


async def test_a_watch_of_the_package_is_refused(apiserver: APIServer) -> None:
    watch = importlib.import_module("kubernetes_asyncio.watch").Watch()
    async with core_of(apiserver) as (_, core):
        with pytest.raises(InvalidArgumentError, match="informer"):
            async for _ in watch.stream(core.list_namespaced_pod, "default"):
                pass


async def test_a_response_of_aiohttp_is_refused(apiserver: APIServer) -> None:
    async with core_of(apiserver, "kubernetes.aio") as (_, core):
        with pytest.raises(InvalidArgumentError, match="_preload_content"):
            await core.list_namespaced_pod_without_preload_content("default")


async def test_requests_go_to_no_other_server(apiserver: APIServer) -> None:
    async with core_of(apiserver) as (_, core):
        core.api_client.configuration.host = "http://127.0.0.1:1"
        with pytest.raises(InvalidArgumentError, match=r"connect\(\) to another server"):
            await core.list_namespaced_pod("default")


@each_package
async def test_closing_the_client_leaves_the_cluster_open(
    apiserver: APIServer, package: str
) -> None:
    async with core_of(apiserver, package) as (cluster, core):
        async with core.api_client:
            await core.list_namespaced_pod("default")
        await core.list_namespaced_pod("default")
    with pytest.raises(LifecycleError):
        await core.list_namespaced_pod("default")
    assert cluster.api(type(core)) is not core


@pytest.mark.parametrize(
    ("api_class", "text"),
    [
        pytest.param(lambda: 5, "got int", id="no-class"),
        pytest.param(lambda: dict, "got the class dict", id="another-class"),
        pytest.param(lambda: of(PACKAGES[0]).V1Pod, "got the class V1Pod", id="model"),
        pytest.param(lambda: of(PACKAGES[0]).ApiClient, "got the class ApiClient", id="client"),
        pytest.param(lambda: of("kubernetes").CoreV1Api, "blocks its thread", id="blocking"),
    ],
)
async def test_other_classes_are_refused(api_class: Callable[[], Any], text: str) -> None:
    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises(InvalidTypeError, match=f"api_class: must be a class .*{text}"):
            cluster.api(api_class())


async def test_a_class_may_be_derived(apiserver: APIServer) -> None:
    class Mine(of(PACKAGES[0]).CoreV1Api):  # type: ignore[misc]  # it has no types
        async def names(self) -> list[str]:
            """Return the names of the namespaces."""
            return sorted(one.metadata.name for one in (await self.list_namespace()).items)

    async with pyinformer.connect(server=apiserver.url) as cluster:
        assert "default" in await cluster.api(Mine).names()


async def test_a_connection_without_headers_is_refused() -> None:
    cluster = Answering().cluster()
    with pytest.raises(LifecycleError, match=r"a Answering .*connect\(\)"):
        await cluster.api(of(PACKAGES[0]).CoreV1Api).list_namespace()
    with pytest.raises(LifecycleError, match=r"a Answering .*connect\(\)"):
        await cluster.exec("shop/web", ["ls"])


async def test_a_log_is_text(apiserver: APIServer) -> None:
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": "web", "namespace": "default"}
    apiserver.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    apiserver.write_log("web", "one\ntwo\n")
    async with core_of(apiserver) as (_, core):
        assert await core.read_namespaced_pod_log("web", "default") == "one\ntwo\n"


def _by_scope(scope: anyio.CancelScope, _: asyncio.Task[None]) -> None:
    scope.cancel()


def _by_task(_: anyio.CancelScope, task: asyncio.Task[None]) -> None:
    task.cancel()


@pytest.mark.parametrize("cancel", [_by_scope, _by_task])
async def test_a_cancelled_request_leaves_the_connection_usable(
    apiserver: APIServer,
    cancel: Callable[[anyio.CancelScope, asyncio.Task[None]], None],
) -> None:
    apiserver.faults.add(Fault(hang=True, times=1))
    async with core_of(apiserver) as (_, core):
        scope = anyio.CancelScope()

        async def read() -> None:
            with scope:
                await core.list_namespace()

        task = asyncio.create_task(read())
        await asyncio.to_thread(apiserver.wait_for_request, lambda one: one.verb == "list")
        cancel(scope, task)
        await asyncio.wait({task})
        assert (await core.list_namespace()).items
