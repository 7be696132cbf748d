"""Informers of metadata alone: what is on the wire, what is kept, and what cannot harm the rest."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import Added, Deleted, Updated
from pyinformer.cache.reflector import ReflectorOptions
from tests.integration.objects import unique
from tests.integration.servers import WIDGETS
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

_SECRET = "never-shown"
_ENCODED = base64.b64encode(_SECRET.encode()).decode()
_OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "4a5b"}


def secret(name: str, namespace: str, **labels: str) -> JSONObject:
    """Return a Secret to create."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": "web", **labels},
            "annotations": {"example.com/team": "blue"},
            "ownerReferences": [_OWNER],
        },
        "data": {"password": _ENCODED},
    }


def assert_metadata_alone(obj: pyinformer.KubeObject[Any], kind: str, api_version: str) -> None:
    """Check that nothing but metadata is in an object, and that it knows what it is."""
    body = obj.to_dict()
    assert set(body) == {"kind", "apiVersion", "metadata"}
    assert (body["kind"], body["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert "managedFields" not in body["metadata"]
    assert (obj.gvk.kind, obj.gvk.api_version) == (kind, api_version)
    assert not obj.problem


@asynccontextmanager
async def following_secrets(
    server: Server, namespace: str
) -> AsyncIterator[tuple[pyinformer.Cluster, pyinformer.SharedInformer[None]]]:
    """Follow the metadata of a namespace's Secrets; the cache has synced."""
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        secrets = factory.informer("v1", "secrets", namespaces=namespace, memory="metadata")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        yield cluster, secrets


@pytest.mark.covers(
    "client-go metadata/metadatainformer: TestMetadataSharedInformerFactory",
    "client-go metadata/metadatalister: TestNamespaceGetMethod",
)
@pytest.mark.parametrize("watch_list", [True, False], ids=["watch-list", "list"])
async def test_secrets_are_followed_without_their_data(server: Server, *, watch_list: bool) -> None:
    namespace = server.namespace()
    server.api.create(secret("before", namespace))
    events: list[pyinformer.Event[Any]] = []
    options = ReflectorOptions(use_watch_list=watch_list)
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster, options=options) as factory,
    ):
        secrets = factory.informer("v1", "secrets", namespaces=namespace, memory="metadata")
        secrets.add_index("team", "metadata.annotations['example.com/team']")
        secrets.add_event_handler(events.append)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        late = server.api.create(secret("late", namespace))
        server.api.update({**late, "data": {"password": "bmV3"}})
        await until(lambda: len(events) == 3)
        server.api.delete("v1", "secrets", "late", namespace)
        await until(lambda: len(events) == 4)

        assert [type(event) for event in events] == [Added, Added, Updated, Deleted]
        for event in events:
            obj = event.new if isinstance(event, Updated) else None
            obj = obj or (event.last_known if isinstance(event, Deleted) else event.object)  # type: ignore[union-attr]
            assert_metadata_alone(obj, "Secret", "v1")
            assert obj.metadata.labels == {"app": "web"}
            assert obj.annotations == {"example.com/team": "blue"}
            assert obj.metadata.owner_references[0].uid == "4a5b"
        (kept,) = secrets.lister.list(label_selector="app=web")
        assert secrets.lister.by_index("team", "blue") == [kept]
        assert kept.at("data.password", default=None) is None


async def test_an_own_write_is_shown_at_once_and_without_its_body(server: Server) -> None:
    namespace = server.namespace()
    server.api.create(secret("a", namespace))
    async with following_secrets(server, namespace) as (cluster, secrets):
        await cluster.create(secret("b", namespace))
        shown = secrets.lister[f"{namespace}/b"]
        assert_metadata_alone(shown, "Secret", "v1")
        before = secrets.lister[f"{namespace}/a"]
        edited = before.to_dict()
        edited["metadata"]["labels"]["app"] = "api"

        written = await cluster.patch(before, edited)

        assert written.at("data.password") == _ENCODED
        shown = secrets.lister[f"{namespace}/a"]
        assert_metadata_alone(shown, "Secret", "v1")
        assert shown.metadata.labels == {"app": "api"}
        await secrets.wait_until(
            written.metadata.resource_version, key=before.key, timeout_seconds=100
        )
        cached = secrets.lister[f"{namespace}/a"]
        assert cached == shown
        assert cached.same_content(shown)


async def test_no_write_treats_metadata_as_the_whole_object(server: Server) -> None:
    """Replacing or applying what an informer of metadata holds would wipe the rest."""
    namespace = server.namespace()
    server.api.create(secret("a", namespace))
    async with following_secrets(server, namespace) as (cluster, secrets):
        found = secrets.lister[f"{namespace}/a"]
        for body in (found, found.to_dict()):
            applied = partial(cluster.apply, field_manager="suite")
            for write in (cluster.replace, cluster.create, applied):
                with pytest.raises(pyinformer.errors.InvalidArgumentError, match="metadata alone"):
                    await write(body)
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match="metadata alone"):
            await cluster.status(found, {"phase": "x"})
        whole = await cluster.get("v1", "secrets", found.key)
        assert whole.at("data.password") == _ENCODED

        assert await cluster.delete(found) is None

        gone = await secrets.wait_for(found.key, lambda obj: obj is None, timeout_seconds=100)
        assert gone is None


async def test_custom_resources_of_both_scopes_are_followed(server: Server) -> None:
    server.serve_widgets()
    namespace, name = server.namespace(), unique("planet")
    widget = {
        "apiVersion": WIDGETS,
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": namespace},
        "spec": {"size": 1},
    }
    planet = {"apiVersion": WIDGETS, "kind": "Planet", "metadata": {"name": name}, "spec": {}}
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        widgets = factory.informer(WIDGETS, "widgets", namespaces=namespace, memory="metadata")
        planets = factory.informer(WIDGETS, "planets", memory="metadata")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        made = server.api.create(widget)
        server.api.create(planet)
        found = await widgets.wait_for(f"{namespace}/w", bool, timeout_seconds=100)
        star = await planets.wait_for(name, bool, timeout_seconds=100)

        assert found is not None
        assert star is not None
        assert_metadata_alone(found, "Widget", WIDGETS)
        assert_metadata_alone(star, "Planet", WIDGETS)
        assert found.metadata.uid == made["metadata"]["uid"]


async def test_an_audit_of_metadata_finds_no_difference(server: Server) -> None:
    namespace = server.namespace()
    for number in range(3):
        server.api.create(secret(f"s{number}", namespace))
    async with following_secrets(server, namespace) as (_, secrets):
        report = await secrets.audit(timeout_seconds=100)
        assert (report.verdict, report.checked) == ("consistent", 3), report
