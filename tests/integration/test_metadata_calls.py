"""Single reads and patches of metadata alone: the rest of an object is not sent by the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

import pyinformer
from pyinformer.controller import remove_owner_reference
from pyinformer.errors import ConflictError, InvalidArgumentError, NotFoundError
from tests.integration.objects import CONFIG_MAPS, PLANET, unique
from tests.integration.servers import WIDGETS
from tests.integration.test_metadata_only import assert_metadata_alone, secret

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

_OTHERS = "suite.example.com/of-another-writer"
_OURS = "suite.example.com/ours"


def _with(obj: pyinformer.KubeObject, **metadata: object) -> JSONObject:
    body = obj.to_dict()
    body["metadata"].update(metadata)
    return body


@pytest.mark.covers("kube-client src: test_partial_object_meta_get_uses_metadata_header")
async def test_one_secret_is_read_without_its_values(server: Server) -> None:
    """test_partial_object_meta_get_uses_metadata_header."""
    namespace = server.namespace()
    server.api.create(secret("a", namespace))
    async with server.connect() as cluster:
        found = await cluster.get("v1", "secrets", f"{namespace}/a", metadata_only=True)

        assert_metadata_alone(found, "Secret", "v1")
        assert found.metadata.labels == {"app": "web"}
        assert found.at("data.password", default=None) is None
        with pytest.raises(NotFoundError):
            await cluster.get("v1", "secrets", f"{namespace}/missing", metadata_only=True)


@pytest.mark.covers("kube-client src: test_partial_object_meta_get_uses_metadata_header")
@pytest.mark.parametrize("page_size", [0, 2])
async def test_a_list_has_metadata_alone_on_every_page(server: Server, page_size: int) -> None:
    """test_partial_object_meta_list_uses_metadata_header."""
    namespace = server.namespace()
    for name in "abc":
        server.api.create(secret(name, namespace))
    async with server.connect() as cluster:
        listed = cluster.list(
            "v1",
            "secrets",
            namespace=namespace,
            label_selector="app=web",
            page_size=page_size,
            metadata_only=True,
        )
        found = [one async for one in listed]

    assert [one.metadata.name for one in found] == ["a", "b", "c"]
    for one in found:
        assert_metadata_alone(one, "Secret", "v1")


@pytest.mark.covers("kube-client src: test_partial_object_meta_get_uses_metadata_header")
async def test_a_patch_is_answered_with_metadata_alone(server: Server) -> None:
    """test_partial_object_meta_patch_uses_metadata_header."""
    namespace = server.namespace()
    created = server.api.create(secret("a", namespace))
    async with server.connect() as cluster:
        found = await cluster.get("v1", "secrets", f"{namespace}/a", metadata_only=True)

        patched = await cluster.patch(
            found, _with(found, labels={"seen": "yes"}), metadata_only=True
        )

        assert_metadata_alone(patched, "Secret", "v1")
        assert patched.metadata.labels == {"seen": "yes"}
        assert patched.metadata.resource_version != found.metadata.resource_version
        again = await cluster.patch(patched, patched.to_dict(), metadata_only=True)
        assert_metadata_alone(again, "Secret", "v1")
    assert server.api.get("v1", "secrets", "a", namespace)["data"] == created["data"]


async def test_custom_resources_are_read_by_metadata(server: Server) -> None:
    server.serve_widgets()
    name = unique("p")
    server.api.create(PLANET.make(name))
    async with server.connect() as cluster:
        found = await cluster.get(WIDGETS, "planets", name, metadata_only=True)
        listed = cluster.list(
            WIDGETS, "planets", field_selector=f"metadata.name={name}", metadata_only=True
        )
        (one,) = [one async for one in listed]

    for each in (found, one):
        assert_metadata_alone(each, "Planet", WIDGETS)


@pytest.mark.parametrize("memory", ["metadata", "strip_managed_fields"])
async def test_a_cache_of_whole_objects_never_shows_metadata_alone(
    server: Server, memory: Literal["metadata", "strip_managed_fields"]
) -> None:
    """A cache of metadata shows the write at once, one of whole objects with its watch event."""
    namespace = server.namespace()
    server.api.create(CONFIG_MAPS.make("a", namespace))
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        maps = factory.informer("v1", "configmaps", namespaces=namespace, memory=memory)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        cached = maps.lister[f"{namespace}/a"]

        patched = await cluster.patch(
            cached, _with(cached, annotations={"seen": "yes"}), metadata_only=True
        )

        now = maps.lister[f"{namespace}/a"]
        assert now.annotations.get("seen") == "yes" or memory != "metadata"
        assert (now.at("data", default=None) is None) == (memory == "metadata")
        assert now.gvk.kind == "ConfigMap"
        await maps.wait_until(patched.metadata.resource_version, timeout_seconds=100)
        now = maps.lister[f"{namespace}/a"]
        assert now.annotations["seen"] == "yes"
        assert (now.at("data", default=None) is None) == (memory == "metadata")


async def test_a_subresource_is_not_metadata_alone(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        created = await cluster.create(CONFIG_MAPS.make("a", namespace))
        with pytest.raises(InvalidArgumentError, match="metadata_only: must be False"):
            await cluster.get(
                "apps/v1", "deployments", "a/b", subresource="scale", metadata_only=True
            )
        with pytest.raises(InvalidArgumentError, match="metadata_only: must be False"):
            await cluster.patch(
                created, _with(created, labels={}), subresource="status", metadata_only=True
            )


async def test_an_edit_of_finalizers_does_not_remove_those_of_others(server: Server) -> None:
    """A merge patch replaces the list: one that was added meanwhile would be lost."""
    namespace = server.namespace()
    async with server.connect() as cluster:
        before = await cluster.create(CONFIG_MAPS.make("a", namespace))
        server.api.patch(
            "v1", "configmaps", "a", {"metadata": {"finalizers": [_OTHERS]}}, namespace
        )

        with pytest.raises(ConflictError):
            await cluster.patch(before, _with(before, finalizers=[_OURS]))

        newest = await cluster.get("v1", "configmaps", before.key)
        both = await cluster.patch(newest, _with(newest, finalizers=[_OTHERS, _OURS]))
        assert set(both.metadata.finalizers) == {_OTHERS, _OURS}
        await cluster.patch(both, _with(both, finalizers=[]))


async def test_an_edit_of_owner_references_checks_the_version_and_others_do_not(
    server: Server,
) -> None:
    namespace = server.namespace()
    owner = server.api.create(CONFIG_MAPS.make("owner", namespace))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    body = CONFIG_MAPS.make("a", namespace)
    body["metadata"]["ownerReferences"] = [{**reference, "uid": owner["metadata"]["uid"]}]
    async with server.connect() as cluster:
        before = await cluster.create(body)
        server.api.patch("v1", "configmaps", "a", {"data": {"other": "x"}}, namespace)
        edited = remove_owner_reference(owner, before.to_dict())

        with pytest.raises(ConflictError):
            await cluster.patch(before, edited)
        labelled = await cluster.patch(before, _with(before, labels={"a": "b"}))
        assert labelled.metadata.labels == {"a": "b"}
        freed = await cluster.patch(before, edited, check_version=False)
        assert freed.metadata.owner_references == ()


async def test_a_dict_without_a_version_can_edit_finalizers(server: Server) -> None:
    """Nothing is known that could be checked."""
    namespace = server.namespace()
    async with server.connect() as cluster:
        await cluster.create(CONFIG_MAPS.make("a", namespace))
        before = CONFIG_MAPS.make("a", namespace)
        edited = CONFIG_MAPS.make("a", namespace)
        edited["metadata"]["finalizers"] = [_OURS]

        held = await cluster.patch(before, edited)

        assert held.metadata.finalizers == (_OURS,)
        await cluster.patch(held, _with(held, finalizers=[]))
