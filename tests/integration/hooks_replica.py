"""One replica of an operator with hooks, as a process of its own: it ends by a signal."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

import pyinformer
from pyinformer.leaderelection import LeaderElectionOptions
from pyinformer.operator import custom_resource
from tests.waiting import pause

PLACE: Final = ("replicas.acme.io/v1", "databases")
REFUSAL: Final = "oracle is not allowed"
_SLOW_SECONDS: Final = 3.0
_TIMEOUT_SECONDS: Final = 30  # the most that the API server waits: a busy machine needs some


class Spec(msgspec.Struct):
    """What a client may leave out is the image."""

    engine: str
    image: str = ""


@custom_resource(*PLACE, kind="Database")
class Database(msgspec.Struct):
    """Its image is filled in, and its engine is checked."""

    spec: Spec


def operator_of(settings: dict[str, Any]) -> pyinformer.Operator:
    """Return the operator of a replica.

    Args:
        settings: `url` at which the API server calls all replicas; of this one its `identity`,
            `port` and `health_port`; the `namespace` of the Lease; and the `folder` in which it
            makes a file of its name when it begins to answer about a slow engine.
    """
    app = pyinformer.Operator(
        "replicated",
        webhooks=pyinformer.Webhooks(
            url=settings["url"], host="127.0.0.1", port=settings.get("port")
        ),
        leader_election=pyinformer.LeaderElection(
            namespace=settings["namespace"],
            identity=settings.get("identity"),
            options=LeaderElectionOptions(
                lease_duration_seconds=6, renew_deadline_seconds=4, retry_period_seconds=1
            ),
        ),
    )

    @app.reconcile(*PLACE, model=Database)
    async def reconcile(request: Any, database: Any, cluster: Any) -> None:
        """Do nothing."""

    @app.default(*PLACE, model=Database, timeout_seconds=_TIMEOUT_SECONDS)
    def fill(database: Database, review: object) -> None:
        database.spec.image = database.spec.image or f"{database.spec.engine}:17"

    @app.validate(*PLACE, model=Database, timeout_seconds=_TIMEOUT_SECONDS)
    async def check(database: Database, review: object) -> None:
        if database.spec.engine == "oracle":
            raise pyinformer.Denied(REFUSAL)
        if database.spec.engine == "slow":
            (Path(settings["folder"]) / settings["identity"]).touch()
            await pause(_SLOW_SECONDS)

    return app


async def main(settings: dict[str, Any]) -> None:
    """Run until a signal comes."""
    async with pyinformer.connect(settings["kubeconfig"]) as cluster:
        await operator_of(settings).running(cluster, health_port=settings["health_port"]).run()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
