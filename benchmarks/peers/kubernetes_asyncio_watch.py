"""kubernetes_asyncio as its users cache with it: list, then Watch.stream, into a dict.

Cache: a dict "namespace/name" -> the object, as the plain dict that its JSON says (`run`) or as a
typed model (`run_typed`).
Does: list (whole, not paged), watch, call the handlers from the loop that reads the watch.
Does not: index, compare versions, list again after a 410, notice a silent stream, keep handlers
apart. The objects are shared by cache and handlers, and can be changed by either.
Only public calls, but for the type of the result, which is emptied to get dicts.
"""

from __future__ import annotations

import functools
import json

from kubernetes_asyncio import client, watch

from benchmarks.harness.phases import Phases, Workload
from benchmarks.peers.reactions import (
    DICTS,
    SNAKE_CASE,
    ForeignObject,
    Reactions,
    Reading,
    choose,
    running,
)


async def run(phases: Phases) -> None:
    """Keep dicts.

    Cancellation:
        Closes the connection.
    """
    reactions = Reactions(phases, DICTS)
    async with _connected(phases.workload) as api_client:
        listing = _dict_listing(api_client, phases.workload)
        phases.begin()
        response = await listing(_preload_content=False)
        body = json.loads(await response.read())
        store = {DICTS.key(item): item for item in body["items"]}
        resource_version = body["metadata"]["resourceVersion"]
        del body, response
        phases.synced(len(store))
        stream = watch.Watch().stream(listing, resource_version=resource_version)
        stream.return_type = ""  # no model: the event's object stays the dict that was decoded
        async with running(_follow(stream, store, DICTS, reactions)):
            await reactions.follow_updates()
        await stream.close()


async def run_typed(phases: Phases) -> None:
    """Keep typed models.

    Cancellation:
        Closes the connection.
    """
    reactions = Reactions(phases, SNAKE_CASE)
    async with _connected(phases.workload) as api_client:
        listing = _listing(api_client, phases.workload)
        phases.begin()
        listed = await listing()
        store = {SNAKE_CASE.key(item): item for item in listed.items}
        resource_version = listed.metadata.resource_version
        del listed
        phases.synced(len(store))
        stream = watch.Watch().stream(listing, resource_version=resource_version)
        async with running(_follow(stream, store, SNAKE_CASE, reactions)):
            await reactions.follow_updates()
        await stream.close()


async def _follow(
    stream: ForeignObject, store: dict[str, ForeignObject], reading: Reading, reactions: Reactions
) -> None:
    async for event in stream:
        item = event["object"]
        if event["type"] == "DELETED":
            store.pop(reading.key(item), None)
        else:
            store[reading.key(item)] = item
            reactions.call(item)


def _connected(workload: Workload) -> ForeignObject:
    configuration = client.Configuration(host=workload.url)
    configuration.ssl_ca_cert = workload.ca_file or None
    if workload.token:
        configuration.api_key = {"BearerToken": f"Bearer {workload.token}"}
    return client.ApiClient(configuration)


def _listing(api_client: ForeignObject, workload: Workload) -> ForeignObject:
    """Return the call that lists and watches the workload's resource in all namespaces."""
    core = client.CoreV1Api(api_client)
    calls = {
        "pods": core.list_pod_for_all_namespaces,
        "configmaps": core.list_config_map_for_all_namespaces,
        "leases": client.CoordinationV1Api(api_client).list_lease_for_all_namespaces,
    }
    return choose(calls, workload.resource)


def _dict_listing(api_client: ForeignObject, workload: Workload) -> ForeignObject:
    """Return the same, or that of a custom resource, which has no model."""
    group, _, version = workload.api_version.rpartition("/")
    if workload.resource != "widgets":
        return _listing(api_client, workload)
    custom = client.CustomObjectsApi(api_client).list_cluster_custom_object
    return functools.partial(custom, group, version, workload.resource)
