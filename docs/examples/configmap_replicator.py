"""Copy ConfigMaps into the namespaces that a Replication selects.

A ConfigMap is a source if its label `replicator.example.com/source-of` names a Replication of its
namespace. Copies change and go with their source, their Replication and the labels of namespaces.

    pyinformer crd configmap_replicator:Replication | kubectl apply -f -
    python configmap_replicator.py
"""

import msgspec

import pyinformer
from pyinformer import Cluster, ConflictError, JSONObject, KubeObject, Request, Result
from pyinformer.controller import finalizer, set_condition
from pyinformer.errors import InvalidObjectError
from pyinformer.operator import Listers, Watches

SOURCE = "replicator.example.com/source-of"  # a label; the name of the Replication
COPY = "replicator.example.com/copy-of"  # a label, and an annotation with the Replication's key
FINALIZER = "replicator.example.com/copies"
MAPS, REPLICATIONS = ("v1", "configmaps"), ("example.com/v1", "replications")
CONTENT = ("data", "binaryData")


class Spec(msgspec.Struct, rename="camel"):
    namespace_labels: dict[str, str]


class Status(msgspec.Struct):
    copies: int = 0
    conditions: list[JSONObject] = []


@pyinformer.operator.custom_resource(*REPLICATIONS, columns={"Copies": "status.copies"})
class Replication(msgspec.Struct):
    spec: Spec
    status: Status = msgspec.field(default_factory=Status)

    def selects(self, namespace: KubeObject) -> bool:
        return self.spec.namespace_labels.items() <= namespace.metadata.labels.items()


app = pyinformer.Operator("replicator", writes=[MAPS, (*REPLICATIONS, "patch")])


def replication_of(config_map: KubeObject) -> str | None:
    """Return the Replication of a source or a copy."""
    meta = config_map.metadata
    name = meta.labels.get(SOURCE)
    return f"{meta.namespace}/{name}" if name else config_map.annotations.get(COPY)


def replications_of(namespace: KubeObject, listers: Listers) -> list[str]:
    """Return the Replications that select a namespace; called for its old and its new labels."""
    found = listers.lister(*REPLICATIONS).list()
    return [one.key for one in found if is_selected(one, namespace)]


def is_selected(replication: KubeObject, namespace: KubeObject) -> bool:
    try:
        return replication.as_type(Replication).selects(namespace)
    except InvalidObjectError:  # its own reconcile reports it; the others are not affected
        return False


sources = Watches(*MAPS, replication_of, label_selector=SOURCE)
copies = Watches(*MAPS, replication_of, label_selector=COPY)
namespaces = Watches("v1", "namespaces", replications_of, memory="metadata")
app.index(*MAPS, "replication", replication_of)


@app.reconcile(*REPLICATIONS, model=Replication, watches=[sources, copies, namespaces])
async def reconcile(
    request: Request, replication: Replication | None, cluster: Cluster
) -> Result | None:
    if replication is None:
        return None
    owner = app.object_of(replication)
    async with finalizer(cluster, owner, FINALIZER) as held:
        desired = copies_of(replication, request) if held.phase == "active" else {}
        taken = await write(cluster, request, desired)
        if held.phase == "active":
            await report(cluster, owner, replication.status, len(desired), taken)
    return Result(requeue_after_seconds=60) if taken else None


def copies_of(replication: Replication, request: Request) -> dict[str, JSONObject]:
    """Return the desired copies by key."""
    targets = [
        one.metadata.name
        for one in app.lister("v1", "namespaces").list()
        if replication.selects(one) and not one.metadata.deletion_timestamp
    ]
    found = app.lister(*MAPS, label_selector=SOURCE).by_index("replication", request.key)
    return {
        f"{target}/{source.metadata.name}": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "namespace": target,
                "name": source.metadata.name,
                "labels": {COPY: "replication"},
                "annotations": {COPY: request.key},
            },
            **{name: source.at(name, dict[str, str], default=None) for name in CONTENT},
        }
        for source in found
        for target in targets
        if target != request.namespace
    }


async def write(cluster: Cluster, request: Request, desired: dict[str, JSONObject]) -> list[str]:
    """Bring the copies to the desired state; return the keys that other ConfigMaps have."""
    found = app.lister(*MAPS, label_selector=COPY).by_index("replication", request.key)
    present = {str(one.key): one for one in found}
    for key in present.keys() - desired.keys():
        await cluster.delete(present[key])
    taken: list[str] = []
    for key, copy in desired.items():
        if current := present.get(key):
            content = {name: copy[name] for name in CONTENT}
            await cluster.patch(current, current.to_dict() | content)  # sends what differs
            continue
        try:
            await cluster.create(copy)
        except ConflictError:
            taken.append(key)
    return taken


async def report(
    cluster: Cluster, owner: KubeObject, old: Status, desired: int, taken: list[str]
) -> None:
    reason = "NameTaken" if taken else "AllCopied"
    message = f"copies: {desired - len(taken)}" + "".join(f"; taken: {one}" for one in taken)
    conditions = set_condition(old.conditions, "Copied", not taken, reason=reason, message=message)
    new = Status(copies=desired - len(taken), conditions=conditions)
    if new != old:
        app.event_recorder().event(owner, reason, message, type="Warning" if taken else "Normal")
        await cluster.status(owner, new)


if __name__ == "__main__":
    app.run()
