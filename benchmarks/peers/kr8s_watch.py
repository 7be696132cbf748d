"""kr8s' asynchronous API: get, then watch, into a dict of its objects.

Cache: a dict "namespace/name" -> its object, a dict with attributes that is made whole at once.
Does: list in pages of 100, watch, call the handlers from the loop that reads the watch.
Does not: return the version of a list (the watch begins at the highest version of an object
here, which is as near as one gets), index, compare versions, connect again after the stream's end,
recover from a 410, notice a silent stream. Objects are shared by cache and handlers.
"""

from __future__ import annotations

import kr8s.asyncio

from benchmarks.harness.phases import Phases
from benchmarks.peers.kubeconfig import kubeconfig
from benchmarks.peers.reactions import CAMEL_CASE, Reactions, follow, running


async def run(phases: Phases) -> None:
    """Fill the dict from pages, then follow the watch.

    Cancellation:
        Closes the connection.
    """
    reactions = Reactions(phases, CAMEL_CASE)
    resource = phases.workload.resource
    with kubeconfig(phases.workload) as path:
        phases.begin()
        api = await kr8s.asyncio.api(kubeconfig=str(path))  # asks for the server's version
    store = {CAMEL_CASE.key(item): item async for item in api.get(resource, namespace=kr8s.ALL)}
    phases.synced(len(store))
    newest = max(int(CAMEL_CASE.version(item)) for item in store.values())
    stream = api.watch(resource, namespace=kr8s.ALL, since=str(newest))
    async with running(follow(stream, store, reactions)):
        await reactions.follow_updates()
