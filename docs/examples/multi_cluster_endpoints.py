"""Endpoints of many clusters in one: an ingress cluster learns who serves in the business clusters.

Each business cluster marks Endpoints with the label `sync.example.com/export=true`. This program
follows them in every cluster and keeps, in the ingress cluster, one Endpoints object of the same
name with the addresses of all of them. A cluster that cannot be reached keeps the addresses that it
had: its cache says what was last known, and never looks empty.

    python multi_cluster_endpoints.py INGRESS_CONTEXT BUSINESS_CONTEXT...
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

import pyinformer
from pyinformer import KubeObject, Request

EXPORT = "sync.example.com/export"
MANAGER = "multi-cluster-endpoints.example.com"


class EndpointSync:
    def __init__(
        self,
        ingress: pyinformer.SharedInformerFactory,
        businesses: list[pyinformer.SharedInformerFactory],
    ) -> None:
        self.exported = [
            business.informer("v1", "endpoints", label_selector={EXPORT: "true"})
            for business in businesses
        ]
        self.merged = ingress.informer("v1", "endpoints", label_selector={EXPORT: "merged"})
        self.controller = pyinformer.Controller("sync", self.reconcile, self.merged, workers=4)
        for informer in self.exported:
            self.controller.watches(informer, self.merged_of)

    def merged_of(self, endpoints: KubeObject[None]) -> Request:
        """The object in the ingress cluster that an object of a business cluster goes into."""
        return Request(endpoints.key, self.merged.cluster.name)

    async def reconcile(self, request: Request, merged: KubeObject[None] | None) -> None:
        found = [informer.lister.get(request.key) for informer in self.exported]
        exported = [one for one in found if one is not None]
        if exported:
            desired = self.desired(request, exported)
            await self.merged.cluster.apply_if_changed(desired, merged, field_manager=MANAGER)
        elif merged is not None:
            await self.merged.cluster.delete(merged)

    def desired(self, request: Request, exported: list[KubeObject[None]]) -> pyinformer.JSONObject:
        subsets = [
            subset
            for endpoints in exported
            for subset in endpoints.at("subsets", list[pyinformer.JSONObject], default=[])
        ]
        return {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {
                "namespace": request.namespace,
                "name": request.name,
                "labels": {EXPORT: "merged"},
            },
            "subsets": subsets,
        }


async def main(ingress_context: str, *business_contexts: str) -> None:
    async with contextlib.AsyncExitStack() as clusters:
        factories = [
            pyinformer.SharedInformerFactory(
                await clusters.enter_async_context(pyinformer.connect(context=name, name=name))
            )
            for name in (ingress_context, *business_contexts)
        ]
        sync = EndpointSync(factories[0], factories[1:])
        await pyinformer.ControllerGroup(sync.controller, factories=factories).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
