"""Endpoints of many clusters in one: an ingress cluster learns who serves in the business clusters.

Each business cluster marks Endpoints with the label `sync.example.com/export=true`. This program
follows them in every cluster, and keeps EndpointSlices for them in the ingress cluster: those of
a Service of the same namespace and name. Each business cluster has a controller of its own, so one
that is dead neither delays the others nor loses the addresses that it had.

    python multi_cluster_endpoints.py INGRESS_CONTEXT BUSINESS_CONTEXT...
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import zlib

import pyinformer
from pyinformer import KubeObject, Request

EXPORT = "sync.example.com/export"
CLUSTER = "sync.example.com/cluster"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE = "kubernetes.io/service-name"
MANAGER = "multi-cluster-endpoints.example.com"


class ClusterSync:
    """One business cluster's exported Endpoints, as EndpointSlices of the ingress cluster."""

    def __init__(
        self,
        business: pyinformer.SharedInformerFactory,
        ingress: pyinformer.SharedInformerFactory,
    ) -> None:
        self.exported = business.informer("v1", "endpoints", label_selector={EXPORT: "true"})
        self.name = self.exported.cluster.name
        self.slices = ingress.informer(
            "discovery.k8s.io/v1",
            "endpointslices",
            label_selector={MANAGED_BY: MANAGER, CLUSTER: self.name},
        )
        self.slices.add_index("service", service_of)
        self.controller = pyinformer.Controller(f"sync {self.name}", self.reconcile, self.exported)
        self.controller.watches(self.slices, self.exported_of)

    def exported_of(self, one: KubeObject[None]) -> Request:
        """The object of the business cluster that a slice of the ingress cluster stands for."""
        return Request(service_of(one), self.name)

    async def reconcile(self, request: Request, endpoints: KubeObject[None] | None) -> None:
        ingress = self.slices.cluster
        desired = {} if endpoints is None else self.slices_for(request, endpoints)
        known = self.slices.lister.by_index("service", request.key)
        current = {one.metadata.name: one for one in known}
        for name, wanted in desired.items():
            await ingress.apply_if_changed(
                wanted, current.get(name), field_manager=MANAGER, force=True
            )
        for name in current.keys() - desired.keys():
            await ingress.delete(current[name])

    def slices_for(
        self, request: Request, endpoints: KubeObject[None]
    ) -> dict[str, pyinformer.JSONObject]:
        """One slice for each subset, since a slice has one list of ports."""
        subsets = endpoints.at("subsets", list[pyinformer.JSONObject], default=[])
        # With dots, which neither has: "shop" of "west-eu" is another one than "shop-west" of "eu".
        names = [f"{request.name}.{self.name}.{number}" for number in range(len(subsets))]
        return {
            name: {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "namespace": request.namespace,
                    "name": name,
                    "labels": {MANAGED_BY: MANAGER, CLUSTER: self.name, SERVICE: request.name},
                },
                "addressType": "IPv4",
                "ports": subset.get("ports", []),
                "endpoints": [
                    {"addresses": [one["ip"]], "conditions": {"ready": ready}}
                    for ready, part in ((True, "addresses"), (False, "notReadyAddresses"))
                    for one in subset.get(part, [])
                ],
            }
            for name, subset in zip(names, subsets, strict=True)
        }


def service_of(one: KubeObject[None]) -> str:
    return f"{one.metadata.namespace}/{one.metadata.labels.get(SERVICE, '')}"


def cluster_name(context: str) -> str:
    """Return a context's name as labels and names can have it, such as that of an ARN."""
    allowed = re.sub("[^a-z0-9]+", "-", context.lower()).strip("-")[:40]
    is_whole = allowed == context
    return allowed if is_whole else f"{allowed}-{zlib.crc32(context.encode()):08x}".strip("-")


async def main(ingress_context: str, *business_contexts: str) -> None:
    async with contextlib.AsyncExitStack() as clusters:
        ingress, *businesses = [
            pyinformer.SharedInformerFactory(
                await clusters.enter_async_context(
                    pyinformer.connect(context=context, name=cluster_name(context))
                )
            )
            for context in (ingress_context, *business_contexts)
        ]
        group = pyinformer.ControllerGroup(factories=[ingress])
        for business in businesses:  # a cluster that is away delays only its own controller
            sync = ClusterSync(business, ingress)
            group.engage(sync.controller, sync.name)
        await group.run()


if __name__ == "__main__":
    if not sys.argv[2:]:
        sys.exit("usage: multi_cluster_endpoints.py INGRESS_CONTEXT BUSINESS_CONTEXT...")
    asyncio.run(main(*sys.argv[1:]))
