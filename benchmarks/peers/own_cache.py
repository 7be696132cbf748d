"""A synced informer of pyinformer, as a workload describes it.

Modules that load late are loaded before the clock starts, by following a collection without
objects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyinformer
from benchmarks.harness.phases import Phases, Workload
from benchmarks.peers.own_handlers import Follower, make_follower
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.client.transport import NoCredentials, StaticCredentials
from pyinformer.telemetry import NO_METRICS, Metrics

_TIMEOUT_SECONDS = 600.0
_WARM_UP = "endpoints"

Memory: TypeAlias = Literal["raw", "strip_managed_fields", "compact", "metadata"]


class PodSpec(pyinformer.View):
    """What the node index reads."""

    node_name: str = ""


class PodStatus(pyinformer.View):
    """What the handlers read."""

    phase: str = ""


class StatusView(pyinformer.View):
    """The projection of a handler that reads one field."""

    status: PodStatus = PodStatus()


class PodView(pyinformer.View):
    """The same for an index as well."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


@dataclass(frozen=True, slots=True)
class Synced:
    """A synced informer and its handlers, for the rest of a measurement."""

    informer: pyinformer.SharedInformer[Any]
    followers: list[Follower]


@asynccontextmanager
async def synced(
    phases: Phases, memory: Memory, metrics: Metrics = NO_METRICS
) -> AsyncIterator[Synced]:
    """Start the informer of the workload and wait until its first handler has had everything.

    Cancellation:
        Safe; the informer is stopped.
    """
    workload = phases.workload
    options = ReflectorOptions(use_watch_list=workload.load != "list")
    async with connected(workload) as cluster:
        await warm_up(cluster)
        async with pyinformer.SharedInformerFactory(
            cluster, options=options, metrics=metrics
        ) as factory:
            informer = _informer(factory, workload, memory)
            followers = [make_follower(workload) for _ in range(workload.handlers)]
            for follower in followers:
                informer.add_event_handler(follower)
            phases.begin()
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=_TIMEOUT_SECONDS)
            for follower in followers:
                await follower.has_initial_state.wait()
            phases.synced(informer.status().objects)  # not keys(): a million take their time
            yield Synced(informer, followers)


def connected(workload: Workload) -> AbstractAsyncContextManager[pyinformer.Cluster]:
    """Connect to the workload's server."""
    token = workload.token
    return pyinformer.connect(
        config=pyinformer.client.ClusterConfig(
            server=workload.url,
            ca_file=workload.ca_file or None,
            credentials=StaticCredentials.bearer(token) if token else NoCredentials(),
        )
    )


async def warm_up(cluster: pyinformer.Cluster) -> None:
    """Follow a collection without objects once, so that what loads late is not weighed as cache.

    Cancellation:
        Safe; the informer is stopped.
    """
    async with pyinformer.SharedInformerFactory(cluster) as factory:
        factory.informer("v1", _WARM_UP)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=_TIMEOUT_SECONDS)


def _informer(
    factory: pyinformer.SharedInformerFactory, workload: Workload, memory: Memory
) -> pyinformer.SharedInformer[Any]:
    """Make the informer: every cache has the index by namespace; the second is by node."""
    what = workload.api_version, workload.resource
    if memory == "metadata":
        return factory.informer(*what, memory=memory)
    if workload.indexes > 1:
        with_index = factory.informer(*what, model=PodView, memory=memory)
        with_index.add_index("node", "spec.nodeName")
        return with_index
    if workload.handler == "metadata":
        return factory.informer(*what, model=StatusView, memory=memory)
    return factory.informer(*what, memory=memory)
