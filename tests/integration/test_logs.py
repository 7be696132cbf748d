"""Logs of containers: what the two servers refuse alike, and what the embedded one shows.

Beside a real kube-apiserver no kubelet runs, so its pods have no logs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pyinformer import connect
from pyinformer.errors import APIStatusError, BadRequestError, NotFoundError
from pyinformer.testing import World
from tests.integration.objects import PODS, pod_on

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer
    from tests.integration.servers import Server


@pytest.mark.parametrize("follow", [False, True])
async def test_a_pod_without_a_node_has_an_empty_log(server: Server, *, follow: bool) -> None:
    pod = server.api.create(PODS.make("a", server.namespace()))
    async with server.connect() as cluster:
        key = f"{pod['metadata']['namespace']}/a"
        async with cluster.logs(key, follow=follow) as lines:
            assert [line async for line in lines] == []


_TWO: JSONObject = {"containers": [{"name": name, "image": "example.com/x:1"} for name in "xy"]}


@pytest.mark.parametrize(
    ("name", "options", "status", "message"),
    [
        pytest.param("none", {}, 404, 'pods "none" not found', id="no-pod"),
        pytest.param(
            "two",
            {},
            400,
            "a container name must be specified for pod two, choose one of: [x y]",
            id="no-container-named",
        ),
        pytest.param(
            "two",
            {"container": "z", "follow": True},
            400,
            "container z is not valid for pod two",
            id="no-such-container",
        ),
    ],
)
async def test_both_servers_refuse_a_log_alike(
    server: Server, name: str, options: dict[str, str], status: int, message: str
) -> None:
    namespace = server.namespace()
    server.api.create(PODS.make("two", namespace, spec=_TWO))
    async with server.connect() as cluster:
        with pytest.raises(APIStatusError) as caught:
            await cluster.logs(f"{namespace}/{name}", **options).__aenter__()  # type: ignore[arg-type]  # of two types
    assert (caught.value.status, caught.value.message) == (status, message)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
        (
            "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
            "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
    ],
)
async def test_both_servers_refuse_options_alike(server: Server, query: str, message: str) -> None:
    namespace = server.namespace()
    server.api.create(PODS.make("a", namespace))
    pairs = [(name, value) for name, _, value in (one.partition("=") for one in query.split("&"))]
    async with server.connect() as cluster:
        with pytest.raises(APIStatusError) as caught:
            await cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods/a/log", query=pairs)
    assert caught.value.message == f'PodLogOptions "a" is invalid: {message}'


@pytest.mark.real
@pytest.mark.timeout(300)
async def test_a_node_that_is_not_there_is_a_typed_error(kube_apiserver: object) -> None:
    from tests.integration.servers import RealServer

    server = RealServer(kube_apiserver)  # type: ignore[arg-type]  # what the fixture returns
    namespace = server.namespace()
    server.api.create(pod_on("nowhere", "a", namespace))
    async with server.connect() as cluster:
        with pytest.raises(NotFoundError, match="nowhere"):
            await cluster.logs(f"{namespace}/a").__aenter__()


def _running(api: APIServer | World) -> None:
    api.create(pod_on("n1", "a", "default"))


async def test_a_log_is_shown_from_where_it_is_asked(apiserver: APIServer) -> None:
    _running(apiserver)
    apiserver.write_log("a", "one\ntwo\nthr")
    apiserver.write_log("a", "ee\nfour")
    async with connect(server=apiserver.url) as cluster:

        async def read(**options: int | bool) -> list[str]:
            async with cluster.logs("default/a", **options) as lines:  # type: ignore[arg-type]  # of several types
                return [line async for line in lines]

        assert await read() == ["one", "two", "three", "four"]
        assert await read(tail_lines=2) == ["three", "four"]
        assert await read(tail_lines=0) == []
        assert await read(limit_bytes=5) == ["one", "t"]
        assert await read(since_seconds=3600) == await read()
        first = (await read(timestamps=True))[0]
        assert first.endswith("Z one")
        with pytest.raises(BadRequestError, match="previous terminated container"):
            await read(previous=True)
        apiserver.restart_container("a")
        assert await read() == []
        assert await read(previous=True) == ["one", "two", "three", "four"]


async def test_a_followed_log_goes_on_until_the_pod_is_gone(apiserver: APIServer) -> None:
    _running(apiserver)
    apiserver.write_log("a", "old\n")
    async with (
        connect(server=apiserver.url) as cluster,
        cluster.logs("default/a", follow=True, tail_lines=0) as lines,
    ):
        waiting = asyncio.ensure_future(anext(lines))
        apiserver.write_log("a", "new\n")
        assert await waiting == "new"
        apiserver.write_log("a", "last\n")
        apiserver.delete("v1", "pods", "a")
        assert [line async for line in lines] == ["last"]
        apiserver.create(pod_on("n1", "a", "default"))
        async with cluster.logs("default/a") as again:  # another pod
            assert [line async for line in again] == []


def test_a_world_has_logs() -> None:
    async def follow() -> None:
        async with world.cluster.logs("default/a", follow=True) as lines:
            assert await anext(lines) == "one"
            world.write_log("a", "two\n")
            assert await anext(lines) == "two"
            world.restart_container("a")
            assert [line async for line in lines] == []

    with World() as world:
        _running(world)
        world.write_log("a", "one\n")
        world.run(follow)
