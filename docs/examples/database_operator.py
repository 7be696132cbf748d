"""An operator: a Database becomes a StatefulSet, and its status says how much of it is ready.

    pyinformer serve                              # a server to play with, or use your own
    cd docs/examples
    pyinformer crd database_operator:Database | kubectl apply -f -
    python database_operator.py

It runs until Ctrl-C.
"""

from typing import Any

import msgspec

import pyinformer
from pyinformer import Request, Result
from pyinformer.children import Children, Status


class DatabaseSpec(msgspec.Struct):
    image: str = "postgres:17"
    replicas: int = 1


class DatabaseStatus(Status, frozen=True):
    ready: int = 0


@pyinformer.operator.custom_resource("acme.io/v1", "databases", columns={"Ready": "status.ready"})
class Database(msgspec.Struct):
    spec: DatabaseSpec
    status: DatabaseStatus = DatabaseStatus()


app = pyinformer.Operator("database-operator")


@app.reconcile("acme.io/v1", "databases", model=Database, owns=[("apps/v1", "statefulsets")])
async def reconcile(request: Request, database: Database, children: Children) -> Result:
    (applied,) = await children.apply([stateful_set(request, database.spec)])
    ready = applied.at("status.readyReplicas", int, default=0)
    return children.status(DatabaseStatus(ready=ready))


def stateful_set(request: Request, spec: DatabaseSpec) -> dict[str, Any]:
    labels = {"app": request.name}
    pod = {"containers": [{"name": "database", "image": spec.image}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": request.name},
        "spec": {
            "replicas": spec.replicas,
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }


if __name__ == "__main__":
    app.run()
