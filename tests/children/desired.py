"""An operator whose set of children is what a test says, for databases or any other owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

import pyinformer
from pyinformer.children import Children, Status

if TYPE_CHECKING:
    from pyinformer import Request, Result
    from pyinformer.objects import JSONObject

OWNED = (("v1", "configmaps"), ("v1", "secrets"), ("apps/v1", "statefulsets"), ("v1", "namespaces"))


class DatabaseStatus(Status, frozen=True):
    ready_replicas: int = 0


class Spec(msgspec.Struct):
    image: str = "example.com/db:1"


class Database(msgspec.Struct):
    spec: Spec = msgspec.field(default_factory=Spec)
    status: DatabaseStatus = DatabaseStatus()


DATABASE: JSONObject = {
    "apiVersion": "acme.io/v1",
    "kind": "Database",
    "metadata": {"namespace": "shop", "name": "orders"},
    "spec": {},
}


class Desired:
    """What the function wants: stages by name, each with its objects."""

    def __init__(self) -> None:
        self.stages: dict[str, list[JSONObject]] = {}
        self.waits: bool = False
        """Whether the function waits after each stage."""
        self.timeout_seconds: float | None = None
        self.error: Exception | None = None
        """Raised after the last stage."""
        self.calls = 0

    async def reconcile(self, request: Request, database: Any, children: Children) -> Result | None:
        """Apply the stages."""
        self.calls += 1
        for name, objects in self.stages.items():
            await children.apply(objects, stage=name)
            if self.waits:
                await children.ready(timeout_seconds=self.timeout_seconds)
        if self.error is not None:
            raise self.error
        return children.status(DatabaseStatus(ready_replicas=1))

    def operator(self, name: str = "db-operator", **options: Any) -> pyinformer.Operator:
        """Return an operator of databases."""
        app = pyinformer.Operator(name)
        options = {"model": Database, "owns": OWNED, **options}
        app.reconcile("acme.io/v1", "databases", **options)(self.reconcile)
        return app


def config_map(name: str, namespace: str = "", **data: str) -> JSONObject:
    """Return a ConfigMap, which is ready as soon as it is there."""
    place = {"namespace": namespace} if namespace else {}
    metadata = {"name": name, **place}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def stateful_set(name: str, image: str = "example.com/db:1") -> JSONObject:
    """Return a StatefulSet, which is ready when its controller has said so."""
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "db", "image": image}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


READY_STATUS: JSONObject = {
    "observedGeneration": 1,
    "replicas": 1,
    "readyReplicas": 1,
    "availableReplicas": 1,
    "currentReplicas": 1,
    "updatedReplicas": 1,
    "currentRevision": "db-1",
    "updateRevision": "db-1",
}
