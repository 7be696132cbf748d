"""The official client's SharedInformer, as its documentation uses it.

Cache: its cache, "namespace/name" -> typed model.
Does: list (whole, not paged), watch, call handlers one after the other on its own thread, list
again after a 410 and say what was deleted meanwhile.
Does not: read custom resources, index, compare versions, wait before it connects again, notice a
silent stream, report when it has synced (the last handler call of the initial state does here). The
models are shared by cache and handlers, and can be changed by either. Beside it stands an event
loop with nothing to do, whose longest block is that of a program that shares the process.
"""

from __future__ import annotations

from kubernetes import client
from kubernetes.informer import ADDED, MODIFIED, SharedInformer

from benchmarks.harness.phases import Phases, Workload
from benchmarks.peers.reactions import SNAKE_CASE, ForeignObject, Reactions, choose


async def run(phases: Phases) -> None:
    """Fill the cache, then follow the updates.

    Cancellation:
        The thread continues until the process ends.
    """
    reactions = Reactions(phases, SNAKE_CASE, on_thread=True)
    informer = SharedInformer(list_func=_listing(phases.workload))
    informer.add_event_handler(ADDED, reactions.added)
    for handler in reactions.handlers:
        informer.add_event_handler(MODIFIED, handler)
    phases.begin()
    informer.start()  # never stopped: its thread is a daemon, and stop() may never return
    await reactions.wait_for_initial_state()
    phases.synced(len(informer.cache.list_keys()))
    await reactions.follow_updates()


def _listing(workload: Workload) -> ForeignObject:
    """Return the call that lists and watches the workload's resource in all namespaces."""
    configuration = client.Configuration(host=workload.url)
    configuration.ssl_ca_cert = workload.ca_file or None
    if workload.token:
        configuration.api_key = {"authorization": f"Bearer {workload.token}"}
    api_client = client.ApiClient(configuration)
    core = client.CoreV1Api(api_client)
    calls = {
        "pods": core.list_pod_for_all_namespaces,
        "configmaps": core.list_config_map_for_all_namespaces,
        "leases": client.CoordinationV1Api(api_client).list_lease_for_all_namespaces,
    }
    return choose(calls, workload.resource)
