"""What a tenant writes harms no other: objects nested deeply, or with endless metadata."""

from __future__ import annotations

import asyncio
import secrets
import threading
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from msgspec import json

import pyinformer
from pyinformer.client.transport import Connection
from pyinformer.errors import InvalidObjectError
from tests.integration.following import Followed, follow
from tests.integration.objects import CONFIG_MAPS
from tests.integration.servers import RealServer
from tests.integration.test_losses import create_soon, definition, gadget
from tests.soak import in_soak
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer import Cluster, KubeObject, SharedInformer
    from pyinformer.objects import JSONObject
    from pyinformer.testing import KubeAPIServer
    from tests.integration.servers import Server

LIMIT = 100_000
TOO_DEEP = "it is nested too deeply; 512 levels are the limit"
SHAPES: list[dict[str, Any]] = [
    {},
    {"memory": "raw"},
    {"memory": "compact"},
    {"memory": "metadata"},
    {"sharing": "decoded"},
    {"transform": lambda obj: {**obj, "marked": True}},
    {"label_selector": "team=red"},
]
"""Every way in which objects are kept."""


class Nested:
    """A custom resource that is nested deeply, written as text: no encoder goes that deep."""

    def __init__(self, connection: Connection, group: str, namespace: str) -> None:
        self._connection = connection
        self._path = f"/apis/{group}/v1/namespaces/{namespace}/gadgets"
        self._group = group

    async def create(self, name: str, levels: int) -> None:
        """Create it."""
        value = '{"a":' * levels + "1" + "}" * levels
        text = f'{{"apiVersion":"{self._group}/v1","kind":"Gadget","metadata":{{"name":"{name}",'
        text += f'"labels":{{"team":"red"}}}},"spec":{{"x":{value}}}}}'
        await self._connection.request("POST", self._path, body=text.encode())

    async def patch(self, name: str, number: int) -> None:
        """Change it."""
        path, body = f"{self._path}/{name}", json.encode({"spec": {"n": number}})
        kind = "application/merge-patch+json"
        await self._connection.request("PATCH", path, body=body, content_type=kind)

    async def delete(self, name: str) -> None:
        """Delete it."""
        await self._connection.request("DELETE", f"{self._path}/{name}")

    async def version(self, name: str) -> str:
        """Return its resource version, from the server."""
        answer = await self._connection.request("GET", f"{self._path}/{name}")
        return answer.rpartition(b'"resourceVersion":"')[2].partition(b'"')[0].decode()


async def until_shown(followed: Followed, key: str, version: str) -> None:
    """Wait until a cache has a version of an object."""

    def is_shown() -> bool:
        found = followed.informer.lister.get(key)
        return found is not None and found.metadata.resource_version == version

    await until(is_shown, timeout_seconds=100, what=followed.informer.status())


def check(followed: Followed, key: str) -> None:
    """Ask a cache for an object in every way: it is there, or the error is ours."""
    informer = followed.informer
    obj = informer.lister[key]
    assert obj in informer.lister.list(label_selector="team=red")
    assert obj.key in {one.key for one in informer.lister.by_index("team", "red")}
    assert obj.metadata.uid
    metadata_only = obj.gvk.kind == "PartialObjectMetadata" or len(obj.raw) < 1_000
    assert metadata_only or TOO_DEEP in obj.problem
    assert not obj.annotations
    for read in (obj.to_dict, lambda: obj.at("spec.x"), lambda: pyinformer.diff(obj, obj)):
        try:
            read()
        except (InvalidObjectError, pyinformer.errors.FieldNotFoundError):
            continue
    assert obj.same_content(obj)
    assert followed.loads == 1


@pytest.mark.real
@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("levels", in_soak([2_000, 9_000], otherwise=[2_000]))
async def test_an_object_that_is_nested_deeply_is_one_key_in_every_cache(
    kube_apiserver: KubeAPIServer, levels: int
) -> None:
    """It is patched again and again; other objects change, and are deleted, as if it were not."""
    server = RealServer(kube_apiserver)
    group, namespace = f"{secrets.token_hex(4)}.example.com", server.namespace()
    server.api.create(definition(group, "v1"))
    for name in ("good", "gone"):
        body = gadget(group, namespace, name)
        body["metadata"]["labels"] = {"team": "red"}
        await create_soon(server, body)
    async with (
        aclosing(Connection(server.config())) as connection,
        server.connect() as cluster,
    ):
        nested = Nested(connection, group, namespace)
        await nested.create("early", levels)
        await _follow_all(server, cluster, nested, (group, namespace, levels))


