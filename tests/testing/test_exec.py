"""Commands in containers of the test servers, and other clients as witnesses of the protocol."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer.client import ExecResult
from pyinformer.errors import (
    BadRequestError,
    InvalidTypeError,
    NotFoundError,
    RequestTimeoutError,
    ServerError,
)
from pyinformer.testing import APIServer, ExecCall, World
from tests.client.cluster.exec_serving import exec_serving, exited, message, sends
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer import Cluster
    from pyinformer.objects import JSONObject

_TWO = [{"name": name, "image": "i"} for name in ("db", "log")]


def _pod(name: str = "web", *, node: str = "n", **spec: Any) -> JSONObject:
    containers = [{"name": "db", "image": "i"}]
    found = {"containers": containers, **({"nodeName": node} if node else {}), **spec}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": found}


@pytest.fixture(params=["world", "apiserver"])
def run(request: pytest.FixtureRequest) -> Any:
    """Return a function that runs commands on one of the two servers, by a function of the test."""

    def in_world(function: Any, *pods: JSONObject, **options: Any) -> ExecResult:
        with World(pods) as world:
            world.on_exec(function)
            return world.run(lambda: _exec(world.cluster, **options))

    def over_http(function: Any, *pods: JSONObject, **options: Any) -> ExecResult:
        async def main(url: str) -> ExecResult:
            async with pyinformer.connect(server=url) as cluster:
                return await _exec(cluster, **options)

        with APIServer() as server:
            for one in pods:
                server.create(one)
            server.on_exec(function)
            return asyncio.run(main(server.url))

    return in_world if request.param == "world" else over_http


async def _exec(cluster: Cluster, *, pod: str = "default/web", **options: Any) -> ExecResult:
    return await cluster.exec(pod, ["psql", "-c", "select 1"], **options)


def test_a_function_of_the_test_runs_the_commands(run: Callable[..., ExecResult]) -> None:
    calls: list[ExecCall] = []

    def function(call: ExecCall) -> ExecResult:
        calls.append(call)
        return ExecResult(3, "grün".encode(), b"x" * 100_000)

    found = run(function, _pod(containers=_TWO), container="log", stdin="in")
    assert found == ExecResult(3, "grün".encode(), b"x" * 100_000)
    command = ("psql", "-c", "select 1")
    assert calls == [ExecCall(pod="default/web", container="log", command=command, stdin=b"in")]


def test_a_text_is_the_output_of_a_success(run: Callable[..., ExecResult]) -> None:
    assert run(lambda call: f"{call.container}\n", _pod()) == ExecResult(0, b"db\n")


def test_a_function_may_be_asynchronous(run: Callable[..., ExecResult]) -> None:
    async def function(_: ExecCall) -> str:
        await asyncio.sleep(0)
        return "done"

    assert run(function, _pod()).stdout == "done"


def test_a_function_may_refuse_to_start_a_command(run: Callable[..., ExecResult]) -> None:
    def absent(_: ExecCall) -> str:
        raise NotFoundError(status=404, reason="NotFound", message="container not found")

    def failing(_: ExecCall) -> str:
        raise AssertionError("another command was expected")

    with pytest.raises(NotFoundError, match="container not found"):
        run(absent, _pod())
    with pytest.raises(ServerError, match="AssertionError: another command was expected"):
        run(failing, _pod())


def test_without_a_function_no_command_runs(run: Callable[..., ExecResult]) -> None:
    with pytest.raises(ServerError, match=r"no kubelet: on_exec\(\)"):
        run(None, _pod())


@pytest.mark.parametrize(
    ("pod", "options", "error", "text"),
    [
        pytest.param(_pod("a"), {}, NotFoundError, 'pods "web" not found', id="no-pod"),
        pytest.param(_pod(node=""), {}, BadRequestError, "not have a host", id="no-node"),
        pytest.param(
            _pod(containers=_TWO),
            {},
            BadRequestError,
            r"choose one of: \[db log\]",
            id="none-named",
        ),
        pytest.param(
            _pod(),
            {"container": "x"},
            BadRequestError,
            "container x is not valid",
            id="no-container",
        ),
    ],
)
def test_the_checks_are_those_of_a_server(
    run: Callable[..., ExecResult],
    pod: JSONObject,
    options: dict[str, str],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        run(lambda _: "", pod, **options)


def test_what_is_not_a_function_is_refused() -> None:
    with World() as world, pytest.raises(InvalidTypeError, match=r"function\(call\)"):
        world.on_exec("text")  # type: ignore[arg-type]


def test_a_reconcile_that_runs_a_command() -> None:
    """As the guide for commands shows it."""

    async def reconcile(request: pyinformer.Request, _: object) -> None:
        found = await world.cluster.exec(request.key, ["pg_ctl", "status"])
        await world.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "state", "namespace": "default"},
                "data": {"exit": str(found.exit_code)},
            }
        )

    with World([_pod()]) as world:
        pods = world.factory.informer("v1", "pods")
        controller = pyinformer.Controller("database", reconcile, pods)
        world.on_exec(lambda _: ExecResult(4))
        assert world.reconcile(controller, "default/web").error is None
        assert world.get("v1", "configmaps", "state")["data"] == {"exit": "4"}


def test_a_thread_runs_a_command(apiserver: APIServer) -> None:
    apiserver.create(_pod())
    apiserver.on_exec(lambda call: call.stdin.decode())
    with pyinformer.run_in_thread() as runner, runner.connect(server=apiserver.url) as cluster:
        assert cluster.exec("default/web", ["cat"], stdin="in").stdout == "in"


def test_time_passes_for_a_command_in_virtual_time() -> None:
    async def function(_: ExecCall) -> str:
        await pause(3600)
        return "done"

    with World([_pod()], virtual_time=True) as world:
        world.on_exec(function)
        with pytest.raises(RequestTimeoutError, match="not end within 60 s"):
            world.run(lambda: _exec(world.cluster))
        found = world.run(lambda: _exec(world.cluster, timeout_seconds=None))
        assert found.stdout == "done"
        assert world.now_seconds == pytest.approx(3660)


async def test_a_request_that_is_not_upgraded_is_refused(apiserver: APIServer) -> None:
    apiserver.create(_pod())
    apiserver.on_exec(lambda _: "")
    stream = importlib.import_module("kubernetes_asyncio.client")
    configuration = stream.Configuration(host=apiserver.url)
    async with stream.ApiClient(configuration) as client:
        with pytest.raises(stream.ApiException, match="Upgrade request required"):
            await stream.CoreV1Api(client).connect_get_namespaced_pod_exec(
                "web", "default", command="ls"
            )


async def _witness(url: str, **options: Any) -> tuple[str, str, int]:
    """Return what the WebSocket client of kubernetes_asyncio reads."""
    stream = importlib.import_module("kubernetes_asyncio.stream")
    client = importlib.import_module("kubernetes_asyncio.client")
    output = {1: "", 2: "", 3: ""}
    async with stream.WsApiClient(client.Configuration(host=url)) as opened:
        opening = await client.CoreV1Api(opened).connect_get_namespaced_pod_exec(
            "web",
            "default",
            command=["psql", "-c", "select 1"],
            stdout=True,
            stderr=True,
            stdin=False,
            tty=False,
            _preload_content=False,
        )
        async with opening as socket:
            async for one in socket:
                output[one.data[0]] += one.data[1:].decode()
    return output[1], output[2], stream.WsApiClient.parse_error_data(output[3])


@pytest.mark.parametrize("code", [0, 3])
async def test_another_client_understands_both_servers(apiserver: APIServer, code: int) -> None:
    """The witness that the scripted server and the embedded one speak the protocol."""
    apiserver.create(_pod())
    apiserver.on_exec(lambda _: ExecResult(code, "grün\n".encode(), b"oh"))
    assert await _witness(apiserver.url) == ("grün\n", "oh", code)
    script = sends(message(1, "grün\n"), message(2, "oh"), exited(code))
    async with exec_serving(script) as server:
        assert await _witness(server.url) == ("grün\n", "oh", code)
        async with pyinformer.connect(server=server.url) as cluster:
            ours = await cluster.exec("default/web", ["psql", "-c", "select 1"])
    assert (ours.stdout, ours.stderr, ours.exit_code) == ("grün\n", "oh", code)
    ws, own = server.requests
    assert ws.query.getall("command") == own.query.getall("command")
