"""Interceptors: what they see, what they may do to a request, and that their errors are noticed."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import pyinformer
from pyinformer import Controller, Request
from pyinformer.client.transport import StaticCredentials
from pyinformer.errors import (
    BadRequestError,
    InvalidArgumentError,
    InvalidTypeError,
    ServerError,
    TransportError,
)
from pyinformer.testing import APIServer, Fault, InterceptedRequest, Token, World
from tests.cache.informer.clusters import cluster_of
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer import Cluster
    from pyinformer.objects import JSONObject
    from pyinformer.testing import Interception


def _config_map(name: str, **data: str) -> JSONObject:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _names(apiserver: APIServer | World) -> list[str]:
    return [one["metadata"]["name"] for one in apiserver.list("v1", "configmaps")]


def nth_write(number: int, fault: Fault) -> Callable[[InterceptedRequest], Fault | None]:
    """Return an interceptor that disturbs one write of several."""
    seen: list[str] = []

    def intercept(request: InterceptedRequest) -> Fault | None:
        if request.verb not in {"create", "update", "patch", "delete"}:
            return None
        seen.append(request.name)
        return fault if len(seen) == number else None

    return intercept


@pytest.mark.covers(
    "controller-runtime pkg/client/interceptor: should call the provided Get function"
)
async def test_the_third_write_fails_and_no_other(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        with apiserver.intercept(nth_write(3, Fault(status=500, message="no space left"))):
            for name in "ab":
                await cluster.create(_config_map(name))
            with pytest.raises(ServerError, match="no space left"):
                await cluster.create(_config_map("c"))
            await cluster.create(_config_map("d"))
        await cluster.create(_config_map("e"))

    assert _names(apiserver) == ["a", "b", "d", "e"]


@pytest.mark.covers(
    "controller-runtime pkg/client/interceptor: should call the provided Get function"
)
@pytest.mark.parametrize(
    ("fault", "stored"),
    [
        pytest.param(Fault(refuse=True), [], id="dropped"),
        pytest.param(Fault(cut_after_bytes=0), ["a"], id="answer-lost"),
        pytest.param(Fault(cut_after_bytes=(0, 5)), ["a"], id="answer-cut"),
    ],
)
async def test_a_connection_is_lost_before_or_after_the_write(
    apiserver: APIServer, fault: Fault, stored: list[str]
) -> None:
    async with cluster_of(apiserver) as cluster:
        with apiserver.intercept(nth_write(1, fault)), pytest.raises(TransportError):
            await cluster.create(_config_map("a"))

    assert _names(apiserver) == stored
    assert apiserver.faults.struck == 1


@pytest.mark.covers(
    "controller-runtime pkg/client/interceptor: should call the provided Get function"
)
async def test_a_request_is_seen_with_its_body_and_its_user() -> None:
    seen: list[InterceptedRequest] = []
    tokens = [Token(value="t", user="jane")]
    with APIServer(tls=True, tokens=tokens) as server, server.intercept(seen.append):
        config = pyinformer.client.ClusterConfig(
            server=server.url,
            ca_file=str(server.ca_file),
            credentials=StaticCredentials.bearer("t"),
        )
        async with pyinformer.connect(config=config) as cluster:
            made = await cluster.create(_config_map("a", key="x"))
            edited = {**made.to_dict(), "data": {"key": "y"}}
            await cluster.patch(made, edited, dry_run=True)
            await cluster.get("v1", "configmaps", "default/a")

    create, patch, get = (one for one in seen if one.resource == "configmaps")
    assert {one.user for one in seen} == {"jane"}
    assert (create.verb, create.namespace, create.name) == ("create", "default", "a")
    assert create.body["data"] == {"key": "x"}
    assert (patch.verb, patch.name, patch.query["dryRun"]) == ("patch", "a", "All")
    assert patch.body == {"data": {"key": "y"}, "metadata": {"uid": made.metadata.uid}}
    assert (get.verb, get.body, get.subresource) == ("get", None, "")
    assert "default" in repr(get)


@pytest.mark.covers(
    "controller-runtime pkg/client/interceptor: should call the provided Get function"
)
async def test_a_body_and_a_query_can_be_altered(apiserver: APIServer) -> None:
    def intercept(request: InterceptedRequest) -> Interception:
        if request.verb == "create" and isinstance(request.body, dict):
            return replace(request, body={**request.body, "data": {"by": "test"}})
        if request.verb == "patch":
            return replace(request, query={**request.query, "dryRun": "All"})
        return None

    async with cluster_of(apiserver) as cluster:
        with apiserver.intercept(intercept):
            made = await cluster.create(_config_map("a", by="program"))
            assert made.at("data") == {"by": "test"}
            await cluster.patch(made, {**made.to_dict(), "data": {"by": "program"}})

    assert apiserver.get("v1", "configmaps", "a")["data"] == {"by": "test"}


@pytest.mark.covers(
    "controller-runtime pkg/client/interceptor: should call the provided Get function"
)
async def test_requests_are_answered_in_the_order_of_the_test(apiserver: APIServer) -> None:
    """The first is held until the second was answered; the test's loop is not the server's."""
    first_came, second_answered = anyio.Event(), anyio.Event()

    async def first_last(request: InterceptedRequest) -> None:
        if request.name == "first":
            first_came.set()
            await second_answered.wait()

    async with cluster_of(apiserver) as cluster, anyio.create_task_group() as group:
        await cluster.get("v1", "namespaces", "default")
        with apiserver.intercept(first_last):
            group.start_soon(cluster.create, _config_map("first"))
            await first_came.wait()
            await cluster.create(_config_map("second"))
            second_answered.set()
            await until(lambda: len(_names(apiserver)) == 2)

    versions = {
        name: int(apiserver.get("v1", "configmaps", name)["metadata"]["resourceVersion"])
        for name in ("first", "second")
    }
    assert versions["first"] > versions["second"]


async def test_the_end_of_the_block_lets_held_requests_pass(apiserver: APIServer) -> None:
    came = anyio.Event()

    async def hold(request: InterceptedRequest) -> None:
        if request.verb == "create":
            came.set()
            await anyio.sleep_forever()

    async with cluster_of(apiserver) as cluster, anyio.create_task_group() as group:
        with apiserver.intercept(hold):
            group.start_soon(cluster.create, _config_map("a"))
            await came.wait()
            assert _names(apiserver) == []

    assert _names(apiserver) == ["a"]


async def test_a_block_that_ends_as_soon_as_a_request_is_held_lets_it_pass(
    apiserver: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function runs in the loop of the test before the thread of the server continues."""
    submit, came = asyncio.run_coroutine_threadsafe, threading.Event()

    def submit_slowly(*args: Any) -> Any:
        future = submit(*args)
        came.wait(10)  # the thread of the server is not scheduled until the block has ended
        return future

    async def hold(request: InterceptedRequest) -> None:
        if request.verb == "create":
            held.set()
            await anyio.sleep_forever()

    async with cluster_of(apiserver) as cluster, anyio.create_task_group() as group:
        await cluster.discovery.kind("v1", "ConfigMap")
        held = anyio.Event()
        with apiserver.intercept(hold):
            monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", submit_slowly)
            group.start_soon(cluster.create, _config_map("a"))
            await held.wait()
        came.set()

    assert _names(apiserver) == ["a"]


