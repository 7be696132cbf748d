"""Operators that install the definitions of their models when they start."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import pyinformer
from pyinformer.errors import (
    CacheSyncTimeoutError,
    InvalidArgumentError,
    InvalidError,
)
from pyinformer.operator import custom_resource, custom_resource_definition
from pyinformer.testing import APIServer, Fault
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.objects import JSONObject

_DEFINITIONS = ("apiextensions.k8s.io/v1", "customresourcedefinitions")
_RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"
_NAME = "databases.acme.io"
_MARK = "pyinformer.dev/operator-version"


class Spec(msgspec.Struct):
    """What is wanted of a database."""

    size: int


class LargerSpec(msgspec.Struct):
    """The same, with one more field."""

    size: int
    zone: str = ""


@custom_resource("acme.io/v1beta1", "databases", kind="Database", storage=False)
class OldDatabase(msgspec.Struct):
    """An old version."""

    spec: Spec


@custom_resource("acme.io/v1beta1", "databases", kind="Database")
class StoredOldDatabase(msgspec.Struct):
    """The old version when it was stored."""

    spec: Spec


@custom_resource("acme.io/v1", "databases", kind="Database", short_names=["db"])
class Database(msgspec.Struct):
    """The only version."""

    spec: Spec


@custom_resource("acme.io/v1", "databases", kind="Database", versions=[OldDatabase])
class BothDatabases(msgspec.Struct):
    """A version that names the old one."""

    spec: Spec


@custom_resource(
    "acme.io/v1", "databases", kind="Database", columns={"Zone": "spec.zone"}, short_names=["db"]
)
class LargerDatabase(msgspec.Struct):
    """The same version, with more fields."""

    spec: LargerSpec


@pytest.fixture
def api() -> Iterator[APIServer]:
    """A server without definitions."""
    with APIServer() as api:
        yield api


def operator(
    model: type = Database,
    version: str | None = None,
    *,
    name: str = "db-operator",
    api_version: str = "acme.io/v1",
    **settings: Any,
) -> pyinformer.Operator:
    """Return an operator that installs its definitions."""
    app = pyinformer.Operator(name, install_definitions=True, version=version, **settings)
    options = pyinformer.ControllerOptions(sync_timeout_seconds=5.0)
    app.reconcile(api_version, "databases", model=model, options=options)(_reconcile)
    return app


async def _reconcile(_request: pyinformer.Request, _obj: Any, _cluster: pyinformer.Cluster) -> None:
    """Do nothing."""


async def start(api: APIServer, app: pyinformer.Operator) -> JSONObject:
    """Run an operator until it has started; return the definition."""
    async with pyinformer.connect(server=api.url) as cluster, app.running(cluster) as run:
        assert run.health.ready()
    return definition(api)


def definition(api: APIServer) -> JSONObject:
    """Return the definition of databases."""
    return api.get(*_DEFINITIONS, _NAME)


def fields(found: JSONObject) -> set[str]:
    """Return the fields of the spec of the first version."""
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return set(schema["properties"]["spec"]["properties"])


async def test_a_missing_definition_is_created_and_a_second_start_writes_nothing(
    api: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first = await start(api, operator(version="1.0"))
    assert first["metadata"]["annotations"] == {
        "pyinformer.dev/operator": "db-operator",
        _MARK: "1.0",
    }
    assert "serves no databases" not in caplog.text
    assert await start(api, operator(version="1.0")) == first


async def test_a_definition_of_the_same_operator_gets_what_it_lacks(api: APIServer) -> None:
    await start(api, operator(version="1.0"))
    found = await start(api, operator(LargerDatabase, "1.1"))
    assert fields(found) == {"size", "zone"}
    assert found["metadata"]["annotations"][_MARK] == "1.1"
    found = await start(api, operator(version="1.2"))
    assert fields(found) == {"size"}
    assert "additionalPrinterColumns" not in found["spec"]["versions"][0]


async def test_a_definition_without_a_mark_is_taken_over_with_what_others_keep_in_it(
    api: APIServer,
) -> None:
    body = custom_resource_definition(LargerDatabase)
    body["metadata"] |= {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    body["spec"]["versions"][0]["deprecated"] = True
    api.create(body)
    found = await start(api, operator(version="1.0"))
    assert fields(found) == {"size"}
    assert found["metadata"]["labels"] == {"team": "a"}
    assert found["metadata"]["annotations"]["note"] == "b"
    assert found["spec"]["versions"][0]["deprecated"] is True


@pytest.mark.parametrize(
    ("before", "mine", "is_left"),
    [
        pytest.param("2.0", "1.9.9", True, id="newer"),
        pytest.param("1.10", "1.9", True, id="newer-by-number"),
        pytest.param("v2", "1.0", True, id="newer-with-a-v"),
        pytest.param("1.4", None, True, id="mine-has-none"),
        pytest.param("1.4.0", "1.4", False, id="equal"),
        pytest.param("1.4.0rc1", "1.4.0", False, id="of-a-release-candidate"),
        pytest.param("1.4.0+build", "1.4", False, id="build"),
        pytest.param("1.4", "1.4.1", False, id="older"),
        pytest.param(None, "0.1", False, id="without"),
        pytest.param(None, None, False, id="both-without"),
    ],
)
async def test_a_definition_of_a_newer_version_of_the_operator_is_left(
    api: APIServer,
    before: str | None,
    mine: str | None,
    is_left: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await start(api, operator(LargerDatabase, before))
    found = await start(api, operator(Database, mine))
    assert fields(found) == ({"size", "zone"} if is_left else {"size"})
    assert ("is left as it is: it was written by version" in caplog.text) == is_left


async def test_a_definition_of_another_operator_is_left(
    api: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    await start(api, operator(LargerDatabase, "1.0", name="other"))
    found = await start(api, operator(version="9.0"))
    assert fields(found) == {"size", "zone"}
    assert (
        "is left as it is: it is installed by the operator other: remove its annotation"
        in caplog.text
    )


async def test_a_version_in_which_objects_may_be_stored_stays(
    api: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    await start(api, operator(StoredOldDatabase, "1.0", api_version="acme.io/v1beta1"))
    found = await start(api, operator(Database, "2.0"))
    versions = {one["name"]: one["storage"] for one in found["spec"]["versions"]}
    assert versions == {"v1": True, "v1beta1": False}
    assert "keeps v1beta1, which no model has" in caplog.text
    assert await start(api, operator(Database, "2.0")) == found
    async with pyinformer.connect(server=api.url) as cluster:
        body = await cluster.get(*_DEFINITIONS, _NAME)
        status = {**found["status"], "storedVersions": ["v1"]}
        await cluster.status(body, status, field_manager="test")
    found = await start(api, operator(Database, "2.0"))
    assert [one["name"] for one in found["spec"]["versions"]] == ["v1"]


async def test_a_version_that_was_never_stored_goes_with_its_model(api: APIServer) -> None:
    await start(api, operator(BothDatabases, "1.0"))
    found = await start(api, operator(Database, "2.0"))
    assert [one["name"] for one in found["spec"]["versions"]] == ["v1"]
    assert found["spec"]["names"]["shortNames"] == ["db"]
    found = await start(api, operator(BothDatabases, "3.0"))
    assert [one["name"] for one in found["spec"]["versions"]] == ["v1", "v1beta1"]
    assert "shortNames" not in found["spec"]["names"]


def _webhook(**client: Any) -> JSONObject:
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": webhook}


async def test_a_conversion_by_a_webhook_stays(api: APIServer) -> None:
    found = await start(api, operator(BothDatabases, "1.0"))
    found["spec"]["conversion"] = _webhook(url="https://127.0.0.1:9/convert", caBundle="YQ==")
    api.update(found)
    after = await start(api, operator(BothDatabases, "2.0"))
    assert after["spec"]["conversion"] == found["spec"]["conversion"]


async def test_the_conversion_of_the_operator_keeps_the_authority_that_is_there(
    api: APIServer,
) -> None:
    body = custom_resource_definition(BothDatabases)
    body["spec"]["conversion"] = _webhook(url="https://127.0.0.1:9/convert", caBundle="YQ==")
    api.create(body)
    app = operator(BothDatabases, "1.0", webhooks=pyinformer.Webhooks(service="shop/db-operator"))
    app.convert(OldDatabase, BothDatabases)(lambda old: BothDatabases(old.spec))
    app.convert(BothDatabases, OldDatabase)(lambda new: OldDatabase(new.spec))
    async with (
        pyinformer.connect(server=api.url) as cluster,
        app.running(cluster, serves_webhooks=False),
    ):
        pass
    client = definition(api)["spec"]["conversion"]["webhook"]["clientConfig"]
    assert client["caBundle"] == "YQ=="
    assert client["service"]["namespace"] == "shop"
    assert "url" not in client


async def test_the_definition_of_a_model_without_a_declaration_is_not_installed(
    api: APIServer,
) -> None:
    class Foreign(msgspec.Struct):
        spec: Spec

    api.create(custom_resource_definition(LargerDatabase))
    before = definition(api)
    assert await start(api, operator(Foreign)) == before


async def test_without_the_option_nothing_is_installed(api: APIServer) -> None:
    app = pyinformer.Operator("db-operator", version="1.0")
    options = pyinformer.ControllerOptions(sync_timeout_seconds=0.2)
    app.reconcile("acme.io/v1", "databases", model=Database, options=options)(_reconcile)
    with pytest.raises(CacheSyncTimeoutError):
        await start(api, app)
    assert api.list(*_DEFINITIONS) == []


async def test_a_definition_that_is_being_deleted_is_created_again(api: APIServer) -> None:
    body = custom_resource_definition(LargerDatabase)
    body["metadata"]["finalizers"] = ["acme.io/held"]
    api.create(body)
    api.delete(*_DEFINITIONS, _NAME)
    starting = asyncio.create_task(start(api, operator(version="1.0")))
    async with pyinformer.connect(server=api.url) as cluster:
        await asyncio.wait([starting], timeout=0.3)
        assert not starting.done()
        held = await cluster.get(*_DEFINITIONS, _NAME)
        edited = held.to_dict()
        edited["metadata"]["finalizers"] = []
        await cluster.patch(held, edited, field_manager="test")
    assert fields(await starting) == {"size"}


async def test_faults_of_the_server_are_waited_for(
    api: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    for verb in ("get", "create", "get"):
        api.faults.add(Fault(resource=_RESOURCE, verb=verb, status=500))
    api.faults.add(Fault(resource=_RESOURCE, verb="get", body=b"<html>Bad gateway</html>"))
    await start(api, operator(version="1.0"))
    assert caplog.text.count("is not installed yet") <= 4


async def test_a_refused_definition_ends_the_start_with_the_reason(api: APIServer) -> None:
    fault = Fault(resource=_RESOURCE, verb="create", status=422, message="spec: is wrong")
    api.faults.add(fault)
    with pytest.raises(InvalidError, match="spec: is wrong"):
        await start(api, operator(version="1.0"))


async def test_a_cancelled_start_installs_no_further(api: APIServer) -> None:
    api.faults.add(Fault(resource=_RESOURCE, status=500, times=None))
    async with pyinformer.connect(server=api.url) as cluster:
        run = operator(version="1.0").running(cluster, health_port=0)
        starting = asyncio.create_task(run.start())
        await until(lambda: run.health_url is not None)
        await asyncio.wait([starting], timeout=0.3)
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()
        await run.aclose()
    api.faults.clear()
    assert api.list(*_DEFINITIONS) == []


def test_the_rights_are_printed() -> None:
    text = operator().required_rbac(namespaces="shop")
    assert "kind: ClusterRole" in text
    assert "customresourcedefinitions" in text
    assert f"resourceNames:\n  - {_NAME}" in text


@pytest.mark.parametrize("version", ["", "latest", "1." * 60, "a1", "-1"])
def test_a_version_that_cannot_be_compared_is_refused(version: str) -> None:
    with pytest.raises(InvalidArgumentError, match="version"):
        operator(version=version)


def test_the_option_must_be_a_flag() -> None:
    wrong: Any = "yes"
    with pytest.raises(InvalidArgumentError, match="install_definitions"):
        pyinformer.Operator("a", install_definitions=wrong)


async def test_the_definition_of_an_owner_of_children_has_the_label_of_such_kinds(
    api: APIServer,
) -> None:
    """`kubectl apply --applyset` asks for it; other labels stay."""
    label = "applyset.kubernetes.io/is-parent-type"
    await start(api, operator())
    assert "labels" not in definition(api)["metadata"]
    api.patch(*_DEFINITIONS, _NAME, {"metadata": {"labels": {"team": "db"}}})
    app = pyinformer.Operator("db-operator", install_definitions=True)

    @app.reconcile("acme.io/v1", "databases", model=Database, owns=[("v1", "secrets")])
    async def owning(request: object, database: object, children: object) -> None:
        """Have children, perhaps."""

    found = await start(api, app)
    assert found["metadata"]["labels"] == {"team": "db", label: "true"}
    again = await start(api, app)
    assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    (printed,) = app.custom_resource_definitions()
    assert printed["metadata"]["labels"] == {label: "true"}
