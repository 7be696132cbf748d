"""One replica of an operator that shares its keys, as a process of its own.

It copies what an object wants, and writes its own name beside it, so that the store shows who wrote
what. What it does and when is a line of its log for each reconcile.
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
from pyinformer.client import WriteOptions
from pyinformer.client.transport import ClusterConfig, StaticCredentials
from pyinformer.errors import InformerError
from pyinformer.leaderelection import LeaderElectionOptions
from tests.waiting import pause, until

_END_SECONDS = 1.5  # that a cancelled reconcile takes, and a drain waits for
_DELAYS_SECONDS = (0.0, 0.05, 0.5, 2.0)  # of a reconcile, before it writes


def _config(settings: dict[str, Any]) -> ClusterConfig:
    return ClusterConfig(
        server=settings["url"],
        ca_file=settings["ca_file"],
        credentials=StaticCredentials.bearer(settings["token"]),
        namespace=settings["namespace"],
    )


async def main(settings: dict[str, Any]) -> None:
    """Share until SIGTERM."""
    identity = settings["identity"]
    rng = random.Random(identity)
    app = pyinformer.Operator(
        "db-operator",
        sharding=pyinformer.Buckets(
            identity=identity,
            drain_seconds=settings["drain_seconds"],
            options=LeaderElectionOptions(**settings["durations"]),
        ),
    )
    log = Path(settings["log"]).open("a", buffering=1, encoding="utf-8")  # noqa: ASYNC230, SIM115

    @app.reconcile("v1", "configmaps", workers=8)
    async def reconcile(request: pyinformer.Request, obj: Any, cluster: pyinformer.Cluster) -> None:
        began_at = time.monotonic()
        outcome, wrote = "cancelled", 0
        read = 0 if obj is None else int(obj.metadata.resource_version)
        try:
            await pause(rng.choice(_DELAYS_SECONDS))
            outcome, wrote = await _reconcile(obj, cluster)
        except asyncio.CancelledError:
            await pause(_END_SECONDS)
            raise
        except InformerError as error:
            outcome = type(error).__name__
            raise
        finally:
            line = (request.key, began_at, time.monotonic(), outcome, read, wrote)
            log.write(json.dumps(line) + "\n")

    async def _reconcile(obj: Any, cluster: pyinformer.Cluster) -> tuple[str, int]:
        if obj is None:
            return "gone", 0
        wanted = obj.to_dict()["data"].get("wanted", "")
        mark = json.dumps({"by": identity, "done": wanted})
        if json.loads(obj.to_dict()["data"].get("mark", "{}")).get("done") == wanted:
            return "nothing", 0
        changed = obj.to_dict()
        changed["data"]["mark"] = mark
        written = await cluster.patch(obj, changed)
        return "wrote", int(written.metadata.resource_version)

    writes = WriteOptions(writes_per_second=None)

    async def say_ready(run: pyinformer.OperatorRun) -> None:
        await until(lambda: run.sharing is not None and run.sharing.is_member)
        log.write(json.dumps(("", time.monotonic(), time.monotonic(), "ready", 0, 0)) + "\n")

    async with pyinformer.connect(config=_config(settings), write_options=writes) as cluster:
        running = app.running(
            cluster,
            namespaces=settings["namespace"],
            health_port=None,
        )
        saying = asyncio.create_task(say_ready(running))
        await running.run()  # until SIGTERM
        saying.cancel()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
