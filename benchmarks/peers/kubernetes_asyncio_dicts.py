"""kubernetes_asyncio as its users cache with it: list, then Watch.stream, into a dict of dicts.

Enters: the pods of the server. Leaves: a dict "namespace/name" -> the object as a plain dict.
Invariant: only public calls; raw dicts, since typed models cost many times more
(`python -m benchmarks --peers` compares what is asked for). No index, no handler, no guard.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from kubernetes_asyncio import client, watch

from benchmarks.harness.phases import Phases


async def run(phases: Phases) -> None:
    """List all pods as JSON, then follow the watch from the list's resource version.

    Cancellation:
        Closes the connection.
    """
    configuration = client.Configuration(host=phases.workload.url)
    async with client.ApiClient(configuration) as api_client:
        core = client.CoreV1Api(api_client)
        phases.begin()
        store, resource_version = await _list(core)
        phases.synced(len(store))
        if phases.workload.updates:
            async with asyncio.TaskGroup() as group:
                group.create_task(phases.release_updates())
                await _follow(core, store, resource_version, updates=phases.workload.updates)
            phases.updated(seen=phases.workload.updates)


async def _list(core: client.CoreV1Api) -> tuple[dict[str, Any], str]:
    response: Any = await core.list_pod_for_all_namespaces(_preload_content=False)
    body = json.loads(await response.read())
    return {_key(item): item for item in body["items"]}, body["metadata"]["resourceVersion"]


async def _follow(
    core: client.CoreV1Api, store: dict[str, Any], resource_version: str, *, updates: int
) -> None:
    stream = watch.Watch().stream(
        core.list_pod_for_all_namespaces, resource_version=resource_version
    )
    stream.return_type = ""  # no model: the event's object stays the dict that was decoded
    async for event in stream:
        item = event["object"]
        store[_key(item)] = item
        updates -= 1
        if not updates:
            break
    await stream.close()


def _key(item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}"
