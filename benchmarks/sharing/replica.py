"""One replica that shares keys, as a process: it records each change of its share.

Its reconciles take up to a second and write nothing, so that buckets have to drain.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import pyinformer
from pyinformer.client.transport import ClusterConfig, StaticCredentials
from pyinformer.leaderelection import LeaderElectionOptions

_WORK_SECONDS = 1.0  # at most
_EVERY_SECONDS = 3.0  # each object is reconciled
_LOOK_SECONDS = 0.02


def _config(settings: dict[str, Any]) -> ClusterConfig:
    return ClusterConfig(
        server=settings["url"],
        ca_file=settings["ca_file"],
        credentials=StaticCredentials.bearer(settings["token"]),
        namespace=settings["namespace"],
    )


async def _record(run: pyinformer.OperatorRun, path: str) -> None:
    """Append a line for each change of the share."""
    before: tuple[object, ...] = ()
    with Path(path).open("a", buffering=1, encoding="utf-8") as log:  # noqa: ASYNC230
        while True:
            found = run.sharing
            if found is not None:
                share = (found.is_member, found.open, found.catching_up, found.draining)
                if share != before:
                    log.write(json.dumps((time.time(), *share)) + "\n")
                before = share
            await asyncio.sleep(_LOOK_SECONDS)


async def main(settings: dict[str, Any]) -> None:
    """Share until SIGTERM."""
    rng = random.Random(settings["identity"])
    buckets = pyinformer.Buckets(
        identity=settings["identity"], options=LeaderElectionOptions(**settings["durations"])
    )
    app = pyinformer.Operator(settings["group"], sharding=buckets)

    @app.reconcile("v1", "configmaps", workers=16, every_seconds=_EVERY_SECONDS)
    async def reconcile(_request: pyinformer.Request, _obj: object, _cluster: object) -> None:
        await asyncio.sleep(rng.uniform(0.0, _WORK_SECONDS))

    async with pyinformer.connect(config=_config(settings)) as cluster:
        run = app.running(cluster, namespaces=settings["namespace"], health_port=None)
        recording = asyncio.get_running_loop().create_task(_record(run, settings["log"]))
        await run.run()
        recording.cancel()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
