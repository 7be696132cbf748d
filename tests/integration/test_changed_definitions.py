"""What writes do when a definition has changed since discovery was read."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio
import pytest

import pyinformer
from pyinformer import SharedInformerFactory
from pyinformer.errors import (
    CacheSyncTimeoutError,
    InformerError,
    InvalidArgumentError,
    InvalidError,
    NotFoundError,
)
from tests.integration.definitions import DEFINITIONS, is_created, is_gone
from tests.integration.objects import unique
from tests.integration.servers import RealServer
from tests.waiting import settle, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer import Cluster
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

_OPEN: Final[JSONObject] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _spec(**properties: JSONObject) -> JSONObject:
    return {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}},
    }


class Defined:
    """A kind of a test's own, whose definition the test changes behind a cluster's back."""

    def __init__(self, server: Server, cluster: Cluster) -> None:
        self.cluster = cluster
        self.kind = f"Kind{unique('x').partition('-')[2]}"  # with letters of both cases
        self.plural = f"{self.kind.lower()}s"
        self.api_version = f"{self.kind.lower()}.example.com/v1"
        self._server = server
        self.namespace = server.namespace()

    @property
    def _name(self) -> str:
        return f"{self.plural}.{self.api_version.partition('/')[0]}"

    def body(self, *, namespaced: bool = True, **fields: JSONObject) -> JSONObject:
        """Return an object."""
        place = {"namespace": self.namespace} if namespaced else {}
        metadata = {"name": "a", **place}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **fields}

    async def define(
        self, *, namespaced: bool = True, has_status: bool = False, schema: JSONObject = _OPEN
    ) -> None:
        """Create the definition, or change what it says about status and fields."""
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}} if has_status else {},
        }
        names = {"plural": self.plural, "singular": self.kind.lower(), "kind": self.kind}
        definition: JSONObject = {
            "apiVersion": DEFINITIONS[0],
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self._name},
            "spec": {
                "group": self.api_version.partition("/")[0],
                "names": names,
                "scope": "Namespaced" if namespaced else "Cluster",
                "versions": [version],
            },
        }
        async with self._server.connect() as other:
            try:
                found = await other.get(*DEFINITIONS, self._name)
            except NotFoundError:
                await until(lambda: is_created(self._server, definition))
            else:
                await other.patch(found, {**found.to_dict(), "spec": definition["spec"]})
        await until(
            lambda: self._is_described(namespaced, has_status), what="discovery has the change"
        )

    def _is_described(self, *wanted: bool | None) -> bool:
        if not isinstance(self._server, RealServer):
            return True  # the embedded server changes both in one step
        try:
            answer = self._server.api.request("GET", f"/apis/{self.api_version}")
        except NotFoundError:
            answer = {"resources": []}
        found = {one["name"]: one["namespaced"] for one in answer["resources"] or ()}
        return (found.get(self.plural), f"{self.plural}/status" in found) == wanted

    async def remove(self) -> None:
        """Delete the definition."""
        await asyncio.to_thread(self._server.api.delete, *DEFINITIONS, self._name)
        await until(lambda: is_gone(self._server, *DEFINITIONS, self._name))
        await until(lambda: self._is_described(None, False), what="discovery has the removal")


@asynccontextmanager
async def defined(
    server: Server,
    *,
    namespaced: bool = True,
    has_status: bool = False,
    schema: JSONObject = _OPEN,
) -> AsyncIterator[tuple[Cluster, Defined]]:
    """Define a kind in the block."""
    async with server.connect() as cluster:
        kind = Defined(server, cluster)
        await kind.define(namespaced=namespaced, has_status=has_status, schema=schema)
        try:
            yield cluster, kind
        finally:
            await kind.remove()


async def test_a_status_is_stored_after_the_kind_has_got_its_subresource(server: Server) -> None:
    """The old status in the answer is not taken for the new one: values are compared."""
    async with defined(server) as (cluster, kind):
        made = await cluster.create(kind.body(status={"ready": False, "note": "x"}))
        assert made.at("status.ready", bool) is False
        await kind.define(has_status=True)

        stored = await cluster.status(made, {"ready": True})

        assert stored.to_dict()["status"] == {"ready": True}
        now = await cluster.get(kind.api_version, kind.plural, made.key)
        assert now.to_dict()["status"] == {"ready": True}


async def test_a_removal_from_a_status_is_stored_after_the_kind_has_got_its_subresource(
    server: Server,
) -> None:
    async with defined(server) as (cluster, kind):
        made = await cluster.create(kind.body(status={"ready": True, "note": "x"}))
        await kind.define(has_status=True)
        stored = await cluster.status(made, {"ready": True})
        assert stored.to_dict()["status"] == {"ready": True}


async def test_a_status_is_stored_after_the_kind_has_lost_its_subresource(server: Server) -> None:
    async with defined(server, has_status=True) as (cluster, kind):
        made = await cluster.create(kind.body())
        made = await cluster.status(made, {"ready": False})
        await kind.define(has_status=False)

        stored = await cluster.status(made, {"ready": True})

        assert stored.at("status.ready", bool)
        patched = await cluster.patch(stored, {**stored.to_dict(), "status": {"ready": False}})
        assert patched.at("status.ready", bool) is False


async def test_a_patch_of_a_status_is_written_after_the_kind_has_lost_its_subresource(
    server: Server,
) -> None:
    async with defined(server, has_status=True) as (cluster, kind):
        made = await cluster.create(kind.body())
        made = await cluster.status(made, {"ready": False})
        await kind.define(has_status=False)
        patched = await cluster.patch(made, {**made.to_dict(), "status": {"ready": True}})
        assert patched.at("status.ready", bool)


async def test_a_patch_of_a_status_that_got_its_subresource_is_refused(server: Server) -> None:
    async with defined(server) as (cluster, kind):
        made = await cluster.create(kind.body(status={"ready": False}))
        await kind.define(has_status=True)
        with pytest.raises(InvalidArgumentError, match=r"written by status\(\), not by patch\(\)"):
            await cluster.patch(made, {**made.to_dict(), "status": {"ready": True}})


async def test_an_absent_object_is_not_taken_for_a_lost_subresource(server: Server) -> None:
    async with defined(server, has_status=True) as (cluster, kind):
        made = await cluster.create(kind.body())
        await cluster.delete(made)
        with pytest.raises(NotFoundError) as caught:
            await cluster.status(made, {"ready": True})
        assert caught.value.names_object


async def test_a_lost_subresource_is_named(server: Server) -> None:
    async with defined(server, has_status=True) as (cluster, kind):
        made = await cluster.create(kind.body())
        await kind.define(has_status=False)
        with pytest.raises(NotFoundError, match="does not serve the subresource 'status'"):
            await cluster.replace(made, subresource="status")


@pytest.mark.parametrize("namespaced", [True, False])
async def test_writes_continue_after_a_kind_has_come_back_with_another_scope(
    server: Server, *, namespaced: bool
) -> None:
    async with defined(server, namespaced=namespaced) as (cluster, kind):
        await cluster.create(kind.body(namespaced=namespaced))
        await kind.remove()
        await kind.define(namespaced=not namespaced)
        body = kind.body(namespaced=not namespaced)

        made = await cluster.create(body)

        applied = await cluster.apply(body, field_manager="test")
        assert applied.metadata.uid == made.metadata.uid
        with pytest.raises(InvalidArgumentError, match="namespace"):
            await cluster.create(kind.body(namespaced=namespaced))
        assert await cluster.delete(kind.api_version, kind.plural, made.key) is None
        assert await cluster.delete(kind.api_version, kind.plural, made.key) is None


async def test_a_write_to_an_object_of_the_old_scope_names_the_new_one(server: Server) -> None:
    """An object read before: its 404 is not that of a missing object alone."""
    async with defined(server) as (cluster, kind):
        made = await cluster.create(kind.body())
        await kind.remove()
        await kind.define(namespaced=False)
        changed = made.to_dict() | {"spec": {"x": 1}}
        with pytest.raises(NotFoundError, match="is cluster-scoped by now"):
            await cluster.patch(made, changed)

    async with defined(server, namespaced=False) as (cluster, kind):
        made = await cluster.create(kind.body(namespaced=False))
        await kind.remove()
        await kind.define(namespaced=True)
        with pytest.raises(NotFoundError, match="is in namespaces by now"):
            await cluster.status(made, {"ready": True})


@pytest.mark.parametrize("namespaced", [True, False])
@pytest.mark.parametrize("verb", ["create", "delete_collection", "delete"])
async def test_a_write_of_a_collection_in_the_old_scope_names_the_new_one(
    server: Server, verb: str, *, namespaced: bool
) -> None:
    async with defined(server, namespaced=namespaced) as (cluster, kind):
        await cluster.create(kind.body(namespaced=namespaced))
        await kind.remove()
        await kind.define(namespaced=not namespaced)
        name = kind.api_version, kind.plural
        place = kind.namespace if namespaced else None
        with pytest.raises(InformerError, match=r"cluster-scoped|in namespaces|have a namespace"):
            if verb == "create":
                await cluster.create(kind.body(namespaced=namespaced))
            elif verb == "delete":
                await cluster.delete(*name, f"{place}/a" if place else "a")
            else:
                await cluster.delete_collection(*name, namespace=place)


async def test_deletions_follow_another_scope(server: Server) -> None:
    """The first write after the change is each time one that no earlier call has corrected."""
    async with defined(server, namespaced=False) as (cluster, kind):
        await cluster.create(kind.body(namespaced=False))
        await kind.remove()
        await kind.define(namespaced=True)
        key = f"{kind.namespace}/a"
        assert await cluster.delete(kind.api_version, kind.plural, key) is None

    async with defined(server, namespaced=False) as (cluster, kind):
        await cluster.create(kind.body(namespaced=False))
        await kind.remove()
        await kind.define(namespaced=True)
        found = await cluster.delete_collection(
            kind.api_version, kind.plural, namespace=kind.namespace
        )
        assert found == ()


async def test_a_name_finds_the_version_that_is_served_now(server: Server) -> None:
    """A write that reads discovery again corrects what `find_resource` answers, too."""
    async with defined(server) as (cluster, kind):
        assert not (await cluster.find_resource(kind.kind)).has_status
        made = await cluster.create(kind.body(status={"ready": False}))
        await kind.define(has_status=True)
        await cluster.status(made, {"ready": True})
        assert (await cluster.find_resource(kind.kind)).has_status


async def test_an_informer_follows_a_kind_that_has_come_back_in_another_spelling(
    server: Server,
) -> None:
    """The names of a definition cannot be changed, so people delete it and create it again."""
    async with defined(server) as (cluster, kind), SharedInformerFactory(cluster) as factory:
        await cluster.create(kind.body())
        informer = factory.informer(kind.api_version, kind.plural)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        before = kind.kind
        await kind.remove()
        kind.kind = kind.kind.upper()
        await kind.define()
        async with server.connect() as other:
            await other.create(kind.body(data={"is": "new"}))
            await until(lambda: [one.gvk.kind for one in informer.lister.list()] == [kind.kind])
            assert kind.kind != before
            found = informer.lister.list()[0]
            await other.delete(found)
            await until(lambda: not informer.lister.list())


async def test_an_informer_in_a_namespace_syncs_once_its_kind_has_namespaces(
    server: Server,
) -> None:
    async with defined(server, namespaced=False) as (cluster, kind):
        where = pyinformer.SharedInformer(
            cluster, kind.api_version, kind.plural, namespaces=kind.namespace
        )
        async with where as informer:
            with pytest.raises(CacheSyncTimeoutError, match="is cluster-scoped"):
                await informer.wait_for_cache_sync(timeout_seconds=3600)
            await kind.remove()
            await kind.define(namespaced=True)
            await until(lambda: informer.has_synced)
            assert "cluster-scoped" not in str(informer.status())


async def test_an_apply_of_a_status_that_got_its_subresource_is_refused(server: Server) -> None:
    async with defined(server) as (cluster, kind):
        body = kind.body(status={"ready": True})
        made = await cluster.apply(body, field_manager="m")
        assert made.at("status.ready", bool)
        await kind.define(has_status=True)
        with pytest.raises(InvalidArgumentError, match="the rest was applied"):
            await cluster.apply({**body, "status": {"note": "x"}}, field_manager="m")
        with pytest.raises(InvalidArgumentError, match="nothing was sent"):
            await cluster.apply({**body, "status": {"note": "x"}}, field_manager="m")


async def test_a_status_is_applied_after_the_kind_has_lost_its_subresource(server: Server) -> None:
    async with defined(server, has_status=True) as (cluster, kind):
        await cluster.create(kind.body())
        await kind.define(has_status=False)
        made = await cluster.apply(kind.body(status={"ready": True}), field_manager="m")
        assert made.at("status.ready", bool)


@pytest.mark.parametrize("namespaced", [True, False])
async def test_a_controller_that_starts_after_the_change_finds_owners_in_their_new_scope(
    server: Server, *, namespaced: bool
) -> None:
    """Discovery was read before, by an earlier term of leader election for example."""
    async with defined(server, namespaced=not namespaced) as (cluster, kind):
        assert (await cluster.find_resource(f"{kind.api_version}/{kind.plural}")).kind == kind.kind
        await kind.remove()
        await kind.define(namespaced=namespaced)
        async with server.connect() as other:
            owner = await other.create(kind.body(namespaced=namespaced))
        reference = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": "a",
            "uid": owner.metadata.uid,
            "controller": True,
        }
        metadata = {"name": "child", "namespace": kind.namespace, "ownerReferences": [reference]}
        child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        seen: list[str] = []

        async def reconcile(request: pyinformer.Request, _obj: object) -> None:
            if any(one.source.startswith("owned") for one in request.reasons):
                seen.append(request.key)

        async with pyinformer.SharedInformerFactory(cluster) as factory:
            primary = factory.informer(kind.api_version, kind.plural)
            maps = factory.informer("v1", "configmaps", namespaces=kind.namespace)
            controller = pyinformer.Controller("c", reconcile, primary)
            source = controller.owns(maps)
            await factory.start()
            async with controller:
                await asyncio.to_thread(server.api.create, child)
                await until(lambda: seen)
                assert seen[0] == owner.key
                assert [one.metadata.name for one in source.owned_by(owner.key)] == ["child"]


async def test_objects_are_read_and_checked_as_the_changed_definition_says(server: Server) -> None:
    schema = _spec(old={"type": "string"}, n={"type": "integer"})
    async with defined(server, schema=schema) as (cluster, kind):
        made = await cluster.create(kind.body(spec={"old": "x", "n": 1}))

        await kind.define(
            schema=_spec(
                new={"type": "string", "default": "d"}, n={"type": "integer", "maximum": 3}
            )
        )
        now = made
        with anyio.fail_after(60):
            while now.at("spec.new", default=None) is None:
                await settle()
                now = await cluster.get(kind.api_version, kind.plural, made.key)

        assert now.at("spec") == {"n": 1, "new": "d"}
        assert now.metadata.resource_version == made.metadata.resource_version
        listed = cluster.list(kind.api_version, kind.plural)
        assert [one.at("spec") async for one in listed] == [{"n": 1, "new": "d"}]
        for write in (
            cluster.patch(now, {**now.to_dict(), "spec": {"n": 9}}),
            cluster.replace({**now.to_dict(), "spec": {"n": 9}}),
            cluster.apply(kind.body(spec={"n": 9}), field_manager="m", force=True),
        ):
            with pytest.raises(InvalidError, match=r"spec\.n"):
                await write
        written = await cluster.replace(now.to_dict())  # brings the stored bytes up to date
        assert written.metadata.resource_version != now.metadata.resource_version
        again = await cluster.replace(written.to_dict())
        assert again.metadata.resource_version == written.metadata.resource_version


@pytest.mark.parametrize("server", ["real"], indirect=True)
@pytest.mark.real
async def test_a_list_brings_what_a_definition_has_changed_at_the_same_version(
    server: Server,
) -> None:
    """A new default shows in every object at once, at the version that the object has."""
    mode = {"type": "object", "properties": {"mode": {"type": "string", "default": "auto"}}}
    with_default: JSONObject = {"type": "object", "properties": {"spec": mode}}
    async with defined(server) as (cluster, kind):
        made = await cluster.create(kind.body(spec={}))
        async with pyinformer.SharedInformer(cluster, kind.api_version, kind.plural) as informer:
            updates: list[tuple[object, object]] = []
            informer.add_event_handler(
                on_update=lambda old, new: updates.append((old.at("spec"), new.at("spec")))
            )
            await informer.wait_for_cache_sync(timeout_seconds=100)
            await kind.define(schema=with_default)

            async def is_served() -> bool:
                now = await cluster.get(kind.api_version, kind.plural, made.key)
                assert now.metadata.resource_version == made.metadata.resource_version
                return now.at("spec.mode", str, default="") == "auto"

            with anyio.fail_after(60):
                while not await is_served():
                    await settle()
            await asyncio.to_thread(server.restart)

            def is_cached() -> bool:
                return informer.lister[made.key].at("spec.mode", str, default="") == "auto"

            await until(is_cached, what=informer.status())
            await until(lambda: updates == [({}, {"mode": "auto"})], what=updates)