async def _follow_all(
    server: RealServer, cluster: pyinformer.Cluster, nested: Nested, place: tuple[str, str, int]
) -> None:
    group, namespace, levels = place
    api_version = f"{group}/v1"
    async with pyinformer.SharedInformerFactory(cluster) as factory:
        caches = [
            follow(factory, api_version, "gadgets", namespaces=namespace, private=True, **shape)
            for shape in SHAPES
        ]
        for one in caches:
            one.informer.add_index("team", lambda obj: (obj.metadata.labels.get("team", ""),))
        await factory.start()
        for one in caches:
            await one.knows(3)
        await nested.create("late", levels)
        for number in range(5):
            for name in ("early", "late"):
                await nested.patch(name, number)
            labels = {"metadata": {"labels": {"n": f"{number}"}}}
            good = await asyncio.to_thread(
                server.api.patch, api_version, "gadgets", "good", labels, namespace
            )
        await asyncio.to_thread(server.api.delete, api_version, "gadgets", "gone", namespace)
        wanted = {name: await nested.version(name) for name in ("early", "late")}
        wanted["good"] = good["metadata"]["resourceVersion"]
        for one in caches:
            for name, version in wanted.items():
                await until_shown(one, f"{namespace}/{name}", version)
            await until(lambda one=one: one.names() == ["early", "good", "late"])  # type: ignore[misc]
            for name in ("early", "late"):
                check(one, f"{namespace}/{name}")
            report = await one.informer.audit(timeout_seconds=100)
            assert report.verdict == "consistent"
            counts = one.informer.status().reflector.guard.counts
            assert not {"unknown_events", "undecodable:skipped"} & counts.keys()


@pytest.mark.real
@pytest.mark.timeout(300)
async def test_threads_with_small_stacks_survive_the_deepest_object(
    kube_apiserver: KubeAPIServer,
) -> None:
    """A loop in a thread of 256 KiB, and a plain reconcile there, which decodes each object."""
    server = RealServer(kube_apiserver)
    group, namespace = f"{secrets.token_hex(4)}.example.com", server.namespace()
    server.api.create(definition(group, "v1"))
    await create_soon(server, gadget(group, namespace, "good"))
    async with aclosing(Connection(server.config())) as connection:
        await Nested(connection, group, namespace).create("deep", 9_900)
    before = threading.stack_size(256 << 10)
    try:
        found = await asyncio.to_thread(_read_all, server, f"{group}/v1", namespace)
        reconciled = await _reconcile_all(server, f"{group}/v1", namespace)
    finally:
        threading.stack_size(before)
    assert found == {"good": "", "deep": TOO_DEEP}
    assert reconciled == found


def _read_all(server: Server, api_version: str, namespace: str) -> dict[str, str]:
    with (
        pyinformer.run_in_thread() as runner,
        runner.connect(config=server.config()) as cluster,
        cluster.informer_factory() as factory,
    ):
        informer = factory.informer(api_version, "gadgets", namespaces=namespace)
        factory.start()
        factory.wait_for_cache_sync(timeout_seconds=100)
        return {obj.metadata.name: _refusal(obj) for obj in informer.lister.list()}


async def _reconcile_all(server: Server, api_version: str, namespace: str) -> dict[str, str]:
    app, found = pyinformer.Operator("deep"), dict[str, str]()

    @app.reconcile(api_version, "gadgets")
    def reconcile(_: object, obj: pyinformer.KubeObject | None, __: object) -> None:
        assert obj is not None
        found[obj.metadata.name] = _refusal(obj)

    async with server.connect() as cluster, app.running(cluster, namespaces=namespace):
        await until(lambda: len(found) == 2)
    return found


def _refusal(obj: pyinformer.KubeObject) -> str:
    """Decode an object; return nothing, or why it cannot be decoded, as its problem does."""
    try:
        obj.to_dict()
    except InvalidObjectError as error:
        assert TOO_DEEP in obj.problem
        return TOO_DEEP if TOO_DEEP in str(error) else str(error)
    return obj.problem


