"""What public reports describe of operators, on both servers; docs/reference/field-reports.md."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import Cluster, KubeObject, NotFoundError, Request
from pyinformer.errors import InvalidArgumentError, ServerError, TooManyRequestsError
from tests.integration.objects import CONFIG_MAPS
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pyinformer.leaderelection import Term
    from tests.integration.servers import Server

FINALIZER = "suite.example.com/field"
FOREIGN = "other.example.com/hold"
LEASES = "coordination.k8s.io/v1"


def finalizers(server: Server, namespace: str) -> list[str] | None:
    """Return the finalizers of the object; None if it is gone."""
    try:
        found: Any = server.api.get("v1", "configmaps", "a", namespace)
    except NotFoundError:
        return None
    return list(found["metadata"].get("finalizers", []))


def entries(folder: Path) -> list[str]:
    """Return the names in a folder."""
    return [found.name for found in folder.iterdir()]


def hold(server: Server, namespace: str, *names: str) -> None:
    """Set the finalizers of the object, whatever they are."""
    server.api.patch("v1", "configmaps", "a", {"metadata": {"finalizers": [*names]}}, namespace)


@contextlib.asynccontextmanager
async def cleaning(server: Server, namespace: str) -> AsyncIterator[list[str]]:
    """Run a controller that holds each ConfigMap by a finalizer; yield the phases it has met."""
    phases: list[str] = []

    async def reconcile(request: Request, obj: KubeObject[Any] | None) -> None:
        if request.name != "a":
            return
        async with pyinformer.controller.finalizer(cluster, obj, FINALIZER) as held:
            phases.append(held.phase)

    async with server.connect() as cluster:
        maps = pyinformer.SharedInformer(cluster, "v1", "configmaps", namespaces=namespace)
        async with pyinformer.Controller("maps", reconcile, maps):
            yield phases


async def test_an_object_that_loses_its_finalizer_by_hand_and_is_deleted_at_once_is_left(
    server: Server,
) -> None:
    namespace = server.namespace()
    async with cleaning(server, namespace) as phases:
        for _ in range(5):  # its key stays alive, however often
            server.api.create(CONFIG_MAPS.make("a", namespace))
            await until(lambda: finalizers(server, namespace) == [FINALIZER])
            hold(server, namespace)
            server.api.delete("v1", "configmaps", "a", namespace)
            while finalizers(server, namespace) is not None:  # the controller was faster
                with contextlib.suppress(NotFoundError):
                    hold(server, namespace)
            await until(lambda: phases[-1:] == ["gone"])


async def test_a_foreign_finalizer_is_left_alone_and_ours_does_not_come_back(
    server: Server,
) -> None:
    namespace = server.namespace()
    async with cleaning(server, namespace) as phases:
        server.api.create(CONFIG_MAPS.make("a", namespace))
        hold(server, namespace, FOREIGN)
        await until(lambda: finalizers(server, namespace) == [FOREIGN, FINALIZER])
        server.api.delete("v1", "configmaps", "a", namespace)
        await until(lambda: finalizers(server, namespace) == [FOREIGN])
        before = len(phases)
        server.api.patch("v1", "configmaps", "a", {"data": {"x": "1"}}, namespace)
        await until(lambda: len(phases) > before)
        assert finalizers(server, namespace) == [FOREIGN]
        assert set(phases[before:]) == {"gone"}
        hold(server, namespace)


async def test_an_object_that_is_gone_before_its_clean_up_ends_is_no_error(server: Server) -> None:
    namespace = server.namespace()
    server.api.create(CONFIG_MAPS.make("a", namespace))
    hold(server, namespace, FINALIZER)
    server.api.delete("v1", "configmaps", "a", namespace)
    async with server.connect() as cluster:
        obj = await cluster.get("v1", "configmaps", f"{namespace}/a")
        async with pyinformer.controller.finalizer(cluster, obj, FINALIZER) as held:
            assert held.phase == "deleting"
            hold(server, namespace)  # as the end of a namespace, or an administrator
            assert finalizers(server, namespace) is None


async def test_an_eviction_against_a_budget_is_refused_at_once(server: Server) -> None:
    namespace = server.namespace()
    spec = {"containers": [{"name": "c", "image": "i"}]}
    labels = {"app": "a"}
    meta = {"name": "a", "namespace": namespace, "labels": labels}
    async with server.connect() as cluster:
        pod = await cluster.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        )
        ready = {"type": "Ready", "status": "True"}
        await cluster.status(pod, {"phase": "Running", "conditions": [ready]})
        budget = await cluster.create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "a", "namespace": namespace},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
            }
        )
        counts = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
        await cluster.status(budget, {"observedGeneration": 1, "expectedPods": 1, **counts})
        meta = {"name": "a", "namespace": namespace}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        with pytest.raises(TooManyRequestsError, match="disruption budget"):
            await cluster.create(eviction, subresource="eviction", of=pod)


def deployment(namespace: str, **more: Any) -> dict[str, Any]:
    """Return a Deployment whose quantities no server keeps as they are."""
    resources = {
        "requests": {"cpu": "1000m", "memory": "1024Mi"},
        "limits": {"cpu": "1.5", "memory": "1.5Gi"},
    }
    container = {"name": "c", "image": "i", "resources": resources}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    meta = {"name": "a", "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec, **more}


async def test_quantities_that_the_server_writes_otherwise_are_applied_once(
    server: Server,
) -> None:
    desired = deployment(server.namespace())
    async with server.connect() as cluster:
        current = await cluster.apply_if_changed(desired, None, field_manager="a")
        for _ in range(3):
            current = await cluster.apply_if_changed(desired, current, field_manager="a")
        assert cluster.write_statistics().sent == 1


async def test_an_apply_with_a_status_that_would_be_dropped_is_refused(server: Server) -> None:
    desired = deployment(server.namespace(), status={"replicas": 3})
    async with server.connect() as cluster:
        with pytest.raises(InvalidArgumentError, match="must not have a status"):
            await cluster.apply(desired, field_manager="a")
        assert cluster.write_statistics().sent == 0


async def test_a_second_owner_owns_what_it_applies_and_no_default(server: Server) -> None:
    namespace = server.namespace()
    meta = {"name": "a", "namespace": namespace}
    service: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "metadata": meta}
    async with server.connect() as cluster:
        ports = [{"name": "http", "port": 80, "targetPort": 80}]
        await cluster.apply({**service, "spec": {"ports": ports}}, field_manager="one")
        await cluster.apply({**service, "spec": {"type": "NodePort"}}, field_manager="two")
    stored: Any = server.api.get("v1", "services", "a", namespace)
    owned = {entry["manager"]: entry["fieldsV1"] for entry in stored["metadata"]["managedFields"]}
    assert owned["two"] == {"f:spec": {"f:type": {}}}
    assert set(owned["one"]["f:spec"]) == {"f:ports"}


async def elected(cluster: Cluster, namespace: str, leads: asyncio.Event) -> None:
    """Compete for a Lease until cancelled."""

    async def lead(term: Term) -> None:
        leads.set()
        await asyncio.Event().wait()

    elector = pyinformer.LeaderElector(cluster, "a", namespace=namespace, identity="me")
    await elector.run(lead)


async def test_an_elector_whose_namespace_is_missing_names_it_and_leads_once_it_is_there(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    namespace = f"{server.namespace()}-late"
    leads = asyncio.Event()
    with caplog.at_level(logging.WARNING, "pyinformer.leaderelection"):
        async with server.connect() as cluster:
            running = asyncio.create_task(elected(cluster, namespace, leads))
            await until(lambda: f'namespaces "{namespace}" not found' in caplog.text)
            server.api.ensure_namespace(namespace)
            await asyncio.wait_for(leads.wait(), 100)
            running.cancel()
            await asyncio.wait({running})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"holderIdentity": "other", "leaseDurationSeconds": 1}, id="never-renewed"),
        pytest.param({"holderIdentity": "other", "renewTime": None}, id="nulls"),
        pytest.param({}, id="empty"),
    ],
)
async def test_a_lease_of_another_tool_is_led_after_a_whole_duration(
    server: Server, spec: dict[str, Any]
) -> None:
    namespace = server.namespace()
    lease = {"kind": "Lease", "metadata": {"name": "a", "namespace": namespace}}
    server.api.create({"apiVersion": LEASES, **lease, "spec": spec})
    leads = asyncio.Event()
    began = asyncio.get_running_loop().time()
    async with server.connect() as cluster:
        running = asyncio.create_task(elected(cluster, namespace, leads))
        await asyncio.wait_for(leads.wait(), 100)
        waited = asyncio.get_running_loop().time() - began
        running.cancel()
        await asyncio.wait({running})
    if spec.get("holderIdentity"):
        assert waited >= 1.0, "its holder may be alive"
    found: Any = server.api.get(LEASES, "leases", "a", namespace)
    assert found["spec"]["holderIdentity"] == ""


async def test_a_conflict_is_no_reason_to_forget_a_key(server: Server) -> None:
    """Transient failures of a key, as of a cache that lags, do not end its reconciles."""
    namespace = server.namespace()
    failed = 0
    seen: list[str] = []

    async def reconcile(request: Request, obj: KubeObject[Any] | None) -> None:
        nonlocal failed
        if obj is None or request.name != "a":
            return
        seen.append(obj.at("data.x", str, default=""))
        if failed < 5:
            failed += 1
            await cluster.replace({**obj.to_dict(), "metadata": stale(obj)})

    def stale(obj: KubeObject[Any]) -> dict[str, Any]:
        return {**obj.to_dict()["metadata"], "resourceVersion": "1"}

    async with server.connect() as cluster:
        server.api.create(CONFIG_MAPS.make("a", namespace))
        maps = pyinformer.SharedInformer(cluster, "v1", "configmaps", namespaces=namespace)
        async with pyinformer.Controller("maps", reconcile, maps):
            await until(lambda: failed == 5)
            server.api.patch("v1", "configmaps", "a", {"data": {"x": "1"}}, namespace)
            await until(lambda: seen[-1:] == ["1"])


async def test_discovery_keeps_no_file_that_two_processes_could_spoil(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server.connect() as cluster:
        for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR"):
            monkeypatch.setenv(name, str(tmp_path))
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        assert (await cluster.find_resource("deployments")).resource.group == "apps"
    assert entries(tmp_path) == []


async def test_duplicate_ports_are_refused_by_their_key_and_mended_by_an_apply(
    server: Server,
) -> None:
    desired = deployment(server.namespace())
    (container,) = desired["spec"]["template"]["spec"]["containers"]
    container["ports"] = [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "name": "b"}]
    async with server.connect() as cluster:
        with pytest.raises(ServerError, match=r'key \[containerPort=80,protocol="TCP"\]'):
            await cluster.apply(desired, field_manager="a")
        await cluster.create(desired)
        del container["ports"][1]
        applied = await cluster.apply(desired, field_manager="a", force=True)
    (found,) = applied.to_dict()["spec"]["template"]["spec"]["containers"]
    assert [port["name"] for port in found["ports"]] == ["a"]


async def test_a_field_of_an_earlier_field_manager_stays_until_that_one_drops_it(
    server: Server,
) -> None:
    """As docs/explanation/known-weaknesses.md says of an operator that is renamed."""
    meta = {"name": "a", "namespace": server.namespace()}
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    async with server.connect() as cluster:
        await cluster.apply({**body, "data": {"a": "1", "b": "1"}}, field_manager="earlier")
        found = await cluster.apply({**body, "data": {"a": "2"}}, field_manager="new", force=True)
        assert found.to_dict()["data"] == {"a": "2", "b": "1"}
        await cluster.apply(body, field_manager="earlier")
        found = await cluster.get("v1", "configmaps", f"{meta['namespace']}/a")
        assert found.to_dict()["data"] == {"a": "2"}
