"""The Events of an operator: recorded in reconciles, written by its run, none lost at its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio
import pytest

import pyinformer
from pyinformer import Cluster, KubeObject, LeaderElection, Operator, Request
from pyinformer.blocking import BlockingCluster
from pyinformer.errors import LifecycleError
from pyinformer.testing import APIServer
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

_EVENTS = ("events.k8s.io/v1", "events")


@pytest.fixture
def api() -> Iterator[APIServer]:
    """A server with one ConfigMap."""
    with APIServer() as server:
        metadata = {"namespace": "default", "name": "a"}
        server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        yield server


def recorded(api: APIServer) -> list[tuple[str, str, str]]:
    """Return reporter, object and reason of each Event about a ConfigMap."""
    return [
        (one["reportingController"], one["regarding"]["name"], one["reason"])
        for one in api.list(*_EVENTS)
        if one["regarding"]["kind"] == "ConfigMap"
    ]


def seeing(election: LeaderElection | None) -> tuple[Operator, asyncio.Event]:
    """Return an operator that records one Event, and what is set then."""
    app = Operator("test", leader_election=election)
    called = asyncio.Event()

    @app.reconcile("v1", "configmaps")
    async def reconcile(request: Request, found: KubeObject | None, cluster: Cluster) -> None:
        if found is not None and not called.is_set():
            app.event_recorder(cluster).event(found, "Seen")
            called.set()

    return app, called


@pytest.mark.covers(
    "controller-runtime pkg/internal/recorder: should return a deprecated recorder instance."
)
@pytest.mark.parametrize("election", [None, LeaderElection(namespace="default")])
async def test_an_event_of_a_reconcile_is_written_before_the_run_has_ended(
    api: APIServer, election: LeaderElection | None
) -> None:
    app, called = seeing(election)
    async with pyinformer.connect(server=api.url) as cluster:
        async with app.running(cluster):
            await called.wait()
        assert recorded(api) == [("test", "a", "Seen")]


@pytest.mark.parametrize("election", [None, LeaderElection(namespace="default")])
async def test_an_event_is_written_though_a_scope_of_anyio_cancels_the_run(
    api: APIServer, election: LeaderElection | None
) -> None:
    app, called = seeing(election)
    async with pyinformer.connect(server=api.url) as cluster:
        async with anyio.create_task_group() as group:
            group.start_soon(app.run_async, cluster)
            await called.wait()
            group.cancel_scope.cancel()
        assert recorded(api) == [("test", "a", "Seen")]


@pytest.mark.covers(
    "controller-runtime pkg/internal/recorder: should return a deprecated recorder instance."
)
@pytest.mark.parametrize("of_cluster", [None, "shop"])
async def test_the_fields_of_an_event_belong_to_the_operator_or_the_clusters_name(
    api: APIServer, of_cluster: str | None
) -> None:
    """Also if the caller started the operator, on a cluster of its own."""
    app = Operator("test")
    called = asyncio.Event()

    @app.reconcile("v1", "configmaps")
    async def reconcile(request: Request, found: KubeObject | None, cluster: Cluster) -> None:
        if found is not None and not called.is_set():
            app.event_recorder(cluster).event(found, "Seen")
            app.event_recorder(cluster).event(found, "Seen")
            called.set()

    where = pyinformer.connect(server=api.url, field_manager=of_cluster)
    async with where as cluster, app.running(cluster):
        await called.wait()
    (event,) = api.list(*_EVENTS)
    managers = {entry["manager"] for entry in event["metadata"]["managedFields"]}
    assert managers == {of_cluster or "test"}


async def test_a_plain_reconcile_records_events_under_a_name_that_events_allow(
    api: APIServer,
) -> None:
    app = Operator("my operator (2)")

    @app.reconcile("v1", "configmaps")
    def reconcile(request: Request, found: KubeObject | None, cluster: BlockingCluster) -> None:
        if found is not None:
            app.event_recorder(cluster).event(found, "Seen")

    async with pyinformer.connect(server=api.url) as cluster:
        running = asyncio.create_task(app.run_async(cluster))
        await until(lambda: recorded(api) == [("my-operator--2", "a", "Seen")])
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()


async def test_events_are_refused_while_the_operator_does_not_run(api: APIServer) -> None:
    app = Operator("test")

    @app.reconcile("v1", "configmaps")
    async def reconcile(request: Request, found: object, cluster: Cluster) -> None: ...

    with pytest.raises(LifecycleError, match="test does not run"):
        app.event_recorder()
    async with pyinformer.connect(server=api.url) as cluster:
        async with app.running(cluster):
            recorder = app.event_recorder()
        with pytest.raises(LifecycleError):
            app.event_recorder()
    recorder.event({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, "Late")
    assert recorder.statistics().after_close == 1
