"""What a server can seem to lose: everything at once, a whole resource, the body of an object."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

import pyinformer
from pyinformer import Added, Deleted, Updated
from pyinformer.cache.informer import core_of
from tests.integration.following import follow
from tests.integration.objects import CONFIG_MAPS
from tests.integration.proxy import proxying
from tests.integration.servers import EITHER_CLIENT
from tests.waiting import poll, until

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

MANY = 12
LIMIT = 100_000
DEFINITIONS = ("apiextensions.k8s.io/v1", "customresourcedefinitions")


async def test_everything_deleted_during_an_outage_is_believed_after_the_second_list(
    server: Server,
) -> None:
    namespace = server.namespace()
    names = [f"c{number}" for number in range(MANY)]

    def delete_all() -> None:
        for name in names:
            server.api.delete("v1", "configmaps", name, namespace)

    for name in names:
        server.api.create(CONFIG_MAPS.make(name, namespace))
    async with (
        proxying(server.api) as proxy,
        server.connect(url=proxy.url) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        await one.knows(MANY)

        proxy.refuse()
        await asyncio.to_thread(delete_all)
        await asyncio.to_thread(server.restart)
        proxy.accept()

        await one.settle(server)
        assert not one.informer.lister.list()
        counts = one.informer.status().reflector.guard.counts
        assert (counts["mass_deletes:held"], counts["mass_deletes:confirmed"]) == (1, 1)
        for name in names:
            told = [type(event) for event in one.history.of(f"{namespace}/{name}")]
            assert told == [Added, Deleted]


def definition(group: str, *versions: str) -> JSONObject:
    """Return a definition of gadgets that serves these versions and stores the last of them."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": DEFINITIONS[0],
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[-1],
                    "schema": {"openAPIV3Schema": schema},
                }
                for version in versions
            ],
        },
    }


def gadget(group: str, namespace: str, name: str, version: str = "v1") -> JSONObject:
    """Return a gadget."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{group}/{version}", "kind": "Gadget", "metadata": metadata}


def is_created(server: Server, body: JSONObject) -> bool:
    """Create an object; a real server serves a new definition a moment after it took it."""
    try:
        server.api.create(body)
    except (pyinformer.NotFoundError, pyinformer.errors.InvalidArgumentError):
        return False
    return True


async def create_soon(server: Server, body: JSONObject) -> None:
    """Create an object of a resource that is about to be served."""
    assert await asyncio.to_thread(poll, lambda: is_created(server, body), timeout_seconds=100)


async def test_a_definition_that_is_deleted_and_made_again_is_followed_by_itself(
    server: Server,
) -> None:
    group, namespace = f"{secrets.token_hex(4)}.example.com", server.namespace()
    server.api.create(definition(group, "v1"))
    await create_soon(server, gadget(group, namespace, "a"))
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformer(cluster, f"{group}/v1", "gadgets") as gadgets,
    ):
        await gadgets.start()
        await gadgets.wait_for_cache_sync(timeout_seconds=100)

        await asyncio.to_thread(server.api.delete, *DEFINITIONS, f"gadgets.{group}")
        await until(
            lambda: core_of(gadgets).introspection.reflector_state()[0] == "absent",
            timeout_seconds=100,
        )
        await until(lambda: not gadgets.lister.list(), timeout_seconds=100)

        await asyncio.to_thread(recreate, server, group)
        await create_soon(server, gadget(group, namespace, "b"))
        await until(lambda: f"{namespace}/b" in gadgets.lister, timeout_seconds=100)
        await until(lambda: core_of(gadgets).introspection.reflector_state()[0] == "watching")


def recreate(server: Server, group: str) -> None:
    """Make a definition again, once the old one is gone for good."""

    def is_made() -> bool:
        try:
            server.api.create(definition(group, "v1"))
        except pyinformer.ConflictError:
            return False
        return True

    assert poll(is_made, timeout_seconds=100)


async def test_an_optional_resource_that_is_not_served_reads_as_empty_until_it_is(
    server: Server,
) -> None:
    group, namespace = f"{secrets.token_hex(4)}.example.com", server.namespace()
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        gadgets = factory.informer(f"{group}/v1", "gadgets", absent="optional")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert gadgets.lister.list() == []

        server.api.create(definition(group, "v1"))
        await create_soon(server, gadget(group, namespace, "a"))
        await until(lambda: f"{namespace}/a" in gadgets.lister, timeout_seconds=100)


async def test_a_definition_with_a_second_version_keeps_the_first_ones_informer_right(
    server: Server,
) -> None:
    """A real server ends the watches of a definition that changes, and forgets their history."""
    group, namespace = f"{secrets.token_hex(4)}.example.com", server.namespace()
    made = server.api.create(definition(group, "v1"))
    await create_soon(server, gadget(group, namespace, "a"))
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformer(cluster, f"{group}/v1", "gadgets") as gadgets,
    ):
        told: list[str] = []
        gadgets.add_event_handler(lambda event: told.append(f"{type(event).__name__} {event.key}"))
        await gadgets.start()
        await gadgets.wait_for_cache_sync(timeout_seconds=100)

        changed: dict[str, Any] = {**definition(group, "v1", "v2"), "metadata": made["metadata"]}
        changed["spec"] = {**made["spec"], "versions": changed["spec"]["versions"]}
        server.api.patch(*DEFINITIONS, f"gadgets.{group}", {"spec": changed["spec"]})
        await create_soon(server, gadget(group, namespace, "b"))
        await until(lambda: f"{namespace}/b" in gadgets.lister, timeout_seconds=100)
        await until(lambda: len(told) == 2)
        assert told == [f"Added {namespace}/a", f"Added {namespace}/b"]


@EITHER_CLIENT
async def test_an_object_over_the_limit_is_one_bad_key_that_heals(server: Server) -> None:
    namespace = server.namespace()
    options = pyinformer.cache.ReflectorOptions(max_object_bytes=LIMIT)

    def sized(size: int) -> JSONObject:
        body = CONFIG_MAPS.make("grows", namespace)
        return {**body, "data": {"text": "x" * size}}

    server.api.create(CONFIG_MAPS.make("other", namespace))
    server.api.create(sized(10))
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster, options=options) as factory,
    ):
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        await one.knows(2)
        server.api.update(sized(3 * LIMIT))
        await until(lambda: "over the limit" in one.informer.lister[f"{namespace}/grows"].problem)
        assert not one.informer.lister[f"{namespace}/other"].problem
        stale = one.informer.last_good(f"{namespace}/grows")
        assert stale is not None
        assert stale.object.at("data.text") == "x" * 10
        server.api.update(sized(20))
        await one.settle(server)
        assert one.informer.lister[f"{namespace}/grows"].at("data.text") == "x" * 20
        told = [type(event) for event in one.history.of(f"{namespace}/grows")]
        assert told == [Added, Updated, Updated]
        assert one.loads == 1
