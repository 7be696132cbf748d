"""The floor: the least Python that keeps a dict of what a watch-list sends.

Cache: a dict "namespace/name" -> (line, metadata).
One line, one msgspec pass (type and metadata), one store; aiohttp's `readline` over a 1 MiB buffer.
No guard, no index, no handler, no copy of the body, no recovery of any kind.
"""

from __future__ import annotations

import ssl

import aiohttp
import msgspec

from benchmarks.harness.phases import Phases, Workload

_READ_BUFFER_BYTES = 1 << 20
_WATCH_LIST = (
    "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
)


class _Owner(msgspec.Struct, gc=False, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _Metadata(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    owner_references: tuple[_Owner, ...] | None = None
    deletion_timestamp: str | None = None


class _Body(msgspec.Struct, gc=False):
    metadata: _Metadata


class _Event(msgspec.Struct, gc=False):
    type: str
    object: _Body


async def run(phases: Phases) -> None:
    """Fill the dict up to the end bookmark, then follow the updates.

    Cancellation:
        Closes the connection.
    """
    decode = msgspec.json.Decoder(_Event).decode
    store: dict[str, tuple[bytes, _Metadata]] = {}
    async with aiohttp.ClientSession(
        phases.workload.url,
        connector=_connector(phases.workload),
        read_bufsize=_READ_BUFFER_BYTES,
        timeout=aiohttp.ClientTimeout(total=None),
        headers=_headers(phases.workload),
    ) as session:
        phases.begin()
        async with session.get(_path(phases.workload) + _WATCH_LIST) as response:
            readline = response.content.readline
            while True:
                line = await readline()
                event = decode(line)
                metadata = event.object.metadata
                if event.type == "BOOKMARK":
                    break
                store[f"{metadata.namespace}/{metadata.name}"] = (line, metadata)
            phases.synced(len(store))
            if not phases.workload.updates:
                return
            await phases.release_updates()
            for _ in range(phases.workload.updates):
                line = await readline()
                metadata = decode(line).object.metadata
                store[f"{metadata.namespace}/{metadata.name}"] = (line, metadata)
            phases.updated(seen=phases.workload.updates)


def _connector(workload: Workload) -> aiohttp.TCPConnector:
    if not workload.ca_file:
        return aiohttp.TCPConnector(limit=0)
    return aiohttp.TCPConnector(limit=0, ssl=ssl.create_default_context(cafile=workload.ca_file))


def _headers(workload: Workload) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity"}
    return headers | ({"Authorization": f"Bearer {workload.token}"} if workload.token else {})


def _path(workload: Workload) -> str:
    prefix = "/apis" if "/" in workload.api_version else "/api"
    return f"{prefix}/{workload.api_version}/{workload.resource}"