def test_without_a_loop_of_the_test_it_runs_in_that_of_the_server(apiserver: APIServer) -> None:
    seen: list[str] = []

    async def intercept(request: InterceptedRequest) -> Fault | None:
        await asyncio.sleep(0)
        seen.append(request.verb)
        return Fault(status=409) if request.verb == "create" else None

    with (
        pyinformer.run_in_thread() as runner,
        runner.connect(server=apiserver.url) as cluster,
        apiserver.intercept(intercept),
        pytest.raises(pyinformer.ConflictError),
    ):
        cluster.create(_config_map("a"))

    assert "create" in seen


async def test_an_error_of_the_function_fails_the_test_and_not_the_program(
    apiserver: APIServer,
) -> None:
    """The program gets one 400, which it does not repeat; then the function is not called."""
    calls: list[str] = []

    def broken(request: InterceptedRequest) -> None:
        calls.append(request.verb)
        assert request.verb != "create", "a mistake of the test"

    async with cluster_of(apiserver) as cluster:
        await cluster.get("v1", "namespaces", "default")
        mistake = pytest.raises(AssertionError, match="a mistake of the test")
        with mistake, apiserver.intercept(broken):
            with pytest.raises(BadRequestError, match="interceptor of the test failed"):
                await cluster.create(_config_map("a"))
            await cluster.create(_config_map("b"))

    assert calls.count("create") == 1
    assert _names(apiserver) == ["b"]