def endless(name: str, namespace: str, number: int) -> JSONObject:
    """Return a config map whose metadata is 1.8 MB of JSON: a server escapes each character."""
    body = CONFIG_MAPS.make(name, namespace)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "<" * 300_000, "uid": "u"}
    body["metadata"] |= {"ownerReferences": [owner], "labels": {"number": f"{number}"}}
    return body


async def test_metadata_far_over_the_limit_is_one_key_and_costs_no_other_an_event(
    server: Server,
) -> None:
    namespace = server.namespace()
    options = pyinformer.cache.ReflectorOptions(max_object_bytes=LIMIT)
    for name in ("good", "gone"):
        server.api.create(CONFIG_MAPS.make(name, namespace))
    server.api.create(endless("early", namespace, 0))
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster, options=options) as factory,
    ):
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        await one.knows(3)
        for number in range(1, 6):
            for name in ("early", "late"):
                body = endless(name, namespace, number)
                write = server.api.create if (name, number) == ("late", 1) else server.api.update
                await asyncio.to_thread(write, body)
            labels = {"metadata": {"labels": {"n": f"{number}"}}}
            await asyncio.to_thread(server.api.patch, "v1", "configmaps", "good", labels, namespace)
        await asyncio.to_thread(server.api.delete, "v1", "configmaps", "gone", namespace)
        for obj in await asyncio.to_thread(server.api.list, "v1", "configmaps", namespace):
            meta = obj["metadata"]
            await until_shown(one, f"{namespace}/{meta['name']}", meta["resourceVersion"])
        await until(lambda: one.names() == ["early", "good", "late"])
        for name in ("early", "late"):
            bad = one.informer.lister[f"{namespace}/{name}"]
            assert "over the limit: only its metadata is kept" in bad.problem
            assert bad.metadata.labels["number"] == "5"
        assert one.loads == 1
        assert (await one.informer.audit(timeout_seconds=100)).verdict == "consistent"
        assert "unknown_events" not in one.informer.status().reflector.guard.counts


class DeepObject(NamedTuple):
    """An object that is nested too deeply to be decoded, and who follows it."""

    cluster: Cluster
    informer: SharedInformer[None]
    nested: Nested
    key: str
    object: KubeObject


@asynccontextmanager
async def following_a_deep_object(kube_apiserver: KubeAPIServer) -> AsyncIterator[DeepObject]:
    """Create such an object, and follow it until the end of the block."""
    server = RealServer(kube_apiserver)
    group, namespace = f"{secrets.token_hex(4)}.example.com", server.namespace()
    server.api.create(definition(group, "v1"))
    await create_soon(server, gadget(group, namespace, "good"))
    async with (
        aclosing(Connection(server.config())) as connection,
        server.connect() as cluster,
        pyinformer.SharedInformer(cluster, f"{group}/v1", "gadgets", namespaces=namespace) as made,
    ):
        nested = Nested(connection, group, namespace)
        await nested.create("deep", 2_000)
        deep = await made.wait_for(f"{namespace}/deep", bool, timeout_seconds=100)
        assert deep is not None
        yield DeepObject(cluster, made, nested, f"{namespace}/deep", deep)


@pytest.mark.real
@pytest.mark.timeout(120)
async def test_a_finalizer_is_removed_from_an_object_that_is_nested_deeply(
    kube_apiserver: KubeAPIServer,
) -> None:
    """Nothing but its metadata is decoded; else it could never be deleted."""
    finalizer = pyinformer.controller.finalizer
    async with following_a_deep_object(kube_apiserver) as (cluster, made, nested, key, deep):
        async with finalizer(cluster, deep, "acme.io/cleanup") as held:
            assert held.phase == "active"
        await nested.delete("deep")
        ends = await made.wait_for(key, lambda obj: obj and obj.metadata.deletion_timestamp)
        async with finalizer(cluster, ends, "acme.io/cleanup") as held:
            assert held.phase == "deleting"
        assert await made.wait_for(key, lambda obj: obj is None) is None


@pytest.mark.real
@pytest.mark.timeout(120)
async def test_an_object_that_is_nested_deeply_is_deleted_like_any_other(
    kube_apiserver: KubeAPIServer,
) -> None:
    async with following_a_deep_object(kube_apiserver) as (cluster, made, _, key, deep):
        await cluster.delete(deep, check_version=True)
        assert await made.wait_for(key, lambda obj: obj is None) is None
