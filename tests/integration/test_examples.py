"""The controllers of docs/examples do what their pages say, on both servers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING

from docs.examples.endpoints_controller import EndpointsController
from docs.examples.multi_cluster_endpoints import EndpointSync

import pyinformer
from pyinformer import NotFoundError
from pyinformer.testing import APIServer
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.apimachinery import JSONObject
    from tests.integration.servers import Server

_SLICES = "discovery.k8s.io/v1"
_PATIENCE_SECONDS = 20.0


def _service(namespace: str, name: str, **selector: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"selector": selector, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
    }


def _pod(namespace: str, name: str, ip: str, **labels: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
        "status": {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


class _Slices:
    """What the server has behind services."""

    def __init__(self, server: Server, namespace: str) -> None:
        self._api = server.api
        self._namespace = namespace

    def of(self, service: str) -> list[tuple[str, bool]] | None:
        """Return addresses and readiness, or None if there is no slice."""
        try:
            found = self._api.get(_SLICES, "endpointslices", service, self._namespace)
        except NotFoundError:
            return None
        endpoints: list[JSONObject] = found.get("endpoints") or []
        return [(one["addresses"][0], one["conditions"]["ready"]) for one in endpoints]

    async def become(self, service: str, wanted: list[tuple[str, bool]] | None) -> None:
        """Wait until a service's slice says this."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        while (found := await asyncio.to_thread(self.of, service)) != wanted:
            assert asyncio.get_running_loop().time() < deadline, f"{found}, not {wanted}"


async def test_slices_follow_services_and_pods(server: Server) -> None:
    """A pod comes, moves to another service, and goes; a slice is deleted behind our back."""
    namespace = server.namespace()
    slices = _Slices(server, namespace)
    api = server.api
    api.create(_service(namespace, "web", app="web"))
    api.create(_service(namespace, "shop", app="shop"))
    api.create(_pod(namespace, "one", "10.0.0.1", app="web"))
    async with server.connect() as cluster:
        factory = pyinformer.SharedInformerFactory(cluster)
        example = EndpointsController(cluster, factory)
        async with pyinformer.ControllerGroup(example.controller, factories=[factory]):
            await slices.become("web", [("10.0.0.1", True)])
            await slices.become("shop", [])

            api.create(_pod(namespace, "two", "10.0.0.2", app="web"))
            await slices.become("web", [("10.0.0.1", True), ("10.0.0.2", True)])

            api.patch("v1", "pods", "one", {"metadata": {"labels": {"app": "shop"}}}, namespace)
            await slices.become("web", [("10.0.0.2", True)])
            await slices.become("shop", [("10.0.0.1", True)])

            api.delete(_SLICES, "endpointslices", "web", namespace)
            await slices.become("web", [("10.0.0.2", True)])

            api.delete("v1", "pods", "two", namespace)
            await slices.become("web", [])

            api.delete("v1", "services", "web", namespace)
            await slices.become("web", None)


async def test_slices_are_written_once_for_each_state(server: Server) -> None:
    """A second program finds everything as it should be: it applies once, and then never again."""
    namespace = server.namespace()
    slices = _Slices(server, namespace)
    server.api.create(_service(namespace, "web", app="web"))
    for _ in range(2):
        async with server.connect() as cluster:
            factory = pyinformer.SharedInformerFactory(cluster)
            example = EndpointsController(cluster, factory)
            async with pyinformer.ControllerGroup(example.controller, factories=[factory]):
                await slices.become("web", [])
                before = server.api.get(_SLICES, "endpointslices", "web", namespace)
                await _reconciled_again(example, server, namespace)
    after = server.api.get(_SLICES, "endpointslices", "web", namespace)

    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def _reconciled_again(example: EndpointsController, server: Server, namespace: str) -> None:
    """Touch the service, and wait until the controller has looked at it."""

    def successes() -> int:
        return example.controller.status().outcomes.get("success", 0)

    before = successes()
    touched = {"metadata": {"labels": {"touched": str(before)}}}
    server.api.patch("v1", "services", "web", touched, namespace)
    await until(lambda: successes() > before)


def _endpoints(namespace: str, name: str, ip: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {"sync.example.com/export": "true"},
        },
        "subsets": [{"addresses": [{"ip": ip}], "ports": [{"port": 80, "protocol": "TCP"}]}],
    }


async def test_endpoints_of_business_clusters_meet_in_the_ingress_cluster(
    server: Server,
) -> None:
    """Addresses come from both; one cluster dies and keeps its own; the last export leaves."""
    namespace = server.namespace()

    def addresses() -> list[str] | None:
        try:
            found = server.api.get("v1", "endpoints", "web", namespace)
        except NotFoundError:
            return None
        subsets: list[JSONObject] = found.get("subsets") or []
        return [one["ip"] for subset in subsets for one in subset["addresses"]]

    async def become(wanted: list[str] | None) -> None:
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        while (found := await asyncio.to_thread(addresses)) != wanted:
            assert asyncio.get_running_loop().time() < deadline, f"{found}, not {wanted}"

    with ExitStack() as servers:
        businesses = [servers.enter_context(APIServer()) for _ in range(2)]
        businesses[0].create(_endpoints(namespace, "web", "10.1.0.1"))
        businesses[1].create(_endpoints(namespace, "web", "10.2.0.1"))
        async with AsyncExitStack() as clusters:
            ingress = await clusters.enter_async_context(server.connect())
            others = [
                await clusters.enter_async_context(
                    pyinformer.connect(server=business.url, name=f"business-{number}")
                )
                for number, business in enumerate(businesses)
            ]
            factories = [pyinformer.SharedInformerFactory(one) for one in (ingress, *others)]
            sync = EndpointSync(factories[0], factories[1:])
            await clusters.enter_async_context(
                pyinformer.ControllerGroup(sync.controller, factories=factories)
            )
            await become(["10.1.0.1", "10.2.0.1"])

            businesses[0].stop_accepting()
            businesses[0].drop_connections()
            businesses[1].update(_endpoints(namespace, "web", "10.2.0.2"))
            await become(["10.1.0.1", "10.2.0.2"])

            businesses[0].accept_again()
            businesses[0].delete("v1", "endpoints", "web", namespace)
            await become(["10.2.0.2"])

            businesses[1].delete("v1", "endpoints", "web", namespace)
            await become(None)