async def test_an_error_that_the_block_fails_of_is_seen_as_its_context(
    apiserver: APIServer,
) -> None:
    def broken(request: InterceptedRequest) -> None:
        raise KeyError(request.verb)

    async with cluster_of(apiserver) as cluster:
        with pytest.raises(KeyError) as caught, apiserver.intercept(broken):
            await cluster.get("v1", "configmaps", "default/a")

    assert isinstance(caught.value.__context__, BadRequestError)


@pytest.mark.parametrize(
    ("returned", "error", "complaint"),
    [
        pytest.param(500, InvalidTypeError, "must return a Fault", id="number"),
        pytest.param({"a": 1}, InvalidTypeError, "must return a Fault", id="dict"),
        pytest.param("name", InvalidArgumentError, "only the body and the query", id="name"),
    ],
)
async def test_what_cannot_be_carried_out_is_an_error_of_the_test(
    apiserver: APIServer, returned: Any, error: type[Exception], complaint: str
) -> None:
    def intercept(request: InterceptedRequest) -> Any:
        return replace(request, name="other") if returned == "name" else returned

    async with cluster_of(apiserver) as cluster:
        with (
            pytest.raises(error, match=complaint),
            apiserver.intercept(intercept),
            pytest.raises(BadRequestError),
        ):
            await cluster.get("v1", "configmaps", "default/a")


@pytest.mark.parametrize("server", ["embedded", "world"])
@pytest.mark.parametrize(
    ("altered", "complaint"),
    [
        pytest.param({"body": {"data": {"a": float("nan")}}}, "JSON values", id="nan"),
        pytest.param({"body": {"data": {"a": "\ud800"}}}, "JSON values", id="no-unicode"),
        pytest.param({"body": {"data": object()}}, "JSON values", id="object"),
        pytest.param({"query": 5}, "a dict of texts", id="query"),
        pytest.param({"query": {"limit": 5}}, "a dict of texts", id="number-in-query"),
    ],
)
async def test_an_altered_request_that_no_client_can_send_is_an_error_of_the_test(
    apiserver: APIServer, server: str, altered: dict[str, Any], complaint: str
) -> None:
    def intercept(request: InterceptedRequest) -> Interception:
        return replace(request, **altered)

    if server == "world":

        def in_world() -> None:
            with World() as world, world.intercept(intercept), pytest.raises(BadRequestError):
                world.run(lambda: world.cluster.create(_config_map("a")))

        with pytest.raises(InvalidTypeError, match=complaint):
            await asyncio.to_thread(in_world)
        return
    async with cluster_of(apiserver) as cluster:
        with (
            pytest.raises(InvalidTypeError, match=complaint),
            apiserver.intercept(intercept),
            pytest.raises(BadRequestError),
        ):
            await cluster.create(_config_map("a"))


async def test_each_function_sees_what_those_before_it_have_altered(apiserver: APIServer) -> None:
    seen: list[object] = []

    def alter(request: InterceptedRequest) -> Interception:
        return replace(request, body={**_config_map("a"), "data": {"n": "1"}})

    def note(request: InterceptedRequest) -> None:
        seen.append(request.body)

    async with cluster_of(apiserver) as cluster:
        await cluster.discovery.kind("v1", "ConfigMap")
        with apiserver.intercept(alter), apiserver.intercept(note):
            await cluster.create(_config_map("a"))

    assert seen == [{**_config_map("a"), "data": {"n": "1"}}]


