"""A World answers metadata-only informers with metadata, as servers do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer import Controller, KubeObject, Request
from pyinformer.testing import World

if TYPE_CHECKING:
    from pyinformer.client.cluster import Cluster

SHOP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "shop", "namespace": "default"},
}


def keeper(
    cluster: Cluster, factory: pyinformer.SharedInformerFactory, seen: list[KubeObject[None]]
) -> Controller[None]:
    """Give every ConfigMap a Secret, of which only metadata is followed."""
    maps = factory.informer("v1", "configmaps")
    secrets = factory.informer("v1", "secrets", memory="metadata")

    async def reconcile(request: Request, found: KubeObject[None] | None) -> None:
        if found is None:
            return
        if secrets.lister.get(request.key) is None:
            meta = {"name": request.name, "namespace": request.namespace}
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"a": "Yg=="}}
            await cluster.create(pyinformer.controller.set_controller_reference(found, body))
        seen.append(secrets.lister[request.key])

    controller = Controller("keeper", reconcile, maps)
    controller.owns(secrets)
    return controller


@pytest.mark.covers("controller-runtime pkg/client/fake: should be able to retrieve objects by")
def test_an_owner_of_secrets_sees_their_metadata_and_wakes_by_them() -> None:
    seen: list[KubeObject[None]] = []
    with World([SHOP]) as world:
        controller = keeper(world.cluster, world.factory, seen)
        assert world.reconcile(controller, "default/shop").error is None
        world.enqueued_by(controller)

        world.delete("v1", "secrets", "shop")

        assert world.enqueued_by(controller) == [Request("default/shop")]
        assert world.reconcile(controller, "default/shop").error is None
        assert world.reconcile(controller, "default/shop").error is None
    assert len(seen) == 3
    for secret in seen:
        assert str(secret.gvk) == "v1/Secret"
        assert secret.at("data", default=None) is None
        assert secret.metadata.controller is not None
