"""What the tests of informers and factories share: objects of a server, and handlers that note."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pyinformer
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.objects import Added, Deleted, Updated
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.cache.informer import SharedInformer
    from pyinformer.client.cluster import Cluster
    from pyinformer.objects import Event, JSONObject
    from pyinformer.testing import APIServer


class Hurry(random.Random):
    """Chance that always draws the least: retries come at once."""

    def uniform(self, a: float, b: float) -> float:
        """Return the lower end."""
        return min(a, b) or _LEAST_SECONDS


_LEAST_SECONDS = 0.01
HURRIED = ReflectorOptions(rng=Hurry())
"""Options for tests that wait for a retry."""


def pod(name: str, *, namespace: str = "default", node: str = "n0", **labels: str) -> JSONObject:
    """Return a pod to create."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "x"}]},
    }


class Notes:
    """A handler that notes its calls, and a mirror made of nothing else."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        """Such as `add default/a`."""
        self.events: list[Event[None]] = []
        self.mirror: dict[str, tuple[str, str]] = {}
        """Key to uid and resource version."""
        self.faults: list[str] = []
        """Calls that no handler may ever get."""

    def __call__(self, event: Event[None]) -> None:
        """Note one event."""
        self.events.append(event)
        match event:
            case Added(obj):
                self.heard.append(f"add {obj.key}")
                self._expect(obj.key not in self.mirror, f"{obj.key} was added twice")
                self.mirror[obj.key] = (obj.metadata.uid, obj.metadata.resource_version)
            case Updated(old, new):
                self.heard.append(f"update {new.key}")
                known = self.mirror.get(new.key)
                before = (old.metadata.uid, old.metadata.resource_version)
                self._expect(known == before, f"{new.key} was {known}, not {before}")
                self._expect(old.metadata.uid == new.metadata.uid, f"{new.key} changed its uid")
                self.mirror[new.key] = (new.metadata.uid, new.metadata.resource_version)
            case Deleted(last):
                self.heard.append(f"delete {last.key}")
                known_uid = self.mirror.pop(last.key, ("nothing", ""))[0]
                self._expect(known_uid == last.metadata.uid, f"{last.key}: {known_uid} is known")

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.faults.append(otherwise)

    async def until_heard(self, *expected: str) -> None:
        """Wait until these calls were made, among others."""
        await until(lambda: set(expected) <= set(self.heard))


def listed(server: APIServer, plural: str = "pods") -> dict[str, tuple[str, str]]:
    """Return what the server has: key to uid and resource version."""
    found = {}
    for obj in server.list("v1", plural):
        meta = obj["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        found[key] = (str(meta["uid"]), str(meta["resourceVersion"]))
    return found


@asynccontextmanager
async def cluster_of(server: APIServer) -> AsyncIterator[Cluster]:
    """Connect to a server."""
    async with pyinformer.connect(server=server.url) as cluster:
        yield cluster


@asynccontextmanager
async def informer_of(
    server: APIServer, plural: str = "pods"
) -> AsyncIterator[SharedInformer[None]]:
    """Run an informer by itself, synced."""
    async with (
        cluster_of(server) as cluster,
        pyinformer.SharedInformer(cluster, "v1", plural, options=HURRIED) as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        yield informer
