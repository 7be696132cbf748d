"""One replica of an operator with stages, as a process of its own: it ends by a signal."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

import pyinformer
from pyinformer import Request, Result
from pyinformer.children import Children, Status
from pyinformer.client import ClusterConfig
from pyinformer.client.transport.config import StaticCredentials
from pyinformer.leaderelection import LeaderElectionOptions
from pyinformer.operator import custom_resource
from tests.children.desired import stateful_set

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject

GROUP: Final = "shops.suite.example.com"
OWNED: Final = [("v1", "secrets"), ("apps/v1", "statefulsets"), ("v1", "configmaps")]
LEASE: Final = "shop-operator"
_QUICK: Final = LeaderElectionOptions(
    lease_duration_seconds=5.0, renew_deadline_seconds=3.0, retry_period_seconds=1.0
)


class Spec(msgspec.Struct):
    """Its image, and what its address says."""

    image: str = "example.com/shop:1"
    address: str = "yes"


class ShopStatus(Status, frozen=True):
    """The image that it runs."""

    image: str = ""


@custom_resource(f"{GROUP}/v1", "shops", kind="Shop")
class Shop(msgspec.Struct):
    """Three stages: a network, data, and an address."""

    spec: Spec
    status: ShopStatus = ShopStatus()


def operator_of(identity: str, namespace: str) -> pyinformer.Operator:
    """Return the operator of a replica.

    Args:
        identity: of the replica.
        namespace: of the Lease.
    """
    election = pyinformer.LeaderElection(identity=identity, namespace=namespace, options=_QUICK)
    app = pyinformer.Operator(LEASE, leader_election=election)

    @app.reconcile(f"{GROUP}/v1", "shops", model=Shop, owns=OWNED)
    async def reconcile(request: Request, shop: Shop, children: Children) -> Result:
        name = request.name
        await children.apply([body_of("Secret", f"{name}-net")], stage="network")
        await children.apply([stateful_set(name, shop.spec.image)], stage="data")
        await children.ready()
        address = {"address": shop.spec.address}
        await children.apply([body_of("ConfigMap", f"{name}-url", data=address)], stage="access")
        return children.status(ShopStatus(image=shop.spec.image))

    return app


def body_of(kind: str, name: str, **fields: Any) -> JSONObject:
    """Return an object of the core group."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}


async def main(settings: dict[str, str]) -> None:
    """Run until a signal comes.

    Args:
        settings: the `url` of the server, its `ca_file`, the `token` of the replica, its
            `identity`, and the `namespace` that it follows.
    """
    config = ClusterConfig(
        server=settings["url"],
        ca_file=settings["ca_file"],
        credentials=StaticCredentials.bearer(settings["token"]),
    )
    namespace = settings["namespace"]
    app = operator_of(settings["identity"], namespace)
    async with pyinformer.connect(config=config) as cluster:
        await app.running(cluster, namespaces=namespace, health_port=None).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    asyncio.run(main(json.loads(sys.argv[1])))
