"""A candidate that competes for a Lease with LeaderElector, as a process of its own.

It does the same as `client_go/main.go`: while it leads it labels ConfigMaps that are not labelled
yet, and counts in the ConfigMap `tick`; after SIGTERM it continues for the drain.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from typing import Any

import pyinformer
from pyinformer.client import WriteOptions
from pyinformer.client.transport import ClusterConfig, StaticCredentials
from pyinformer.errors import FencedError, InformerError
from pyinformer.leaderelection import LeaderElectionOptions, LeaderElector, Term

_CYCLE_PAUSE_SECONDS = 0.025


class Candidate:
    """What one replica does while it leads."""

    def __init__(self, cluster: pyinformer.Cluster, namespace: str, identity: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._identity = identity
        self._tick = 0
        self.drain_seconds = 0.0

    async def lead(self, term: Term) -> None:
        """Work until a refusal, or for the drain; a write that has begun is awaited."""
        drained = asyncio.Event()
        work = asyncio.create_task(self._work(term, drained))
        try:
            await asyncio.shield(work)
        finally:
            asyncio.get_running_loop().call_later(self.drain_seconds, drained.set)
            await work

    async def _work(self, term: Term, drained: asyncio.Event) -> None:
        while not (drained.is_set() or term.has_ended):
            await asyncio.sleep(_CYCLE_PAUSE_SECONDS)
            try:
                await self._cycle()
            except FencedError:
                raise
            except InformerError as error:
                print(self._identity, error, file=sys.stderr, flush=True)

    async def _cycle(self) -> None:
        path = f"/api/v1/namespaces/{self._namespace}/configmaps"
        query = (("labelSelector", "todo,!by"),)
        found = json.loads(await self._cluster.connection.request("GET", path, query=query))
        for one in found["items"]:
            body = {"apiVersion": "v1", "kind": "ConfigMap", **one}
            labels = {**one["metadata"]["labels"], "by": self._identity}
            await self._patch(body, {**body, "metadata": {**one["metadata"], "labels": labels}})
        self._tick += 1
        metadata = {"namespace": self._namespace, "name": "tick"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        await self._patch(body, {**body, "data": {"by": self._identity, "n": str(self._tick)}})

    async def _patch(self, before: dict[str, object], after: dict[str, object]) -> None:
        await self._cluster.patch(before, after, check_uid=False)


async def main(settings: dict[str, Any]) -> None:
    """Compete until SIGTERM."""
    config = ClusterConfig(
        server=settings["url"],
        ca_file=settings["ca_file"],
        credentials=StaticCredentials.bearer(settings["token"]),
    )
    durations = ("lease_duration_seconds", "renew_deadline_seconds", "retry_period_seconds")
    options = LeaderElectionOptions(**{name: settings[name] for name in durations})
    writes = WriteOptions(writes_per_second=None, retry_limit=0)
    namespace, identity = settings["namespace"], settings["identity"]
    async with pyinformer.connect(config=config, write_options=writes) as cluster:
        candidate = Candidate(cluster, namespace, identity)
        candidate.drain_seconds = settings["drain_seconds"]
        elector = LeaderElector(
            cluster, "election", namespace=namespace, identity=identity, options=options
        )
        running = asyncio.create_task(elector.run(candidate.lead))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await running


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
