"""pyinformer as its users write it: a view, two indexes, one handler that reads metadata.

Enters: the pods of the server. Leaves: a synced informer that followed all updates, and, for
`run_reads` and `run_audit`, the cost of reads from its cache and of audits.
Invariant: the public call site only; what is timed ends when the handler, not just the store,
has seen the last update.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

import pyinformer
from benchmarks.harness.phases import Phases
from benchmarks.peers.own_audits import time_audits
from benchmarks.peers.own_reads import time_reads
from benchmarks.peers.own_sharing import time_sharing

_TIMEOUT_SECONDS = 600.0

MemoryMode = Literal["raw", "strip_managed_fields"]


class PodSpec(pyinformer.View):
    """What the node index reads."""

    node_name: str = ""


class PodStatus(pyinformer.View):
    """A second field of the view; no index reads it."""

    phase: str = ""


class PodView(pyinformer.View):
    """The projection of the benchmark."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


PodObject: TypeAlias = pyinformer.KubeObject[PodView]
PodEvent: TypeAlias = (
    pyinformer.Added[PodView] | pyinformer.Updated[PodView] | pyinformer.Deleted[PodView]
)


async def run(phases: Phases) -> None:
    """Measure the default: managedFields stripped, the handler reads metadata."""
    await _measure(phases, memory="strip_managed_fields", read=_read_metadata)


async def run_raw(phases: Phases) -> None:
    """Measure with whole bodies kept."""
    await _measure(phases, memory="raw", read=_read_metadata)


async def run_private_dict(phases: Phases) -> None:
    """Measure with a handler that takes every object as a dict of its own."""
    await _measure(phases, memory="strip_managed_fields", read=_read_dict)


async def run_reads(phases: Phases) -> None:
    """Measure reads of cached, stripped objects."""
    async with _synced(phases, memory="strip_managed_fields", read=_read_metadata) as (pods, _):
        phases.result.extra = time_reads(pods.lister.list())
    phases.result.extra |= await time_sharing(phases.workload.url)


async def run_audit(phases: Phases) -> None:
    """Measure audits of the cache."""
    async with _synced(phases, memory="strip_managed_fields", read=_read_metadata) as (pods, _):
        phases.result.extra = await time_audits(pods)


def _read_metadata(pod: PodObject) -> object:
    return pod.metadata.name


def _read_dict(pod: PodObject) -> object:
    return pod.to_dict()


class _Handler:
    """Count what arrives; notice the end of the initial state and the last update."""

    def __init__(self, phases: Phases, read: Callable[[PodObject], object]) -> None:
        self.updates = 0
        self.has_initial_state = asyncio.Event()
        self.has_last_update = asyncio.Event()
        self._missing = phases.workload.objects
        self._last = phases.workload.last_resource_version
        self._read = read

    def __call__(self, event: PodEvent) -> None:
        if isinstance(event, pyinformer.Updated):
            self.updates += 1
            self._read(event.new)
            if event.new.metadata.resource_version == self._last:
                self.has_last_update.set()
        else:
            self._missing -= 1
            if not self._missing:
                self.has_initial_state.set()


@asynccontextmanager
async def _synced(
    phases: Phases, *, memory: MemoryMode, read: Callable[[PodObject], object]
) -> AsyncIterator[tuple[pyinformer.SharedInformer[PodView], _Handler]]:
    async with pyinformer.connect(server=phases.workload.url) as cluster:
        await _warm_up(cluster)
        async with pyinformer.SharedInformerFactory(cluster) as factory:
            pods = factory.informer("v1", "pods", projection=PodView, memory=memory)
            pods.add_index("node", "spec.nodeName")
            # The second of two: every cache is indexed by namespace.
            handler = _Handler(phases, read)
            pods.add_event_handler(handler)
            phases.begin()
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=_TIMEOUT_SECONDS)
            await handler.has_initial_state.wait()
            phases.synced(len(pods.lister.list()))
            yield pods, handler


async def _warm_up(cluster: pyinformer.Cluster) -> None:
    """Follow an empty collection once, so that what loads lazily is not weighed as cache."""
    async with pyinformer.SharedInformerFactory(cluster) as factory:
        factory.informer("v1", "configmaps")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=_TIMEOUT_SECONDS)


async def _measure(
    phases: Phases, *, memory: MemoryMode, read: Callable[[PodObject], object]
) -> None:
    async with _synced(phases, memory=memory, read=read) as (_, handler):
        if phases.workload.updates:
            await phases.release_updates()
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                await handler.has_last_update.wait()
            phases.updated(seen=handler.updates)
