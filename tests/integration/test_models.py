"""Informers with models on both servers: models of real objects in listers, handlers and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from kubernetes_asyncio.client import V1ConfigMap

from pyinformer import SharedInformerFactory
from pyinformer.errors import ModelMismatchError
from tests.integration.objects import CONFIG_MAPS
from tests.waiting import until

if TYPE_CHECKING:
    from tests.integration.servers import Server


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of metadata."""

    name: str
    resource_version: str


class Data(msgspec.Struct, frozen=True):
    """What is read of the data."""

    mode: str


class ConfigMap(msgspec.Struct, frozen=True):
    """A model; one without the data does not fit."""

    metadata: Metadata
    data: Data


async def test_models_follow_the_objects_of_the_server(server: Server) -> None:
    namespace = server.namespace()
    calls: list[tuple[str, ...]] = []
    async with server.connect() as cluster, SharedInformerFactory(cluster) as factory:
        maps = factory.informer("v1", "configmaps", namespaces=namespace, model=ConfigMap)
        generated = factory.informer(
            "v1", "configmaps", namespaces=namespace, model=V1ConfigMap, private=True
        )
        maps.add_event_handler(
            on_add=lambda new: calls.append(("add", new.view.data.mode)),
            on_update=lambda old, new: calls.append(
                ("update", old.view.data.mode, new.view.data.mode)
            ),
            on_delete=lambda old: calls.append(("delete", old.view.data.mode)),
        )
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        made = await cluster.create({**CONFIG_MAPS.make("a", namespace), "data": {"mode": "1"}})
        model = maps.lister[made.key].view  # before its event
        assert model.metadata.resource_version == made.metadata.resource_version
        found = await maps.wait_for(made.key, bool, timeout_seconds=100)
        assert found is not None
        assert found.view == model
        await until(lambda: ("add", "1") in calls)
        changed = await cluster.patch(made, {**made.to_dict(), "data": {"mode": "2"}})
        await until(lambda: ("update", "1", "2") in calls)
        assert maps.lister[made.key].view.data.mode == "2"
        await until(lambda: generated.lister[made.key].view.data == {"mode": "2"})

        await cluster.patch(changed, {**changed.to_dict(), "data": {"other": "2"}})
        await until(lambda: maps.status().handlers[0].failed == 1)
        with pytest.raises(ModelMismatchError, match="does not fit ConfigMap"):
            _ = maps.lister[made.key].view
        assert made.key in maps.lister
        await cluster.delete(made)
        await until(lambda: maps.lister.get(made.key) is None)
    assert calls == [("add", "1"), ("update", "1", "2")]
