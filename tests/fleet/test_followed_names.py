"""A fleet whose clusters are the objects of a management cluster."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import (
    ClusterPool,
    Controller,
    ControllerGroup,
    Fleet,
    KubeObject,
    Request,
    SharedInformer,
    SharedInformerFactory,
)
from pyinformer.operator import Health
from pyinformer.testing import APIServer, Fault
from tests.operator.test_status_pages import fetched
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer import Cluster


def tenant(name: str, url: str, **more: Any) -> dict[str, Any]:
    """Return the object of a tenant, whose server has this address."""
    metadata = {"name": name, "namespace": "tenants"} | more
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"server": url}}


class Gateway:
    """A program that reconciles the config maps of all tenants."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.opened: list[str] = []
        self.tenants: SharedInformer[None] | None = None
        self.group: ControllerGroup = ControllerGroup()

    @asynccontextmanager
    async def open(self, cluster: Cluster) -> AsyncIterator[Controller[None]]:
        """Follow the config maps of one."""
        self.opened.append(cluster.name)
        async with SharedInformerFactory(cluster) as factory:
            maps = factory.informer("v1", "configmaps", namespaces="default")
            yield Controller("maps", self.reconcile, maps)

    async def reconcile(self, request: Request, obj: KubeObject[None] | None) -> None:
        """Record what is seen."""
        at = "" if obj is None else obj.at("data.at", str)
        self.seen.append((str(request), at))

    @asynccontextmanager
    async def running(
        self, management: APIServer, *, namespaces: Any = "tenants", **settings: Any
    ) -> AsyncIterator[Fleet[Any]]:
        """Run it."""
        async with (
            pyinformer.connect(server=management.url) as hub,
            SharedInformerFactory(hub) as factory,
        ):
            self.tenants = tenants = factory.informer("v1", "configmaps", namespaces=namespaces)
            await factory.start()

            def connect(name: str) -> Any:
                found = tenants.lister[name]
                return pyinformer.connect(server=found.at("data.server", str), name=name)

            async with (
                ClusterPool(self.open, connect=connect) as pool,
                self.group,
                Fleet(pool, self.group, tenants, **settings) as fleet,
            ):
                yield fleet


def content(at: str) -> dict[str, Any]:
    """Return a config map of a tenant."""
    metadata = {"name": "a", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"at": at}}


def working(fleet: Fleet[Any]) -> list[str]:
    """Return the names of the clusters that are used."""
    return sorted(one.name for one in fleet.status().clusters if one.state == "working")


async def test_tenants_come_go_and_move() -> None:
    with APIServer() as hub, APIServer() as first, APIServer() as second:
        first.create(content("first"))
        second.create(content("second"))
        hub.create(tenant("t0", first.url))
        gateway = Gateway()
        async with gateway.running(hub) as fleet:
            await until(lambda: gateway.seen == [("tenants/t0:default/a", "first")])
            hub.create(tenant("t1", second.url))
            await until(lambda: ("tenants/t1:default/a", "second") in gateway.seen)
            await until(lambda: working(fleet) == ["tenants/t0", "tenants/t1"])
            async with Health(gateway.group, fleet).server() as health:
                _, page = await fetched(health.url, "/status")
                _, text = await fetched(health.url, "/status?format=text")
                _, explained = await fetched(health.url, "/explain?key=default/a")
            shown = json.loads(page)["fleet"]
            assert [one["name"] for one in shown] == ["tenants/t0", "tenants/t1"]
            assert "fleet: 2 of 2 clusters are used here" in text
            assert "fleet: cluster tenants/t0: working for " in text
            assert text.count("cluster tenants/t0") == 1
            assert text.count("controller maps") == 2
            assert explained.count("It is cached at ") == 2

            # Its server has another address: it is followed there, without a caller.
            hub.update(tenant("t0", second.url))
            await until(lambda: ("tenants/t0:default/a", "second") in gateway.seen)
            await until(lambda: fleet.status().clusters[0].state == "working")

            # What does not concern the connection opens nothing again.
            opened = list(gateway.opened)
            hub.update(tenant("t0", second.url, labels={"paid": "yes"}))
            hub.delete("v1", "configmaps", "t1", "tenants")
            await until(lambda: working(fleet) == ["tenants/t0"])
            assert gateway.opened == opened
            assert fleet.status().known == 1

            # The object is made again: it may be another cluster at the same address.
            hub.delete("v1", "configmaps", "t0", "tenants")
            hub.create(tenant("t0", second.url))
            await until(lambda: len(gateway.opened) == len(opened) + 1)
            await until(lambda: working(fleet) == ["tenants/t0"])


