"""One line, connect(metrics=), is enough for the figures of all that is made of a cluster."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import pyinformer
from pyinformer import ClusterPool, Operator, SharedInformer, SharedInformerFactory
from pyinformer.errors import ClusterUnavailableError
from pyinformer.leaderelection import LeaderElector
from pyinformer.telemetry.metrics import MetricsRegistry
from pyinformer.testing import Fault
from tests.cache.informer.clusters import HURRIED
from tests.telemetry.metrics.reading import totals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pyinformer import Cluster, KubeObject
    from pyinformer.controller.sources import Request
    from pyinformer.telemetry.metrics import Metrics
    from pyinformer.testing import APIServer

REQUESTS = "rest_client_requests_total"


def config_map(name: str) -> dict[str, Any]:
    """Return a config map."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def parts_of(registry: MetricsRegistry) -> set[str]:
    """Return which parts of the library have figures, by the first words of their names."""
    names = [family.spec.name for family in registry.collect()]
    parts = ("rest_client", "informer", "leader_election", "workqueue", "controller_runtime")
    return {part for part in parts if any(name.startswith(f"{part}_") for name in names)}


@asynccontextmanager
async def informer(cluster: Cluster, metrics: Metrics | None = None) -> AsyncIterator[object]:
    """Run an informer."""
    async with SharedInformer(cluster, "v1", "configmaps", metrics=metrics) as one:
        await one.wait_for_cache_sync()
        yield one


@asynccontextmanager
async def factory(cluster: Cluster, metrics: Metrics | None = None) -> AsyncIterator[object]:
    """Run a factory with an informer."""
    async with SharedInformerFactory(cluster, metrics=metrics) as made:
        made.informer("v1", "configmaps")
        await made.start()
        await made.wait_for_cache_sync()
        yield made


@asynccontextmanager
async def operator(cluster: Cluster, metrics: Metrics | None = None) -> AsyncIterator[object]:
    """Run an operator with a reconcile."""
    app = Operator("app", metrics=metrics)
    seen = asyncio.Event()

    @app.reconcile("v1", "configmaps")
    async def reconcile(request: Request, obj: KubeObject | None, cluster: Cluster) -> None:
        seen.set()

    async with app.running(cluster) as run:
        await seen.wait()
        yield run


@asynccontextmanager
async def elector(cluster: Cluster, metrics: Metrics | None = None) -> AsyncIterator[object]:
    """Run an elector until it leads."""
    leads = asyncio.Event()

    async def lead(term: object) -> None:
        leads.set()
        await asyncio.Event().wait()

    one = LeaderElector(cluster, "lease", namespace="default", metrics=metrics)
    task = asyncio.create_task(one.run(lead))
    await leads.wait()
    try:
        yield one
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.parametrize(
    ("run", "part"),
    [
        pytest.param(informer, "informer", id="informer"),
        pytest.param(factory, "informer", id="factory"),
        pytest.param(operator, "controller_runtime", id="operator"),
        pytest.param(elector, "leader_election", id="elector"),
    ],
)
async def test_what_is_made_of_a_cluster_uses_its_metrics_unless_it_is_given_others(
    apiserver: APIServer, run: Any, part: str
) -> None:
    apiserver.create(config_map("a"))
    clusters, others = MetricsRegistry(), MetricsRegistry()
    async with pyinformer.connect(server=apiserver.url, metrics=clusters) as cluster:
        async with run(cluster):
            assert {"rest_client", part} <= parts_of(clusters)
        clusters_parts = parts_of(clusters)
        async with run(cluster, others):
            assert part in parts_of(others)
            assert "rest_client" not in parts_of(others)
            assert parts_of(clusters) <= clusters_parts


async def test_each_list_and_watch_of_an_informer_is_counted_with_its_faults(
    apiserver: APIServer,
) -> None:
    registry = MetricsRegistry()

    def found() -> dict[tuple[str, ...], float]:
        return totals(registry, REQUESTS, "code", "method")

    for fault in (
        Fault(resource="configmaps", status=500, times=2),
        Fault(resource="configmaps", refuse=True, times=2),  # aiohttp sends a GET once more
        Fault(resource="configmaps", status=429, retry_after_seconds=0),
    ):
        apiserver.faults.add(fault)
    async with (
        pyinformer.connect(server=apiserver.url, metrics=registry) as cluster,
        SharedInformer(cluster, "v1", "configmaps", options=HURRIED) as one,
    ):
        await one.wait_for_cache_sync()
        assert found()["500", "GET"] == 2
        assert found()["429", "GET"] == 1
        assert found()["<error>", "GET"] >= 1
        assert found()["200", "GET"] >= 1


async def test_the_series_of_an_evicted_cluster_vanish(apiserver: APIServer) -> None:
    registry = MetricsRegistry()

    def connect(name: str) -> Any:
        return pyinformer.connect(server=apiserver.url, name=name, metrics=registry)

    async with ClusterPool(informer, connect=connect) as pool:
        await pool.get("a")
        await pool.get("b")
        name = "rest_client_connections_open"
        assert totals(registry, name, "name").keys() == {("a",), ("b",)}
        await pool.evict("a")
        assert totals(registry, name, "name").keys() == {("b",)}
        await pool.evict("b")
        assert "rest_client" not in parts_of(registry)


async def test_a_pool_shows_the_states_of_its_clusters_and_counts_their_requests(
    apiserver: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = MetricsRegistry()
    content = {
        "clusters": [{"name": "c", "cluster": {"server": apiserver.url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "eu", "context": {"cluster": "c", "user": "u"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(content))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

    def states() -> dict[str, float]:
        found = totals(registry, "cluster_pool_clusters")
        return {state: count for (state,), count in found.items() if count}

    async with ClusterPool(informer, metrics=registry) as pool:
        assert totals(registry, "cluster_pool_clusters")["open",] == 0
        await pool.get("eu")
        with pytest.raises(ClusterUnavailableError):
            await pool.get("unknown", timeout_seconds=100.0)
        assert states() == {"open": 1, "failed": 1}
        assert totals(registry, "cluster_pool_waiters") == {(): 0}
        assert totals(registry, "rest_client_connections_open", "name").keys() == {("eu",)}
    assert "rest_client" not in parts_of(registry)
    assert states() == {}


def test_threads_connect_with_metrics_too(apiserver: APIServer) -> None:
    registry = MetricsRegistry()
    with (
        pyinformer.run_in_thread() as runner,
        runner.connect(server=apiserver.url, metrics=registry) as cluster,
    ):
        cluster.create(config_map("a"))
        assert totals(registry, REQUESTS, "code", "method")["201", "POST"] == 1


async def test_metrics_that_raise_harm_no_request(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    class Foreign:
        """A metrics system of a user."""

        def __getattr__(self, name: str) -> object:
            raise RuntimeError(name)

    metrics: Any = Foreign()
    async with pyinformer.connect(server=apiserver.url, metrics=metrics) as cluster:
        assert (await cluster.create(config_map("a"))).metadata.name == "a"
    assert "Foreign raised RuntimeError" in caplog.text
