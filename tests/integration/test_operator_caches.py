"""An operator's caches on both servers: owned Secrets by label and without values, and an index."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import Cluster, KubeObject, NotFoundError, Operator, Request
from pyinformer.operator import Listers, Owns, Watches
from tests.integration.objects import CONFIG_MAPS, SECRETS, unique
from tests.waiting import until

if TYPE_CHECKING:
    from tests.integration.servers import Server


async def test_owned_secrets_are_followed_by_label_and_without_values(server: Server) -> None:
    namespace, team = server.namespace(), unique("team")
    app = Operator("keys")
    labels, ours = {"team": team}, f"team={team}"
    read: list[tuple[str, list[str], Any]] = []

    def keyed(secret: KubeObject, listers: Listers) -> list[str]:
        found = listers.lister("v1", "configmaps").by_index("key", secret.metadata.name)
        return [one.key for one in found]

    watches = [Watches("v1", "secrets", keyed, label_selector=ours, memory="metadata")]
    owns = [Owns("v1", "secrets", label_selector=ours, memory="metadata")]
    app.index("v1", "configmaps", "key", "data.key")

    @app.reconcile("v1", "configmaps", label_selector=ours, owns=owns, watches=watches)
    async def reconcile(request: Request, one: KubeObject | None, cluster: Cluster) -> None:
        lister = app.lister("v1", "secrets")
        if one is not None and lister.get(request.key) is None:
            child = SECRETS.make(request.name, namespace, labels=labels)
            pyinformer.controller.set_controller_reference(one, child)
            await cluster.create(child)
        kept = [secret.to_dict() for secret in lister.list()]
        names = sorted(each["metadata"]["name"] for each in kept)
        read.append((request.name, names, [each.get("data") for each in kept if "data" in each]))

    server.api.create(SECRETS.make("foreign", namespace))
    server.api.create(CONFIG_MAPS.make("a", namespace, labels=labels, data={"key": "shared"}))
    async with server.connect() as cluster, app.running(cluster, namespaces=namespace):
        await until(lambda: ("a", ["a"], []) in read)
        assert server.api.get("v1", "secrets", "a", namespace)["data"] == SECRETS.body["data"]

        server.api.delete("v1", "secrets", "a", namespace)  # owned: it is made again
        await until(lambda: len(read) > 2 and app.lister("v1", "secrets").get(f"{namespace}/a"))

        before = len(read)
        server.api.create(SECRETS.make("shared", namespace, labels=labels))  # watched, by the index
        await until(lambda: ("a", ["a", "shared"], []) in read[before:])
        value = base64.b64encode(b"other").decode()
        server.api.patch("v1", "secrets", "shared", {"data": {"key": value}}, namespace)
        await until(lambda: len(read) > before + 1)
    assert not any("foreign" in names or values for _, names, values in read)


async def test_a_kind_can_be_reconciled_that_was_not_served_at_the_start(server: Server) -> None:
    namespace, seen = server.namespace(), list[str]()
    app = Operator("kinds")
    group = f"{unique('group')}.example.com"

    async def reconcile(request: Request, one: KubeObject | None, cluster: Cluster) -> None:
        seen.append("gone" if one is None else one.gvk.kind)

    app.reconcile("v1", "configmaps", field_selector="metadata.name=none")(reconcile)
    async with server.connect() as cluster, app.running(cluster, namespaces=namespace):
        app.reconcile(f"{group}/v1", "rockets")(reconcile)
        with pytest.raises(NotFoundError):
            await app.wait_started("rockets")

        await asyncio.to_thread(server.api.register, f"{group}/v1", "Rocket", "rockets")
        app.reconcile(f"{group}/v1", "rockets")(reconcile)
        await app.wait_started("rockets")
        rocket = {"apiVersion": f"{group}/v1", "kind": "Rocket", "metadata": {"name": "one"}}
        await asyncio.to_thread(server.api.create, rocket, namespace=namespace)
        await until(lambda: "Rocket" in seen)