async def test_an_address_of_none_pauses_a_tenant_and_a_fault_concerns_it_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def address(obj: KubeObject[None]) -> str | None:
        if obj.metadata.labels.get("fault"):
            raise ZeroDivisionError
        return None if obj.metadata.labels.get("paused") else obj.at("data.server", str)

    with APIServer() as hub, APIServer() as server:
        server.create(content("x"))
        hub.create(tenant("t0", server.url))
        hub.create(tenant("t1", server.url, labels={"paused": "yes"}))
        hub.create(tenant("t2", server.url, labels={"fault": "yes"}))
        gateway = Gateway()
        async with gateway.running(hub, address=address) as fleet:
            await until(lambda: working(fleet) == ["tenants/t0"])
            (failing,) = [one for one in fleet.status().clusters if one.reason]
            assert (failing.name, failing.state) == ("tenants/t2", "failed")
            assert "the address of cluster tenants/t2" in caplog.text
            hub.update(tenant("t1", server.url))
            await until(lambda: working(fleet) == ["tenants/t0", "tenants/t1"])
            hub.update(tenant("t0", server.url, labels={"paused": "yes"}))
            await until(lambda: working(fleet) == ["tenants/t1"])
            hub.update(tenant("t1", server.url, labels={"fault": "yes"}))  # keeps its address
            hub.update(tenant("t2", server.url))
            await until(lambda: working(fleet) == ["tenants/t1", "tenants/t2"])
            (failing,) = [one for one in fleet.status().clusters if one.reason]
            assert failing.name == "tenants/t1"
            assert failing.reason.startswith("address(): ZeroDivisionError at ")
            assert failing.state == "working"


async def test_a_namespace_that_is_forbidden_hides_no_tenant_of_another_one() -> None:
    with APIServer() as hub, APIServer() as server:
        server.create(content("x"))
        hub.create(tenant("t0", server.url))
        hub.faults.add(Fault(resource="configmaps", namespace="more", status=403, times=None))
        gateway = Gateway()
        async with gateway.running(hub, namespaces=["tenants", "more"]) as fleet:
            await until(lambda: working(fleet) == ["tenants/t0"])
            assert "configmaps.v1 in more" in fleet.status().waits_for
            assert not fleet.status().failure
            hub.create(tenant("t1", server.url))
            await until(lambda: working(fleet) == ["tenants/t0", "tenants/t1"])
            hub.delete("v1", "configmaps", "t0", "tenants")
            await until(lambda: working(fleet) == ["tenants/t1"])
            hub.create(tenant("t2", server.url, namespace="more"))
            hub.faults.clear()
            await until(lambda: working(fleet) == ["more/t2", "tenants/t1"])
            assert fleet.status().waits_for == ""


async def test_replicas_share_clusters_through_sockets() -> None:
    """What the watch of Leases brings arrives in a callback of a socket, not in a task."""
    with APIServer() as hub, APIServer() as server:
        server.create(content("x"))
        for number in range(4):
            hub.create(tenant(f"t{number}", server.url))
        one, two = Gateway(), Gateway()

        def sharing(identity: str) -> dict[str, Any]:
            buckets = pyinformer.Buckets(by="cluster", identity=identity, namespace="default")
            return {"sharding": buckets, "name": "gateway"}

        names = [f"tenants/t{number}" for number in range(4)]
        async with one.running(hub, **sharing("one")) as first:
            await until(lambda: working(first) == names)
            async with two.running(hub, **sharing("two")) as second:
                await until(lambda: working(first) != names)
                await until(lambda: sorted([*working(first), *working(second)]) == names)
            await until(lambda: working(first) == names)


async def test_names_that_end_keep_the_clusters(caplog: pytest.LogCaptureFixture) -> None:
    with APIServer() as hub, APIServer() as server:
        server.create(content("x"))
        hub.create(tenant("t0", server.url))
        gateway = Gateway()
        async with gateway.running(hub) as fleet:
            await until(lambda: working(fleet) == ["tenants/t0"])
            assert gateway.tenants is not None
            await gateway.tenants.aclose()
            await until(lambda: fleet.status().failure)
            assert "does not follow the names of its clusters any more" in fleet.status().failure
            assert working(fleet) == ["tenants/t0"]
            server.update(content("y"))
            await until(lambda: ("tenants/t0:default/a", "y") in gateway.seen)
