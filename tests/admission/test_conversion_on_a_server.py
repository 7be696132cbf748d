"""Conversion as the API server asks for it: its webhook answers by an operator's functions."""

from __future__ import annotations

import base64
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trustme

import pyinformer
from pyinformer.admission import Answer, Webhooks, WebhookServer
from pyinformer.admission.conversion import with_conversion
from pyinformer.errors import APIStatusError
from pyinformer.operator import custom_resource
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pyinformer import Cluster
    from pyinformer.testing import KubeAPIServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(200)]

_GROUP = "convert.acme.io"
_OLD, _NEW = f"{_GROUP}/v1beta1", f"{_GROUP}/v1"


class OldSpec(msgspec.Struct):
    size: int = 1
    engine: str = "postgres:17"


class Spec(msgspec.Struct):
    max_size: int
    engine: str
    version: str


@custom_resource(_OLD, "databases", kind="Database", storage=False)
class OldDatabase(msgspec.Struct):
    spec: OldSpec
    status: dict[str, str] = {}


@custom_resource(_NEW, "databases", versions=[OldDatabase])
class Database(msgspec.Struct):
    spec: Spec
    status: dict[str, str] = {}


app = pyinformer.Operator("db")


@app.convert(OldDatabase, Database)
def upgrade(old: OldDatabase) -> Database:
    """Split the engine."""
    engine, _, version = old.spec.engine.partition(":")
    if engine == "cursed":
        raise ValueError(engine)
    return Database(Spec(old.spec.size, engine, version), old.status)


@app.convert(Database, OldDatabase)
def downgrade(new: Database) -> OldDatabase:
    """Join the engine."""
    return OldDatabase(OldSpec(new.spec.max_size, f"{new.spec.engine}:{new.spec.version}"))


@asynccontextmanager
async def _webhook(ca: trustme.CA) -> AsyncIterator[str]:
    """Serve the conversions on the loopback; yield the URL."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1").configure_cert(context)

    async def convert(body: bytes, _: float | None) -> Answer:
        return app.conversions.answer(body)

    async with WebhookServer(
        {"/convert": convert}, context=context, host="127.0.0.1", port=0
    ) as server:
        yield f"https://127.0.0.1:{server.port}"


@pytest.fixture
async def cluster(kube_apiserver_session: KubeAPIServer, tmp_path: Path) -> AsyncIterator[Cluster]:
    """The server, with both versions and a webhook between them."""
    kube_apiserver_session.ensure_namespace("converted")
    kube_apiserver_session.close_connections()
    kubeconfig = kube_apiserver_session.write_kubeconfig(tmp_path / "kubeconfig")
    ca = trustme.CA()
    async with _webhook(ca) as url, pyinformer.connect(kubeconfig) as found:
        definitions = app.custom_resource_definitions()
        (definition,) = with_conversion(definitions, app.conversions, Webhooks(url=url))
        client = definition["spec"]["conversion"]["webhook"]["clientConfig"]
        client["caBundle"] = base64.b64encode(ca.cert_pem.bytes()).decode()
        stored = await found.create(definition)
        try:
            await _served(found, stored.key)
            yield found
        finally:
            await found.delete(stored)
            await _gone(found, stored.key)


async def _served(cluster: Cluster, key: str) -> None:
    for _ in range(500):
        found = await cluster.get("apiextensions.k8s.io/v1", "customresourcedefinitions", key)
        conditions = found.at("status.conditions", default=[])
        if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
            try:
                await cluster.request("GET", f"/apis/{_OLD}/namespaces/converted/databases")
            except APIStatusError:  # it is established a moment before it is served
                pass
            else:
                return
        await pause(0.1)
    pytest.fail("the definition is not served")


async def _gone(cluster: Cluster, key: str) -> None:
    for _ in range(500):
        try:
            await cluster.get("apiextensions.k8s.io/v1", "customresourcedefinitions", key)
        except pyinformer.NotFoundError:
            return
        await pause(0.1)
    pytest.fail("the definition is not deleted")


def _old(name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "converted", "name": name, "labels": {"a": "b"}}
    return {"apiVersion": _OLD, "kind": "Database", "metadata": metadata, "spec": spec}


async def test_objects_are_read_and_written_in_both_versions(cluster: Cluster) -> None:
    old = await cluster.create(_old("first", size=3))

    new = await cluster.get(_NEW, "databases", old.key)

    assert new.at("spec") == {"max_size": 3, "engine": "postgres", "version": "17"}
    before, after = old.to_dict()["metadata"], new.to_dict()["metadata"]
    before.pop("managedFields", None)
    after.pop("managedFields", None)
    assert before == after

    edited = new.to_dict()
    edited["spec"]["version"] = "18"
    await cluster.patch(new, edited)
    again = await cluster.get(_OLD, "databases", old.key)
    assert again.at("spec") == {"size": 3, "engine": "postgres:18"}


async def test_a_server_side_apply_in_one_version_follows_one_in_the_other(
    cluster: Cluster,
) -> None:
    await cluster.apply(_old("applied", size=3), field_manager="one")
    metadata = {"namespace": "converted", "name": "applied"}
    spec = {"max_size": 4, "engine": "mysql", "version": "8"}
    new = {"apiVersion": _NEW, "kind": "Database", "metadata": metadata, "spec": spec}

    applied = await cluster.apply(new, field_manager="two", force=True)

    assert applied.at("spec") == spec
    old = await cluster.get(_OLD, "databases", "converted/applied")
    assert old.at("spec") == {"size": 4, "engine": "mysql:8"}


async def test_lists_and_watches_are_of_one_version_and_in_order(cluster: Cluster) -> None:
    for number in range(5):
        await cluster.create(_old(f"db-{number}", size=number))

    listed = [one async for one in cluster.list(_NEW, "databases", namespace="converted")]

    assert [(one.metadata.name, one.at("spec.max_size")) for one in listed] == [
        (f"db-{number}", number) for number in range(5)
    ]
    async with pyinformer.SharedInformerFactory(cluster) as factory:
        informer = factory.informer(_NEW, "databases", namespaces=["converted"])
        await factory.start()
        await pyinformer.wait_for_cache_sync(informer, timeout_seconds=60)
        assert len(informer.lister.list()) == 5
        await cluster.create(_old("later", size=9))
        found = await informer.wait_for(
            "converted/later", lambda one: one is not None, timeout_seconds=60
        )
        assert found is not None
        assert found.at("spec") == {"max_size": 9, "engine": "postgres", "version": "17"}


async def test_a_failing_function_is_a_clean_error(cluster: Cluster) -> None:
    with pytest.raises(APIStatusError) as raised:
        await cluster.create(_old("cursed", engine="cursed:1"))

    assert "conversion webhook for" in str(raised.value)
    assert "upgrade raised ValueError; the log of the operator says more" in str(raised.value)
