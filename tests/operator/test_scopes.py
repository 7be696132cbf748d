"""An operator of some namespaces learns which resources are in none before it follows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anyio
import pytest

import pyinformer
from pyinformer import ControllerOptions, Operator, Request
from pyinformer.client.cluster import Cluster
from pyinformer.errors import CacheSyncTimeoutError, LifecycleError, RequestTimeoutError
from pyinformer.operator import OperatorRun, Watches
from pyinformer.testing import APIServer, Fault, World
from tests.leaderelection.electing import Line
from tests.waiting import now, pause, settle, until

_ASKS = "it is not known whether planets.v1.acme.io is in namespaces"
_EARTH = {"apiVersion": "acme.io/v1", "kind": "Planet", "metadata": {"name": "earth"}}
_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"namespace": "default", "name": "map"},
}


@pytest.fixture
def api() -> Iterator[APIServer]:
    """A server with a ConfigMap."""
    with APIServer() as server:
        server.create(_MAP)
        yield server


def _discovery_of_planets(**trouble: Any) -> Fault:
    return Fault(match=lambda sent: sent.path == "/apis/acme.io/v1", times=None, **trouble)


async def _readiness(run: OperatorRun) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"{run.health_url}/readyz") as found:
        return found.status, await found.text()


class _Reconciled:
    """An operator of ConfigMaps and planets, and what it has reconciled."""

    def __init__(self, *, sync_timeout_seconds: float = 120.0) -> None:
        self.keys: set[str] = set()
        self.app = Operator("test")
        self.options = ControllerOptions(sync_timeout_seconds=sync_timeout_seconds)
        self.add("v1", "configmaps")

    def add(self, api_version: str, plural: str) -> None:
        """Register one more resource."""
        self.app.reconcile(api_version, plural, options=self.options)(self.reconcile)

    async def reconcile(self, request: Request, obj: Any, cluster: pyinformer.Cluster) -> None:
        """Note the key."""
        self.keys.add(request.key)


@asynccontextmanager
async def _starting(
    api: APIServer, app: Operator
) -> AsyncIterator[tuple[OperatorRun, asyncio.Task[None]]]:
    """Start an operator of one namespace in a task, and close it."""
    async with pyinformer.connect(server=api.url) as cluster:
        run = app.running(cluster, namespaces="default", health_port=0)
        starting = asyncio.create_task(run.start())
        try:
            yield run, starting
            await starting
        finally:
            await run.aclose()


async def test_a_definition_without_namespaces_may_come_after_the_start(
    api: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    one = _Reconciled()
    one.add("acme.io/v1", "planets")
    async with _starting(api, one.app) as (run, starting):
        await until(lambda: _ASKS in caplog.text)
        code, text = await _readiness(run)
        assert code == 503
        assert "planets.v1.acme.io: it is not known whether it is in namespaces: " in text
        assert not starting.done()
        api.register("acme.io/v1", "Planet", "planets", namespaced=False)
        api.create(_EARTH)
        await until(lambda: one.keys == {"default/map", "earth"})


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param({"status": 503}, id="503"),
        pytest.param({"status": 401}, id="401"),
        pytest.param({"status": 403}, id="403"),
        pytest.param({"status": 404}, id="of-a-server-behind"),
        pytest.param({"refuse": True}, id="refused"),
        pytest.param({"body": b"<html>maintenance</html>"}, id="a-page"),
    ],
)
async def test_discovery_of_a_scope_is_retried_after_an_error(
    api: APIServer, caplog: pytest.LogCaptureFixture, trouble: dict[str, Any]
) -> None:
    api.register("acme.io/v1", "Planet", "planets", namespaced=False)
    api.create(_EARTH)
    api.faults.add(_discovery_of_planets(**trouble))
    one = _Reconciled()
    one.add("acme.io/v1", "planets")
    async with _starting(api, one.app):
        await until(lambda: _ASKS in caplog.text)
        api.faults.clear()
        await until(lambda: one.keys == {"default/map", "earth"})


async def test_a_namespace_that_can_be_listed_needs_no_discovery(api: APIServer) -> None:
    api.register("acme.io/v1", "Database", "databases")
    api.create(
        {
            "apiVersion": "acme.io/v1",
            "kind": "Database",
            "metadata": {"namespace": "default", "name": "a"},
        }
    )
    api.faults.add(_discovery_of_planets(status=403))
    one = _Reconciled()
    one.add("acme.io/v1", "databases")
    async with _starting(api, one.app):
        await until(lambda: one.keys == {"default/map", "default/a"})


async def test_a_scope_that_stays_unknown_ends_the_start_with_a_reason(api: APIServer) -> None:
    one = _Reconciled(sync_timeout_seconds=0.5)
    one.add("acme.io/v1", "planets")
    reason = "planets.v1.acme.io: it is not known whether it is in namespaces: .*does not serve it"
    with pytest.raises(CacheSyncTimeoutError, match=reason) as caught:
        async with _starting(api, one.app):
            pass
    assert "pyinformer crd" in caught.value.__notes__[0]


async def test_a_scope_of_all_namespaces_is_not_waited_for(api: APIServer) -> None:
    api.register("acme.io/v1", "Planet", "planets", namespaced=False)
    api.create(_EARTH)
    api.faults.add(_discovery_of_planets(status=503))
    one = _Reconciled()
    one.add("acme.io/v1", "planets")
    async with pyinformer.connect(server=api.url) as cluster, one.app.running(cluster):
        await until(lambda: one.keys == {"default/map", "earth"})


async def test_the_scope_of_an_added_reconcile_is_waited_for_too(
    api: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    api.register("acme.io/v1", "Planet", "planets", namespaced=False)
    api.create(_EARTH)
    one = _Reconciled()
    async with _starting(api, one.app) as (_, starting):
        await starting
        api.faults.add(_discovery_of_planets(status=503))
        one.add("acme.io/v1", "planets")
        await until(lambda: _ASKS in caplog.text)
        api.faults.clear()
        await one.app.wait_started("planets")
        await until(lambda: "earth" in one.keys)


async def _cancel_start(run: OperatorRun, by: str, *, when: Callable[[], object]) -> None:
    """Start an operator, and cancel that by anyio or by asyncio once a condition holds."""
    scope = anyio.CancelScope()

    async def start() -> None:
        with scope:
            await run.start()

    starting = asyncio.create_task(start())
    await until(when)
    await settle()
    if by == "anyio":
        scope.cancel()
        await starting
    else:
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting


@pytest.mark.parametrize("by", ["anyio", "asyncio"])
async def test_an_operator_can_be_cancelled_while_it_asks_for_a_scope(
    api: APIServer, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    one = _Reconciled()
    one.add("acme.io/v1", "planets")
    async with pyinformer.connect(server=api.url) as cluster:
        run = one.app.running(cluster, namespaces="default")
        await _cancel_start(run, by, when=lambda: _ASKS in caplog.text)
        await run.aclose()


_SILENT = ("/apis/silent.io/v1", "/apis/silent.io/v2")
_DEADLINE_SECONDS = 65.0  # of a request


class _SilentLine(Line):
    """A connection on which two versions' discovery is not answered; it notes what is asked."""

    discovery: list[str]
    failure: Exception | None = None

    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        """Answer, or keep silent until the request's deadline."""
        if path.count("/") <= 3 and "/v" in path:
            self.discovery.append(path)
        if path in _SILENT:
            if self.failure is not None:
                raise self.failure
            await pause(_DEADLINE_SECONDS)
            raise RequestTimeoutError(path, "no answer", waited_seconds=_DEADLINE_SECONDS)
        return await super().request(method, path, **rest)


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time with objects of three silent kinds and a ConfigMap."""
    with World([_MAP], virtual_time=True) as world:
        for version, plural, kind in (
            ("v1", "gadgets", "Gadget"),
            ("v1", "tools", "Tool"),
            ("v2", "levers", "Lever"),
        ):
            world.register(f"silent.io/{version}", kind, plural)
            metadata = {"namespace": "default", "name": plural}
            world.create({"apiVersion": f"silent.io/{version}", "kind": kind, "metadata": metadata})
        yield world


def _silent_line(world: World) -> tuple[_SilentLine, Cluster]:
    line = _SilentLine(world.cluster.connection)
    line.discovery = []
    return line, Cluster(world.cluster.config, connection=line)


@pytest.mark.parametrize("namespaces", [None, "default"])
def test_silent_discovery_delays_a_start_once_and_by_seconds(
    world: World, caplog: pytest.LogCaptureFixture, namespaces: str | None
) -> None:
    """Three resources of two silent versions: their own informers show whether they are served.

    In a namespace each scope is asked for once more, and then a list says that it has namespaces.
    """

    async def scenario() -> None:
        line, cluster = _silent_line(world)
        one = _Reconciled()
        for version, plural in (("v1", "gadgets"), ("v1", "tools"), ("v2", "levers")):
            one.add(f"silent.io/{version}", plural)
        began = now()
        async with one.app.running(cluster, namespaces=namespaces):
            await until(lambda: len(one.keys) == 4, timeout_seconds=1000)
            rounds = 1 if namespaces is None else 2
            assert now() - began < 10 * rounds + 1
            assert sorted(line.discovery) == sorted(["/api/v1", *_SILENT * rounds])

    world.run(scenario)
    for plural, version in (("gadgets", "v1"), ("tools", "v1"), ("levers", "v2")):
        line = f"discovery of {plural}.{version}.silent.io failed: /apis/silent.io/{version}: no"
        assert f"{line} answer within 10 s" in caplog.text


def test_silent_discovery_delays_an_added_reconcile_by_seconds(world: World) -> None:
    async def scenario() -> None:
        _, cluster = _silent_line(world)
        one = _Reconciled()
        async with one.app.running(cluster):
            levers = Watches("silent.io/v2", "levers", lambda lever: [lever.key])
            one.app.reconcile("silent.io/v1", "gadgets", watches=[levers])(one.reconcile)
            began = now()
            await one.app.wait_started("gadgets")
            assert now() - began < 11

    world.run(scenario)


def test_silent_discovery_of_owners_delays_no_other_controller_for_longer(world: World) -> None:
    """A cached owner names the kind of all of them."""

    async def scenario() -> None:
        _, cluster = _silent_line(world)
        one = _Reconciled()
        one.app.reconcile("silent.io/v1", "gadgets", owns=[("v1", "secrets")])(one.reconcile)
        began = now()
        async with one.app.running(cluster):
            await until(lambda: one.keys == {"default/map", "default/gadgets"})
            assert now() - began < 21

    world.run(scenario)


def test_another_error_of_discovery_ends_a_start_as_itself(world: World) -> None:
    """Not as a group of errors, though it is raised beside other questions."""

    async def scenario() -> None:
        line, cluster = _silent_line(world)
        line.failure = LifecycleError("it is closed")
        one = _Reconciled()
        one.add("silent.io/v1", "gadgets")
        with pytest.raises(LifecycleError, match="it is closed"):
            await one.app.running(cluster).start()

    world.run(scenario)


@pytest.mark.parametrize("by", ["anyio", "asyncio"])
def test_an_operator_can_be_cancelled_while_discovery_is_silent(world: World, by: str) -> None:
    async def scenario() -> None:
        line, cluster = _silent_line(world)
        one = _Reconciled()
        one.add("silent.io/v1", "gadgets")
        run, began = one.app.running(cluster), now()
        await _cancel_start(run, by, when=lambda: _SILENT[0] in line.discovery)
        assert now() - began < 1
        await run.aclose()

    world.run(scenario)
