"""An operator with stages, through what happens to a cluster: its end states are right.

The server is killed, the leader dies without a word, the definition is deleted and made again, a
child is deleted by hand, another one is refused by admission, and a stage never gets ready.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
import pytest

from pyinformer import APIStatusError, TransportError
from tests.children.desired import READY_STATUS
from tests.integration import shop_replica
from tests.integration.definitions import DEFINITIONS, is_created, is_gone, served
from tests.integration.objects import unique
from tests.integration.replica_processes import ReplicaProcesses
from tests.integration.servers import RealServer
from tests.integration.shop_replica import GROUP, LEASE, OWNED, body_of, operator_of
from tests.waiting import pause, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pyinformer import Cluster
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

_POLICIES = "admissionregistration.k8s.io/v1"
_REFUSED = "the tenant's quota of addresses is used up"
_EXPECTED = (
    "/refused failed: InvalidError",  # the child that admission refuses
    "failed: TransportError",  # a call while the server is down
)
_OUTAGE_SECONDS = 8.0  # longer than a term


class _Replicas(ReplicaProcesses):
    """The processes of the operator."""

    def __init__(self, place: _Place, folder: Path) -> None:
        super().__init__(shop_replica.__name__, folder)
        self._place = place

    def start(self, identity: str) -> None:
        """Start a replica."""
        server = self._place.server
        settings = {
            "url": server.api.url,
            "ca_file": str(server.api.ca_file),
            "token": server.token,
            "identity": identity,
            "namespace": self._place.namespace,
        }
        self.launch(identity, settings)

    async def leader(self) -> str:
        """Wait until a replica that runs holds the Lease; return it."""
        found = ""

        def is_held() -> bool:
            nonlocal found
            with suppress(APIStatusError, TransportError):
                lease = self._place.server.api.get(
                    "coordination.k8s.io/v1", "leases", LEASE, self._place.namespace
                )
                found = str(lease["spec"].get("holderIdentity") or "")
            return found in self.processes

        await until(is_held, timeout_seconds=100)
        return found

    def dead(self) -> list[str]:
        """Return the replicas that have ended by themselves."""
        return [name for name, one in self.processes.items() if one.poll() is not None]

    def errors(self) -> list[str]:
        """Return what they have logged as errors, without what was expected."""
        lines = [
            line
            for log in sorted(self.folder.glob("*.log"))
            for line in log.read_text(encoding="utf-8").splitlines()
            if line.startswith(("ERROR", "CRITICAL", "Traceback"))
        ]
        return [line for line in lines if not any(words in line for words in _EXPECTED)]


def _shop(name: str, namespace: str, **spec: str) -> JSONObject:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Shop", "metadata": metadata, "spec": spec}


class _Place:
    """A namespace of a server, and what a cluster does for the objects in it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.namespace = server.namespace()
        self.stuck = "stuck"

    def condition(self, name: str) -> tuple[str, str, str]:
        """Return the Ready condition of a shop: status, reason and message."""
        shop = self.server.api.get(f"{GROUP}/v1", "shops", name, self.namespace)
        for one in shop.get("status", {}).get("conditions", []):
            if one["type"] == "Ready":
                return one["status"], one["reason"], one["message"]
        return "", "", ""

    def image(self, name: str) -> str:
        """Return the image of a shop's StatefulSet."""
        found = self.server.api.get("apps/v1", "statefulsets", name, self.namespace)
        return str(found["spec"]["template"]["spec"]["containers"][0]["image"])

    def has(self, plural: str, name: str) -> bool:
        """Return whether an object exists."""
        return not is_gone(self.server, "v1", plural, name, self.namespace)

    def change(self, name: str, image: str) -> None:
        """Have a user write another image."""
        patch = {"spec": {"image": image}}
        self.server.api.patch(f"{GROUP}/v1", "shops", name, patch, self.namespace)

    def refuse_addresses(self) -> None:
        """Have the server refuse ConfigMaps without an address."""
        name = unique("addresses")
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps"],
            "operations": ["CREATE", "UPDATE"],
        }
        validation = {
            "expression": "!has(object.data) || !('address' in object.data) ||"
            " object.data['address'] == 'yes'",
            "message": _REFUSED,
        }
        chosen = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
        binding = {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": chosen},
        }
        for kind, spec in (("", policy), ("Binding", binding)):
            self.server.api.create(
                {
                    "apiVersion": _POLICIES,
                    "kind": f"ValidatingAdmissionPolicy{kind}",
                    "metadata": {"name": name},
                    "spec": spec,
                }
            )

    async def until_it_refuses(self, cluster: Cluster) -> None:
        """Wait until the policy is in force: a moment later on a real server."""
        probe = body_of("ConfigMap", "probe", data={"address": "no"})
        probe["metadata"]["namespace"] = self.namespace
        with anyio.fail_after(100):
            while True:
                try:
                    await cluster.create(probe, dry_run=True)
                except APIStatusError:
                    return
                await pause(0.2)

    async def run_workloads(self) -> None:
        """Do what a cluster does: StatefulSets get ready, but for one, and garbage is collected."""
        while True:
            with suppress(APIStatusError, TransportError):  # the server is killed meanwhile
                await asyncio.to_thread(self._make_ready)
                await asyncio.to_thread(self._collect)
            await pause(0.2)

    def _collect(self) -> None:
        for api_version, plural in OWNED:
            for one in self.server.api.list(api_version, plural, self.namespace):
                meta = one["metadata"]
                if meta.get("deletionTimestamp") and meta.get("finalizers"):
                    patch = {"metadata": {"finalizers": None}}
                    self.server.api.patch(api_version, plural, meta["name"], patch, self.namespace)

    def _make_ready(self) -> None:
        for one in self.server.api.list("apps/v1", "statefulsets", self.namespace):
            name, generation = one["metadata"]["name"], one["metadata"]["generation"]
            status = {**READY_STATUS, "observedGeneration": generation}
            if name != self.stuck and one.get("status", {}).get("observedGeneration") != generation:
                patch = {"status": status}
                self.server.api.patch("apps/v1", "statefulsets", name, patch, self.namespace)


