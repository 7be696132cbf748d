"""What may be read in any thread may be read in a signal handler, too.

Python calls it in the main thread between two instructions, also while that thread holds a lock.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

_READS_IN_A_HANDLER = """
import asyncio, signal, sys
import msgspec
import pyinformer
from pyinformer.testing import APIServer

class Name(msgspec.Struct, frozen=True):
    name: str

class Map(msgspec.Struct, frozen=True):
    metadata: Name

signals = 0

async def main(what):
    global signals
    with APIServer() as server:
        for number in range(100):
            metadata = {"namespace": "default", "name": f"map-{number}"}
            server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        async with (
            pyinformer.connect(server=server.url) as cluster,
            pyinformer.SharedInformerFactory(cluster) as factory,
        ):
            typed = factory.informer("v1", "configmaps", model=Map)
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            health = pyinformer.operator.Health(factory)
            read = {
                "typed": lambda: [one.view for one in typed.lister.list()],
                "health": lambda: (health.ready(), health.overview()),
                "status": lambda: (typed.status(), typed.age_seconds()),
            }[what]

            def on_signal(*_):
                global signals
                signals += 1
                read()
                signal.setitimer(signal.ITIMER_REAL, 0.0007)

            signal.signal(signal.SIGALRM, on_signal)
            signal.setitimer(signal.ITIMER_REAL, 0.0007)
            while signals < 1_000:
                read()
                if signals % 10 == 0:
                    body = {"metadata": {"labels": {"step": str(signals)}}}
                    server.patch("v1", "configmaps", "map-1", body)
                    await asyncio.sleep(0)
            signal.setitimer(signal.ITIMER_REAL, 0)
    print("read")

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["typed", "health", "status"])
def test_a_signal_handler_reads_in_the_middle_of_the_same_read(what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _READS_IN_A_HANDLER, what],
        check=False,
        timeout=100,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "read\n", done.stderr
