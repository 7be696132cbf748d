"""cloudcoil's cache with its informer: pydantic models, and handlers called with old and new.

Cache: the informer's store.
Does: list, watch with bookmarks, call asynchronous handlers as tasks that the stream waits for,
connect again with a growing delay, give old and new objects to a handler of updates.
Does not: read more than the first page of a list, which is 500 objects, hold more than 10,000, call
handlers for the initial state, compare versions, say what was deleted during a 410. Models are
shared by cache and handlers; fields they do not know are dropped.
Of a larger collection it therefore holds 500 objects and gets the others with their first update: a
run without updates fails with this reason, one with updates continues, with the sync of 500.
"""

from __future__ import annotations

from cloudcoil.client import Config  # before its cache: the other order is a circular import

# isort: split
from cloudcoil.caching import Cache
from cloudcoil.models.kubernetes.coordination.v1 import Lease
from cloudcoil.models.kubernetes.core.v1 import ConfigMap, Pod

from benchmarks.harness.phases import Phases
from benchmarks.peers.kubeconfig import kubeconfig
from benchmarks.peers.reactions import SNAKE_CASE, ForeignObject, Handler, Reactions, choose

_MODELS = {"pods": Pod, "configmaps": ConfigMap, "leases": Lease}
_SYNC_SECONDS = 600.0
_NO_RESYNC_SECONDS = 86_400.0


async def run(phases: Phases) -> None:
    """Enter the cache, which syncs, then follow the updates.

    Cancellation:
        Stops the informer.
    """
    reactions = Reactions(phases, SNAKE_CASE)
    model = choose(_MODELS, phases.workload.resource)
    cache = Cache(resources=[model], sync_timeout=_SYNC_SECONDS, resync_period=_NO_RESYNC_SECONDS)
    with kubeconfig(phases.workload) as path:
        config = Config(kubeconfig=path, cache=cache)
    phases.begin()
    async with config:
        informer = config.cache.get_informer(model, sync=False)
        held = len(informer.list())
        if held < phases.workload.objects and not phases.workload.updates:
            raise RuntimeError(f"synced with {held} objects: it reads the first page of a list")
        phases.synced(held)
        for handler in reactions.handlers:
            informer.on_update(_asynchronous(handler))
        await reactions.follow_updates()


def _asynchronous(handler: Handler) -> ForeignObject:
    async def react(_: ForeignObject, new: ForeignObject) -> None:
        handler(new)

    return react
