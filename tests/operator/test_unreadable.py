"""An operator of a pydantic model, while objects that do not fit it are in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pydantic

import pyinformer
from pyinformer import Cluster, KubeObject, Request
from pyinformer.errors import ModelMismatchError
from pyinformer.testing import World

if TYPE_CHECKING:
    from pyinformer.blocking import BlockingCluster
    from pyinformer.objects import JSONObject


class Spec(pydantic.BaseModel):
    size: int


class Status(pydantic.BaseModel):
    conditions: list[dict[str, object]] = []


class Bucket(pydantic.BaseModel):
    spec: Spec
    status: Status = Status()


app = pyinformer.Operator("buckets")


async def on_unreadable(
    request: Request, obj: KubeObject, cluster: Cluster, error: ModelMismatchError
) -> None:
    """Show in the status which field is wrong."""
    conditions = pyinformer.controller.set_condition(
        obj.at("status.conditions", list, default=[]), "Ready", False, reason="Invalid",
        message=error.path,
    )  # fmt: skip
    await cluster.status(obj, {"conditions": conditions})


@app.reconcile("acme.io/v1", "buckets", model=Bucket, on_unreadable=on_unreadable, every_seconds=60)
def reconcile(request: Request, bucket: Bucket | None, cluster: BlockingCluster) -> None:
    """Set the condition of a bucket that can be read."""
    if bucket is not None:
        conditions = pyinformer.controller.set_condition(
            bucket.status.conditions, "Ready", True, reason="Made"
        )
        cluster.status(app.object_of(bucket), {"conditions": conditions})


def _bucket(name: str, size: object) -> JSONObject:
    metadata = {"namespace": "default", "name": name}
    body = {"apiVersion": "acme.io/v1", "kind": "Bucket", "metadata": metadata}
    return {**body, "spec": {"size": size}}


def _condition(world: World, name: str) -> tuple[str, str, str]:
    (found,) = world.get("acme.io/v1", "buckets", name)["status"]["conditions"]
    return found["status"], found["reason"], found.get("message", "")


def test_an_unreadable_object_gets_a_condition_and_delays_no_other() -> None:
    """The hook is async and the reconcile plain: each is called as it needs."""
    with World([_bucket("bad", "many"), _bucket("good", 3)]) as world:
        (buckets,) = app.controllers(world.cluster, world.factory)
        for name in ("bad", "good"):
            assert world.reconcile(buckets, f"default/{name}").error is None
        assert _condition(world, "bad") == ("False", "Invalid", "spec.size")
        assert _condition(world, "good") == ("True", "Made", "")

        world.patch("acme.io/v1", "buckets", "bad", {"spec": {"size": 4}})

        assert world.enqueued_by(buckets)
        assert world.reconcile(buckets, "default/bad").error is None
        assert _condition(world, "bad") == ("True", "Made", "")
