"""The program that is soaked: a cache with an index, a handler and a controller.

It prints what the process holds every few seconds, as a line of JSON, and a digest of its cache
when it gets SIGUSR1, until it is killed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import sys
from collections import Counter
from collections.abc import Iterable

import pyinformer
from benchmarks.harness.processes import open_descriptors, rss_bytes
from benchmarks.soak.server import connected


def digest(versions: Iterable[tuple[str, str]]) -> str:
    """Return the digest of names and resource versions, in whatever order they come."""
    lines = sorted(f"{name} {version}\n" for name, version in versions)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


async def main(server: dict[str, str], namespace: str, period_seconds: str) -> None:
    """Follow the ConfigMaps of a namespace."""
    counts: Counter[str] = Counter()

    def count(event: pyinformer.Event) -> None:
        counts[type(event).__name__.lower()] += 1

    async def reconcile(_: pyinformer.Request, __: pyinformer.KubeObject | None) -> None:
        counts["reconciles"] += 1

    async with (
        connected(server) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        informer = factory.informer("v1", "configmaps", namespaces=namespace)
        informer.add_index("shelf", "data.shelf")
        informer.add_event_handler(count)
        controller = pyinformer.Controller("soak", reconcile, informer)
        asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, asked.set)
        async with pyinformer.ControllerGroup(controller, factories=[factory]):
            await factory.wait_for_cache_sync(timeout_seconds=120.0)
            while True:
                held = {
                    "rss_bytes": rss_bytes(),
                    "tasks": len(asyncio.all_tasks()),
                    "descriptors": open_descriptors(),
                    "objects": len(informer.lister.keys()),
                    "state": str(informer.state),
                    **counts,
                }
                if asked.is_set():
                    asked.clear()
                    found = informer.lister.list()
                    held["digest"] = digest(
                        (one.metadata.name, one.metadata.resource_version) for one in found
                    )
                print(json.dumps(held), flush=True)
                try:
                    async with asyncio.timeout(float(period_seconds)):
                        await asked.wait()
                except TimeoutError:
                    continue


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), *sys.argv[2:]))
