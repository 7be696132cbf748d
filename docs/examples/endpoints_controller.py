"""Keep the EndpointSlices of each Service up to date with the Pods that it selects.

Three informers feed one queue of Services: the Services themselves, the slices that this program
owns (other clients may change or delete them), and the Pods, which a mapping maps to the Services
that select them. The reconcile reads only caches, and writes only differences.

    python endpoints_controller.py
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pyinformer
from pyinformer import KubeObject, Request
from pyinformer.cache import LabelSelector

MANAGER = "endpoints-controller.example.com"


@dataclass
class Condition:
    type: str
    status: str


@dataclass
class Port:
    port: int
    name: str = ""
    protocol: str = "TCP"


def selector_of(service: KubeObject[None]) -> LabelSelector | None:
    """Return the selector of a Service; without one, its owner manages the endpoints."""
    labels = service.at("spec.selector", dict[str, str], default={})
    return LabelSelector.parse(labels) if labels else None


def is_ready(pod: KubeObject[None]) -> bool:
    conditions = pod.at("status.conditions", list[Condition], default=[])
    return any(one.type == "Ready" and one.status == "True" for one in conditions)


class EndpointsController:
    def __init__(
        self, cluster: pyinformer.Cluster, factory: pyinformer.SharedInformerFactory
    ) -> None:
        self.cluster = cluster
        self.services = factory.informer("v1", "services")
        self.pods = factory.informer("v1", "pods")
        self.slices = factory.informer(
            "discovery.k8s.io/v1",
            "endpointslices",
            label_selector={"endpointslice.kubernetes.io/managed-by": MANAGER},
        )
        self.controller = pyinformer.Controller(
            "endpoints", self.reconcile, self.services, workers=4
        )
        self.controller.owns(self.slices)
        self.controller.watches(self.pods, self.services_of)

    def services_of(self, pod: KubeObject[None]) -> list[str]:
        """Which Services a Pod stands behind; asked for its old and its new labels."""
        labels = pod.metadata.labels
        services = self.services.lister.namespace(pod.metadata.namespace).list(allow_unsynced=True)
        return [one.key for one in services if (s := selector_of(one)) and s.matches(labels)]

    async def reconcile(self, request: Request, service: KubeObject[None] | None) -> None:
        current = self.slices.lister.get(request.key)
        selector = None if service is None else selector_of(service)
        if service is None or selector is None:
            if current is not None:
                await self.cluster.delete(current)
            return
        pods = self.pods.lister.namespace(request.namespace).list(label_selector=selector)
        desired = self.slice_of(service, pods)
        await self.cluster.apply_if_changed(desired, current, field_manager=MANAGER)

    def slice_of(
        self, service: KubeObject[None], pods: list[KubeObject[None]]
    ) -> pyinformer.JSONObject:
        desired: pyinformer.JSONObject = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "namespace": service.metadata.namespace,
                "name": service.metadata.name,
                "labels": {
                    "kubernetes.io/service-name": service.metadata.name,
                    "endpointslice.kubernetes.io/managed-by": MANAGER,
                },
            },
            "addressType": "IPv4",
            "ports": [
                {"name": port.name, "port": port.port, "protocol": port.protocol}
                for port in service.at("spec.ports", list[Port], default=[])
            ],
            "endpoints": [
                self.endpoint_of(pod)
                for pod in sorted(pods, key=lambda one: one.key)
                if has_ip(pod)
            ],
        }
        pyinformer.controllerutil.set_controller_reference(service, desired)
        return desired

    def endpoint_of(self, pod: KubeObject[None]) -> pyinformer.JSONObject:
        return {
            "addresses": [pod.at("status.podIP", str)],
            "conditions": {"ready": is_ready(pod)},
            "targetRef": {
                "kind": "Pod",
                "namespace": pod.metadata.namespace,
                "name": pod.metadata.name,
                "uid": pod.metadata.uid,
            },
        }


def has_ip(pod: KubeObject[None]) -> bool:
    return bool(pod.at("status.podIP", str, default="")) and not pod.metadata.deletion_timestamp


async def main() -> None:
    async with pyinformer.connect() as cluster:
        factory = pyinformer.SharedInformerFactory(cluster)
        endpoints = EndpointsController(cluster, factory)
        await pyinformer.ControllerGroup(endpoints.controller, factories=[factory]).run()


if __name__ == "__main__":
    asyncio.run(main())