@pytest.mark.parametrize("wrong", [None, 5, "x", Fault(), lambda: None])
def test_what_is_not_a_function_of_a_request_is_refused(apiserver: APIServer, wrong: Any) -> None:
    with pytest.raises(InvalidTypeError), apiserver.intercept(wrong):
        raise AssertionError
    with World() as world, pytest.raises(InvalidTypeError), world.intercept(wrong):
        raise AssertionError


def test_the_values_of_a_secret_are_not_shown() -> None:
    body: JSONObject = {"kind": "Secret", "data": {"password": "hunter2"}}
    request = InterceptedRequest(
        verb="patch",
        resource="secrets",
        namespace="default",
        name="a",
        subresource="",
        user="",
        query={},
        body=body,
    )
    assert "hunter2" not in repr(request)
    assert "hunter2" not in repr(replace(request, body=[body]))


def _writing(cluster: Cluster, *names: str) -> Callable[[Request, object], Any]:
    async def reconcile(_request: Request, _obj: object) -> None:
        for name in names:
            await cluster.create(_config_map(name))

    return reconcile


def _reconciled(world: World, *names: str) -> BaseException | None:
    pods = world.factory.informer("v1", "pods")
    controller = Controller("c", _writing(world.cluster, *names), pods)
    return world.reconcile(controller, "default/p").error


@pytest.mark.covers(
    "controller-runtime pkg/client/interceptor: should call the provided Get function"
)
@pytest.mark.parametrize(
    ("fault", "error", "stored", "statuses"),
    [
        pytest.param(Fault(status=500), ServerError, ["a", "b"], [201, 201, 500], id="refused"),
        pytest.param(Fault(refuse=True), TransportError, ["a", "b"], [201, 201], id="dropped"),
        pytest.param(
            Fault(cut_after_bytes=0),
            TransportError,
            ["a", "b", "c"],
            [201, 201, 201],
            id="answer-lost",
        ),
        pytest.param(
            Fault(body=b"<html>", status=201),
            pyinformer.errors.WriteAnswerError,
            ["a", "b"],
            [201, 201, 201],
            id="other-body",
        ),
    ],
)
def test_the_third_write_of_a_reconcile_fails_in_a_world(
    fault: Fault, error: type[Exception], stored: list[str], statuses: list[int]
) -> None:
    with World() as world, world.intercept(nth_write(3, fault)):
        found = _reconciled(world, "a", "b", "c")

        assert isinstance(found, error)
        assert _names(world) == stored
        assert [write.status for write in world.writes] == statuses


def test_a_delay_takes_the_time_of_a_world_and_functions_run_in_its_loop() -> None:
    async def wait(request: InterceptedRequest) -> Fault | None:
        if request.verb != "create":
            return None
        passed = asyncio.Event()
        asyncio.get_running_loop().call_later(5.0, passed.set)
        await passed.wait()
        return Fault(delay_seconds=7.0)

    with World(virtual_time=True) as world, world.intercept(wait):
        before = world.now_seconds
        assert _reconciled(world, "a") is None
        assert world.now_seconds - before == 12.0
        assert _names(world) == ["a"]


def test_a_watch_of_a_world_can_be_refused_and_lost() -> None:
    """Its informers recover, as from a server."""
    left = [Fault(refuse=True), Fault(status=503), Fault(cut_after_bytes=1)]
    seen: list[str] = []

    def intercept(request: InterceptedRequest) -> Fault | None:
        seen.append(request.verb)
        return left.pop() if left and request.verb in {"list", "watch"} else None

    with World([_config_map("a")], virtual_time=True) as world, world.intercept(intercept):
        maps = world.factory.informer("v1", "configmaps")
        world.sync()
        world.elapse(60.0)
        assert [one.key for one in maps.lister.list()] == ["default/a"]
    assert left == []
    assert seen.count("watch") >= 3


def test_a_fault_that_needs_a_network_is_an_error_of_the_test_in_a_world() -> None:
    fault = Fault(hang=True)
    refusal = pytest.raises(InvalidArgumentError, match="no network for hang")
    with World() as world, refusal, world.intercept(nth_write(1, fault)):
        assert isinstance(_reconciled(world, "a"), BadRequestError)
