"""The controllers of docs/examples do what their pages say, on both servers."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING
from urllib.request import urlopen
from uuid import uuid4

from docs.examples import pods_on_node
from docs.examples.endpoints_controller import app as endpoints
from docs.examples.multi_cluster_endpoints import ClusterSync

import pyinformer
from pyinformer import NotFoundError
from pyinformer.testing import APIServer
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

_SLICES = "discovery.k8s.io/v1"
_PATIENCE_SECONDS = 100.0


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
    async with server.connect() as cluster, endpoints.running(cluster, namespaces=namespace):
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


async def test_a_slice_has_the_ports_on_which_the_pods_listen(server: Server) -> None:
    """The target port is a number, or absent, or the name of a port, which is left out."""
    namespace = server.namespace()
    service = _service(namespace, "web", app="web")
    service["spec"]["ports"] = [
        {"name": "http", "port": 80, "targetPort": 8080},
        {"name": "metrics", "port": 9090},
        {"name": "admin", "port": 81, "targetPort": "admin"},
    ]
    server.api.create(service)
    server.api.create(_pod(namespace, "one", "10.0.0.1", app="web"))
    async with server.connect() as cluster, endpoints.running(cluster, namespaces=namespace):
        await _Slices(server, namespace).become("web", [("10.0.0.1", True)])
    found = server.api.get(_SLICES, "endpointslices", "web", namespace)

    assert [(one["name"], one["port"]) for one in found["ports"]] == [
        ("http", 8080),
        ("metrics", 9090),
    ]


async def test_slices_are_written_once_for_each_state(server: Server) -> None:
    """A second program finds everything as it should be: it applies once, and then never again."""
    namespace = server.namespace()
    slices = _Slices(server, namespace)
    server.api.create(_service(namespace, "web", app="web"))
    for _ in range(2):
        async with (
            server.connect() as cluster,
            endpoints.running(cluster, namespaces=namespace) as run,
        ):
            await slices.become("web", [])
            before = server.api.get(_SLICES, "endpointslices", "web", namespace)
            await _reconciled_again(run.controllers[0], server, namespace)
    after = server.api.get(_SLICES, "endpointslices", "web", namespace)

    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def _reconciled_again(
    controller: pyinformer.Controller, server: Server, namespace: str
) -> None:
    """Touch the service, and wait until the controller has looked at it."""

    def successes() -> int:
        return controller.status().outcomes.get("success", 0)

    before = successes()
    touched = {"metadata": {"labels": {"touched": uuid4().hex}}}  # never what it was
    server.api.patch("v1", "services", "web", touched, namespace)
    await until(lambda: successes() > before)


async def test_a_page_says_which_pods_run_on_a_node(server: Server) -> None:
    """Threads of a web server read one cache, which follows the server."""
    namespace = server.namespace()
    server.api.create(_on_node(namespace, "one", "n1"))
    server.api.create(_on_node(namespace, "two", "n2"))

    def serve_and_read() -> tuple[list[str], list[str]]:
        with ExitStack() as opened:
            runner = opened.enter_context(pyinformer.run_in_thread())
            cluster = opened.enter_context(runner.connect(config=server.config()))
            factory = opened.enter_context(cluster.informer_factory())
            pods = pods_on_node.follow(factory)
            web = opened.enter_context(pods_on_node.web_server(pods, port=0))
            serving = threading.Thread(target=web.serve_forever)
            serving.start()
            opened.callback(serving.join)
            opened.callback(web.shutdown)
            with ThreadPoolExecutor(4) as readers:
                pages = list(readers.map(_read, [f"{web.server_port}/{namespace}-n1"] * 8))
            cluster.create(_on_node(namespace, "three", "n1"))
            return pages, [_read(f"{web.server_port}/{namespace}-n1")]

    before, after = await asyncio.to_thread(serve_and_read)
    heading = f"<h1>{namespace}-n1</h1>"
    one, three = (f"<li>{namespace}/{name}: Pending</li>" for name in ("one", "three"))
    assert set(before) == {f"{heading}<ul>{one}</ul><p></p>"}
    assert after == [f"{heading}<ul>{one}{three}</ul><p></p>"]


def _on_node(namespace: str, name: str, node: str) -> JSONObject:
    made = _pod(namespace, name, "10.0.0.1")
    made["spec"]["nodeName"] = f"{namespace}-{node}"
    made["status"] = {"phase": "Pending"}
    return made


def _read(address: str) -> str:
    with urlopen(f"http://127.0.0.1:{address}", timeout=_PATIENCE_SECONDS) as response:
        return str(response.read(), "utf-8")


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


class _Merged:
    """What the ingress cluster has behind the service, by business cluster."""

    def __init__(self, server: Server, namespace: str) -> None:
        self._api = server.api
        self._namespace = namespace

    def addresses(self) -> dict[str, list[str]]:
        """Return the ready addresses by cluster."""
        slices = self._api.list(_SLICES, "endpointslices", self._namespace)
        found: dict[str, list[str]] = {}
        for one in slices:
            labels = one["metadata"]["labels"]
            assert labels["kubernetes.io/service-name"] == "web"
            ready = [each["addresses"][0] for each in one.get("endpoints") or []]
            found.setdefault(labels["sync.example.com/cluster"], []).extend(ready)
        return found

    async def become(self, wanted: dict[str, list[str]]) -> None:
        """Wait until the slices say this."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        while (found := await asyncio.to_thread(self.addresses)) != wanted:
            assert asyncio.get_running_loop().time() < deadline, f"{found}, not {wanted}"


async def test_endpoints_of_business_clusters_meet_in_the_ingress_cluster(server: Server) -> None:
    """One cluster is dead at the start and delays no other; one dies and keeps its addresses."""
    namespace = server.namespace()
    merged = _Merged(server, namespace)
    with ExitStack() as servers:
        eu, us = [servers.enter_context(APIServer()) for _ in range(2)]
        eu.create(_endpoints(namespace, "web", "10.1.0.1"))
        us.create(_endpoints(namespace, "web", "10.2.0.1"))
        us.stop_accepting()
        async with AsyncExitStack() as clusters:
            ingress = await clusters.enter_async_context(server.connect())
            others = [
                await clusters.enter_async_context(pyinformer.connect(server=one.url, name=name))
                for one, name in ((eu, "eu"), (us, "us"))
            ]
            factories = [pyinformer.SharedInformerFactory(one) for one in (ingress, *others)]
            syncs = [ClusterSync(business, factories[0]) for business in factories[1:]]
            group = pyinformer.ControllerGroup(factories=factories[:1])
            for sync in syncs:
                group.engage(sync.controller, sync.name)
            running = asyncio.create_task(group.run())
            await merged.become({"eu": ["10.1.0.1"]})
            us.accept_again()
            await merged.become({"eu": ["10.1.0.1"], "us": ["10.2.0.1"]})

            eu.stop_accepting()
            eu.drop_connections()
            us.update(_endpoints(namespace, "web", "10.2.0.2"))
            await merged.become({"eu": ["10.1.0.1"], "us": ["10.2.0.2"]})

            eu.accept_again()
            eu.delete("v1", "endpoints", "web", namespace)
            await merged.become({"us": ["10.2.0.2"]})
            await group.aclose()
            await running