@asynccontextmanager
async def _workloads(place: _Place) -> AsyncIterator[None]:
    task = asyncio.get_running_loop().create_task(place.run_workloads())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _until_image(place: _Place, image: str) -> None:
    def has_it() -> bool:
        with suppress(APIStatusError, TransportError):
            return place.image("good") == image and place.condition("good")[0] == "True"
        return False

    await until(has_it, timeout_seconds=100)


async def _outage(server: Server) -> None:
    """Kill the server for some seconds; the one of this process only forgets and cuts."""
    if isinstance(server, RealServer):
        await asyncio.to_thread(server.api.kill)
        await pause(_OUTAGE_SECONDS)
    await asyncio.to_thread(server.restart)


@pytest.mark.timeout(400)
async def test_the_end_states_of_an_operator_with_stages_are_right(
    server: Server, tmp_path: Path
) -> None:
    place = _Place(server)
    (definition,) = operator_of("none", place.namespace).custom_resource_definitions()
    await asyncio.to_thread(place.refuse_addresses)
    async with (
        served(server, definition),
        server.connect() as cluster,
        _workloads(place),
    ):
        await place.until_it_refuses(cluster)
        with _Replicas(place, tmp_path) as replicas:
            replicas.start("one")
            replicas.start("two")
            await _scenes(place, replicas, definition)
            assert replicas.dead() == []
        assert replicas.errors() == []


async def _scenes(place: _Place, replicas: _Replicas, definition: JSONObject) -> None:
    server, namespace = place.server, place.namespace
    shops = (_shop("good", namespace), _shop("stuck", namespace))
    for shop in (*shops, _shop("refused", namespace, address="no")):
        await until(lambda shop=shop: is_created(server, shop), timeout_seconds=100)  # type: ignore[misc]
    await until(lambda: place.condition("good")[0] == "True", timeout_seconds=100)
    await until(lambda: place.condition("stuck")[1] == "WaitingForChildren")
    assert "StatefulSet" in place.condition("stuck")[2]
    await until(lambda: place.condition("refused")[1] == "ChildRefused", timeout_seconds=100)
    assert _REFUSED in place.condition("refused")[2]
    assert not place.has("configmaps", "stuck-url")

    await asyncio.to_thread(server.api.delete, "v1", "secrets", "good-net", namespace)
    await until(lambda: place.has("secrets", "good-net"), timeout_seconds=100)

    await _outage(server)
    await asyncio.to_thread(place.change, "good", "example.com/shop:2")
    await _until_image(place, "example.com/shop:2")

    leader = await replicas.leader()
    replicas.kill(leader)
    await asyncio.to_thread(place.change, "good", "example.com/shop:3")
    await _until_image(place, "example.com/shop:3")
    assert await replicas.leader() != leader

    name = definition["metadata"]["name"]
    await asyncio.to_thread(server.api.delete, *DEFINITIONS, name)
    await until(lambda: is_gone(server, *DEFINITIONS, name), timeout_seconds=100)
    await until(lambda: is_created(server, definition), timeout_seconds=100)
    again = _shop("good", namespace, image="example.com/shop:4")
    await until(lambda: is_created(server, again), timeout_seconds=100)
    await _until_image(place, "example.com/shop:4")
    uid = server.api.get(f"{GROUP}/v1", "shops", "good", namespace)["metadata"]["uid"]
    child = server.api.get("v1", "configmaps", "good-url", namespace)
    assert [one["uid"] for one in child["metadata"]["ownerReferences"]] == [uid]

    shops_now = (f"{GROUP}/v1", "shops", "good", namespace)
    await asyncio.to_thread(server.api.delete, *shops_now)
    await until(lambda: is_gone(server, *shops_now), timeout_seconds=100)
    assert not place.has("secrets", "good-net")
