"""Keep the EndpointSlice of each Service up to date with the Pods that it selects.

The operator follows Services, the slices that it owns (other clients may change or delete them),
and Pods, which a mapping maps to the Services that select them. The reconcile reads only caches,
and writes only differences.

Run it on a server without the cluster's own controllers: kube-proxy would use the slices of both.

    python docs/examples/endpoints_controller.py
"""

import msgspec

import pyinformer
from pyinformer import Cluster, JSONObject, KubeObject, Request
from pyinformer.objects import LabelSelector
from pyinformer.operator import Listers, Owns, Watches

MANAGER = "endpoints-controller.example.com"
MANAGED = {"endpointslice.kubernetes.io/managed-by": MANAGER}
SLICES = ("discovery.k8s.io/v1", "endpointslices")


class Condition(pyinformer.View):
    type: str
    status: str


class Status(pyinformer.View):
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[Condition, ...] = ()


class Pod(pyinformer.View):
    status: Status = Status()


class Port(pyinformer.View):
    port: int
    target_port: int | str = 0
    name: str = ""
    protocol: str = "TCP"


app = pyinformer.Operator(MANAGER)


def selector_of(service: KubeObject | None) -> LabelSelector | None:
    """Return the selector of a Service; without one, its owner manages the endpoints."""
    labels = service.at("spec.selector", dict[str, str], default=None) if service else None
    return LabelSelector.parse(labels) if labels else None


def services_of(pod: KubeObject[Pod], listers: Listers) -> list[str]:
    """Return the Services that select a Pod; called for its old and its new labels."""
    services = listers.lister("v1", "services").namespace(pod.metadata.namespace)
    return [
        service.key
        for service in services.list(allow_unsynced=True)
        if (selector := selector_of(service)) and selector.matches(pod.metadata.labels)
    ]


@app.reconcile(
    "v1",
    "services",
    owns=[Owns(*SLICES, label_selector=MANAGED)],
    watches=[Watches("v1", "pods", services_of, model=Pod)],
    workers=4,
)
async def reconcile(request: Request, service: KubeObject | None, cluster: Cluster) -> None:
    current = app.lister(*SLICES).get(request.key)
    selector = selector_of(service)
    if service is None or selector is None:
        if current is not None:
            await cluster.delete(current)
        return
    pods = app.lister("v1", "pods", model=Pod).namespace(request.namespace)
    desired = slice_of(service, pods.list(label_selector=selector))
    await cluster.apply_if_changed(desired, current, field_manager=MANAGER, force=True)


def slice_of(service: KubeObject, pods: list[KubeObject[Pod]]) -> JSONObject:
    name = service.metadata.name
    body = {
        "apiVersion": SLICES[0],
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": service.metadata.namespace,
            "name": name,
            "labels": {**MANAGED, "kubernetes.io/service-name": name},
        },
        "addressType": "IPv4",
        "ports": ports_of(service),
        "endpoints": [
            endpoint_of(pod)
            for pod in sorted(pods, key=lambda one: one.key)
            if pod.view.status.pod_ip and not pod.metadata.deletion_timestamp
        ],
    }
    return pyinformer.controller.set_controller_reference(service, body)


def ports_of(service: KubeObject) -> list[JSONObject]:
    """Return the ports on which the Pods listen; a named one may differ from Pod to Pod."""
    return [
        {"name": one.name, "port": one.target_port or one.port, "protocol": one.protocol}
        for one in service.at("spec.ports", list[Port], default=[])
        if not isinstance(one.target_port, str)
    ]


def endpoint_of(pod: KubeObject[Pod]) -> JSONObject:
    meta, status = pod.metadata, pod.view.status
    target = {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
    return {
        "addresses": [status.pod_ip],
        "conditions": {"ready": Condition(type="Ready", status="True") in status.conditions},
        "targetRef": target,
    }


if __name__ == "__main__":
    app.run()
