"""The load: updates at a steady rate, and now and then an object that is replaced by a new one.

It writes past the proxy of the program, and prints how many writes were answered and how many
failed, every ten seconds, until it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
from collections import Counter
from typing import Any

import pyinformer
from benchmarks.soak.server import connected

_WORKERS = 24
_REPLACED = 0.02
_PATCH = "application/merge-patch+json"
_REPORT_SECONDS = 10.0
_MOST_BEHIND_SECONDS = 1.0


def config_map(namespace: str, number: int) -> dict[str, Any]:
    """Return one of the objects, of about a KiB."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"c{number}", "namespace": namespace, "labels": {"app": "soak"}},
        "data": {"shelf": f"s{number % 100}", "value": "0", "text": "x" * 700},
    }


class Load:
    """Writes at a rate; what is behind by more than a second is left out.

    Args:
        cluster: where to.
        namespace: of the objects.
        objects: how many there are.
        rate: how many writes a second.
    """

    def __init__(
        self, cluster: pyinformer.Cluster, namespace: str, *, objects: int, rate: float
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._objects = objects
        self._period_seconds = 1 / rate
        self._next_at = asyncio.get_running_loop().time()
        self._rng = random.Random(1)
        self.counts: Counter[str] = Counter()

    async def write_again_and_again(self) -> None:
        """Write until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            self._next_at = max(
                self._next_at + self._period_seconds, clock() - _MOST_BEHIND_SECONDS
            )
            await asyncio.sleep(self._next_at - clock())
            try:
                async with asyncio.timeout(10.0):
                    await self._write()
                self.counts["writes"] += 1
            except (pyinformer.InformerError, TimeoutError):
                self.counts["failures"] += 1

    async def _write(self) -> None:
        number = self._rng.randrange(self._objects)
        base = f"/api/v1/namespaces/{self._namespace}/configmaps"
        path = f"{base}/c{number}"
        if self._rng.random() < _REPLACED:
            with contextlib.suppress(pyinformer.NotFoundError):  # its creation has failed
                await self._cluster.request("DELETE", path)
            await self._request("POST", base, config_map(self._namespace, number))
        else:
            await self._request("PATCH", path, {"data": {"value": str(self._rng.random())}})

    async def _request(self, method: str, path: str, body: object) -> None:
        kind = _PATCH if method == "PATCH" else "application/json"
        await self._cluster.request(method, path, body=json.dumps(body).encode(), content_type=kind)


async def main(server: dict[str, str], namespace: str, objects: str, rate: str) -> None:
    """Write, and report."""
    async with connected(server) as cluster, asyncio.TaskGroup() as group:
        load = Load(cluster, namespace, objects=int(objects), rate=float(rate))
        for _ in range(_WORKERS):
            group.create_task(load.write_again_and_again())
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            print(json.dumps(load.counts), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), *sys.argv[2:]))
