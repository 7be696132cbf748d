"""CustomResourceDefinitions of models: both servers take them, and objects make the round trip."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
import secrets
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import pydantic
import pytest

import pyinformer
from pyinformer.cache.reflector import ReflectorOptions
from tests.integration.servers import RealServer
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.objects import JSONObject
    from pyinformer.testing import KubeAPIServer
    from tests.integration.servers import Server


class _Engine(enum.Enum):
    POSTGRES = "postgres"
    MYSQL = "mysql"


class _Volume(msgspec.Struct, rename="camel", frozen=True):
    """Where the data is."""

    size_gib: Annotated[int, msgspec.Meta(ge=1)] = 10


class _Spec(msgspec.Struct, rename="camel"):
    engine: _Engine
    target_port: int | str = 5432
    replicas: Annotated[int, msgspec.Meta(gt=0, lt=10)] = 1
    volume: _Volume = _Volume()
    more: dict[str, list[_Volume]] = {}
    zones: set[str] = set()
    mode: Literal["a", "b"] | None = None
    backup: _Volume | None = None
    free: dict[str, Any] = {}
    anything: Any = None
    engines: list[_Engine] = []
    ports: dict[str, int | str] = {}
    limits: dict[str, float] | None = None
    numbers: set[int] = set()
    secret: bytes = b""
    ratio: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.5
    since: Annotated[dt.datetime, msgspec.Meta(tz=True)] | None = None
    wait: dt.timedelta = dt.timedelta(0)
    name: Annotated[str, msgspec.Meta(pattern="^[a-z]*$", max_length=9)] = ""
    rule: Annotated[
        int,
        msgspec.Meta(extra_json_schema={"x-kubernetes-validations": [{"rule": "self == oldSelf"}]}),
    ] = 5


class _Status(msgspec.Struct, rename="camel", frozen=True):
    ready_replicas: int = 0
    port: int | str | None = None


def struct_model(group: str) -> type[Any]:
    """Return a model with every shape that a definition can say."""

    @pyinformer.operator.custom_resource(
        f"{group}/v1", "databases", short_names=["db"], columns={"Ready": "status.readyReplicas"}
    )
    class Database(msgspec.Struct):
        spec: _Spec
        status: _Status | None = None

    return Database


def pydantic_model(group: str) -> type[Any]:
    """Return a pydantic model."""

    class Spec(pydantic.BaseModel):
        engine: _Engine
        target_port: int | str = pydantic.Field(5432, alias="targetPort")
        mode: Literal["a", "b"] | None = None
        ratio: Annotated[float, pydantic.Field(gt=0, le=1)] = 0.5
        free: dict[str, Any] = {}

    @pyinformer.operator.custom_resource(f"{group}/v1", "databases")
    class Database(pydantic.BaseModel):
        spec: Spec

    return Database


def dataclass_model(group: str) -> type[Any]:
    """Return a dataclass."""

    @dataclasses.dataclass
    class Spec:
        engine: _Engine
        sizes: dict[str, int] = dataclasses.field(default_factory=dict)
        mode: Literal["a", "b"] | None = None

    @pyinformer.operator.custom_resource(f"{group}/v1", "databases")
    @dataclasses.dataclass
    class Database:
        spec: Spec

    Database.__annotations__["spec"] = Spec  # a local class, which msgspec cannot find by name
    return Database


@pytest.mark.covers("controller-runtime pkg/client: should create a new object from a go struct")
@pytest.mark.parametrize("make", [struct_model, pydantic_model, dataclass_model])
async def test_an_object_of_the_model_makes_the_round_trip(
    server: Server, make: Callable[[str], type[Any]]
) -> None:
    group = f"{secrets.token_hex(4)}.acme.io"
    model = make(group)
    namespace = server.namespace()
    server.api.create(pyinformer.operator.custom_resource_definition(model))
    body = {
        "apiVersion": f"{group}/v1",
        "kind": "Database",
        "metadata": {"namespace": namespace, "name": "a"},
        "spec": {"engine": "mysql", "mode": None, "free": {"deep": {"er": 1}}},
    }

    assert await asyncio.to_thread(poll, lambda: _is_created(server, body), timeout_seconds=100)

    async with (
        server.connect() as cluster,
        pyinformer.SharedInformer(cluster, f"{group}/v1", "databases") as databases,
    ):
        await databases.start()
        await databases.wait_for_cache_sync(timeout_seconds=100)
        found = databases.lister.get(f"{namespace}/a")
    assert found is not None
    stored = found.as_type(model)
    assert stored.spec.engine is _Engine.MYSQL
    assert stored.spec.mode is None


@pytest.mark.real
@pytest.mark.timeout(300)
async def test_a_resource_that_comes_back_as_another_kind_is_followed(
    kube_apiserver: KubeAPIServer,
) -> None:
    """Its definition was deleted, and made again with the plural name of before."""
    server = RealServer(kube_apiserver)
    group = f"{secrets.token_hex(4)}.acme.io"
    namespace = server.namespace()
    definition = pyinformer.operator.custom_resource_definition(dataclass_model(group))
    body = {
        "apiVersion": f"{group}/v1",
        "kind": "Database",
        "metadata": {"namespace": namespace, "name": "a"},
        "spec": {"engine": "mysql"},
    }

    def is_undefined() -> bool:
        try:
            server.api.get(definition["apiVersion"], _DEFINITIONS, definition["metadata"]["name"])
        except pyinformer.NotFoundError:
            return True
        return False

    def come_back() -> None:
        server.api.delete(definition["apiVersion"], _DEFINITIONS, definition["metadata"]["name"])
        assert poll(is_undefined, timeout_seconds=100)
        definition["spec"]["names"] |= {"kind": "Store", "singular": "store"}
        server.api.create(definition)
        assert poll(lambda: _is_created(server, {**body, "kind": "Store"}), timeout_seconds=100)

    server.api.create(definition)
    assert await asyncio.to_thread(poll, lambda: _is_created(server, body), timeout_seconds=100)
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformer(
            cluster, f"{group}/v1", "databases", audit_period_seconds=1
        ) as databases,
    ):
        await databases.start()
        await databases.wait_for_cache_sync(timeout_seconds=100)
        (old,) = databases.lister.list()
        await cluster.patch(old, {**old.to_dict(), "spec": {"engine": "postgres"}})

        await asyncio.to_thread(come_back)

        found = await databases.wait_for(
            f"{namespace}/a",
            lambda obj: obj is not None and obj.gvk.kind == "Store",
            timeout_seconds=100,
        )
        assert found is not None
        edited = {**found.to_dict(), "spec": {"engine": "postgres"}}
        assert (await cluster.patch(found, edited)).gvk.kind == "Store"


@pytest.mark.real
@pytest.mark.timeout(300)
async def test_a_definition_may_name_any_kind_for_its_lists(kube_apiserver: KubeAPIServer) -> None:
    server = RealServer(kube_apiserver)
    group = f"{secrets.token_hex(4)}.acme.io"
    namespace = server.namespace()
    definition = pyinformer.operator.custom_resource_definition(dataclass_model(group))
    definition["spec"]["names"] |= {"listKind": "DatabaseCollection"}
    body: JSONObject = {
        "apiVersion": f"{group}/v1",
        "kind": "Database",
        "metadata": {"namespace": namespace, "name": "a"},
        "spec": {"engine": "mysql"},
    }
    server.api.create(definition)
    assert await asyncio.to_thread(poll, lambda: _is_created(server, body), timeout_seconds=100)
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformer(
            cluster, f"{group}/v1", "databases", options=ReflectorOptions(use_watch_list=False)
        ) as databases,
    ):
        await databases.start()
        await databases.wait_for_cache_sync(timeout_seconds=100)

        assert databases.lister.keys() == [f"{namespace}/a"]
        assert (await databases.audit(timeout_seconds=100)).is_consistent


@pyinformer.operator.Rule("self.minimum <= self.maximum", message="minimum is more than maximum")
class _Range(msgspec.Struct, frozen=True):
    minimum: int = 0
    maximum: Annotated[int, pyinformer.operator.Rule("self <= 100")] = 10


class _PoolSpec(msgspec.Struct, frozen=True):
    replicas: int = 1
    range: _Range = _Range()
    names: Annotated[
        list[
            Annotated[str, pyinformer.operator.Rule("self != 'root'"), msgspec.Meta(max_length=9)]
        ],
        msgspec.Meta(max_length=9),
    ] = []
    engine: Annotated[str, pyinformer.operator.Rule("self == oldSelf", message="is fixed")] = "pg"
    port: Annotated[int | str, pyinformer.operator.Rule("self != 0")] = 80


class _PoolStatus(msgspec.Struct, frozen=True):
    replicas: int = 0
    selector: str = ""


def pool_models(group: str) -> tuple[type[Any], type[Any]]:
    """Return two versions of one resource."""

    @pyinformer.operator.custom_resource(f"{group}/v1beta1", "pools", kind="Pool", storage=False)
    class OldPool(msgspec.Struct):
        spec: _PoolSpec = _PoolSpec()

    @pyinformer.operator.custom_resource(
        f"{group}/v1",
        "pools",
        short_names=[f"p{group[:8]}"],
        categories=["suite"],
        scale=pyinformer.operator.Scale(label_selector_path="status.selector"),
        versions=[OldPool],
    )
    class Pool(msgspec.Struct):
        spec: _PoolSpec = _PoolSpec()
        status: _PoolStatus = _PoolStatus()

    return Pool, OldPool


def pydantic_pool(group: str) -> type[Any]:
    """Return a pydantic model with the rules of the others, in part."""

    @pyinformer.operator.Rule("self.minimum <= self.maximum")
    class Range(pydantic.BaseModel):
        minimum: int = 0
        maximum: int = 10

    class Spec(pydantic.BaseModel):
        range: Range = Range()
        replicas: Annotated[int, pyinformer.operator.Rule("self < 9"), pydantic.Field(ge=1)] = 1

    @pyinformer.operator.custom_resource(f"{group}/v1", "pydanticpools")
    class PydanticPool(pydantic.BaseModel):
        spec: Spec

    return PydanticPool


@pyinformer.operator.Rule("self.minimum <= self.maximum")
@dataclasses.dataclass(frozen=True)
class _DataclassRange:
    minimum: int = 0
    maximum: Annotated[int, pyinformer.operator.Rule("self < 9")] = 8


@dataclasses.dataclass
class _DataclassPool:
    spec: _DataclassRange


async def serve(server: Server, model: type[Any], spec: JSONObject) -> JSONObject:
    """Create the definition of a model; return an object of it, once that can be created."""
    definition = pyinformer.operator.custom_resource_definition(model)
    server.api.create(definition)
    version = definition["spec"]["versions"][0]["name"]
    body = {
        "apiVersion": f"{definition['spec']['group']}/{version}",
        "kind": definition["spec"]["names"]["kind"],
        "metadata": {"namespace": server.namespace(), "name": "a"},
        "spec": spec,
    }
    assert await asyncio.to_thread(poll, lambda: _is_created(server, body), timeout_seconds=100)
    return body


async def test_discovery_has_the_names_and_versions_of_a_model(server: Server) -> None:
    group = f"{secrets.token_hex(4)}.acme.io"
    model, _ = pool_models(group)
    await serve(server, model, {})

    async with server.connect() as cluster:
        found = await cluster.find_resource(f"p{group[:8]}")
        old = await cluster.find_resource(f"{group}/v1beta1/pools")

    assert (found.resource.api_version, found.kind) == (f"{group}/v1", "Pool")
    assert found.subresources == {"scale", "status"}
    assert old.kind == "Pool"


@pytest.mark.real
@pytest.mark.timeout(300)
async def test_a_real_server_checks_rules_scales_and_serves_each_version(
    kube_apiserver: KubeAPIServer,
) -> None:
    server = RealServer(kube_apiserver)
    group = f"{secrets.token_hex(4)}.acme.io"
    model, _ = pool_models(group)
    pool = await serve(server, model, {"replicas": 3})
    path = f"namespaces/{pool['metadata']['namespace']}/pools/a"

    scale = server.api.request("GET", f"/apis/{group}/v1/{path}/scale")
    old = server.api.request("GET", f"/apis/{group}/v1beta1/{path}")

    assert scale["spec"]["replicas"] == 3
    assert old["apiVersion"] == f"{group}/v1beta1"
    assert old["spec"]["range"] == {"minimum": 0, "maximum": 10}
    for name, spec, words in (
        ("b", {"range": {"minimum": 11}}, "minimum is more than maximum"),
        ("c", {"range": {"maximum": 101}}, "self <= 100"),
        ("d", {"names": ["root"]}, "self != 'root'"),
        ("e", {"port": 0}, "self != 0"),
    ):
        bad = {**pool, "metadata": {**pool["metadata"], "name": name}, "spec": spec}
        with pytest.raises(pyinformer.errors.InvalidError, match=words):
            server.api.create(bad)
    with pytest.raises(pyinformer.errors.InvalidError, match="is fixed"):
        server.api.patch(
            f"{group}/v1",
            "pools",
            "a",
            {"spec": {"engine": "my"}},
            namespace=pool["metadata"]["namespace"],
        )


@pytest.mark.real
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["pydantic", "dataclass"])
async def test_a_real_server_checks_the_rules_of_each_kind_of_model(
    kube_apiserver: KubeAPIServer, kind: str
) -> None:
    server = RealServer(kube_apiserver)
    group = f"{secrets.token_hex(4)}.acme.io"
    declare = pyinformer.operator.custom_resource(f"{group}/v1", "pools", kind="Pool")
    model = pydantic_pool(group) if kind == "pydantic" else declare(_DataclassPool)
    body = await serve(server, model, {})
    spec = {"range": {"minimum": 20}} if kind == "pydantic" else {"minimum": 20}
    bad = {**body, "metadata": {**body["metadata"], "name": "b"}, "spec": spec}

    with pytest.raises(pyinformer.errors.InvalidError, match=r"self\.minimum <= self\.maximum"):
        server.api.create(bad)


_DEFINITIONS = "customresourcedefinitions"


def _is_created(server: Server, body: JSONObject) -> bool:
    try:
        server.api.create(body)
    except (pyinformer.NotFoundError, pyinformer.errors.InvalidArgumentError):
        # A real server serves, and lists, it a moment later.
        return False
    return True
