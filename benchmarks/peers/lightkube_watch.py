"""lightkube's asynchronous client: list, then watch, into a dict of typed models.

Cache: a dict "namespace/name" -> msgspec struct.
Does: list (whole, not paged), watch, call the handlers from the loop that reads the watch.
Does not: index, compare versions, survive a failed connection or a 410 unless the caller does,
notice a silent stream. The structs are shared by cache and handlers, and can be changed by either;
fields the models do not know are dropped.
"""

from __future__ import annotations

from lightkube import AsyncClient, KubeConfig
from lightkube.resources.coordination_v1 import Lease
from lightkube.resources.core_v1 import ConfigMap, Pod

from benchmarks.harness.phases import Phases
from benchmarks.peers.kubeconfig import kubeconfig
from benchmarks.peers.reactions import CAMEL_CASE, Reactions, choose, follow, running

_MODELS = {"pods": Pod, "configmaps": ConfigMap, "leases": Lease}
_ALL_NAMESPACES = "*"


async def run(phases: Phases) -> None:
    """Fill the dict from a list, then follow the watch from its resource version.

    Cancellation:
        Closes the connection.
    """
    reactions = Reactions(phases, CAMEL_CASE)
    model = choose(_MODELS, phases.workload.resource)
    with kubeconfig(phases.workload) as path:
        client = AsyncClient(config=KubeConfig.from_file(path))
    phases.begin()
    listed = client.list(model, namespace=_ALL_NAMESPACES)
    store = {CAMEL_CASE.key(item): item async for item in listed}
    phases.synced(len(store))
    stream = client.watch(model, namespace=_ALL_NAMESPACES, resource_version=listed.resourceVersion)
    async with running(follow(stream, store, reactions)):
        await reactions.follow_updates()
    await client.close()
