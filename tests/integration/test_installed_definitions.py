"""Operators that install their definitions on both servers, also several versions at once."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pytest
import yaml

import pyinformer
from pyinformer.errors import ConfigurationError, ForbiddenError, InvalidError, NotFoundError
from pyinformer.operator import Rule, Scale, custom_resource
from tests.integration.accounts import ACCOUNT, apply, as_the_account
from tests.integration.definitions import DEFINITIONS, is_gone
from tests.integration.servers import RealServer
from tests.waiting import pause, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

_MARK = "pyinformer.dev/operator-version"


class _Volume(msgspec.Struct, rename="camel"):
    size_gib: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    ratio: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.5
    name: Annotated[str, msgspec.Meta(pattern="^[a-z]*$", max_length=9)] = ""
    labels: dict[str, str] = {}
    free: dict[str, Any] = {}


@Rule("self.replicas <= 9", message="too many")
class _Spec(msgspec.Struct, rename="camel"):
    replicas: int = 1
    volumes: Annotated[list[_Volume], msgspec.Meta(max_length=4)] = []
    backup: _Volume | None = None
    port: int | str = 5432


class _Larger(_Spec, rename="camel"):
    zone: str = ""


class _Status(msgspec.Struct, rename="camel"):
    replicas: int = 0


class Defined:
    """The models of one group, of a test's own."""

    def __init__(self) -> None:
        self.group = f"g{secrets.token_hex(4)}.example.com"
        self.name = f"pools.{self.group}"

    def model(
        self, spec: type, *, version: str = "v1", old: bool = False, scope: Any = "Namespaced"
    ) -> type[Any]:
        """Return a model; with an old version, which shares the kind."""
        versions = [self._old()] if old else []

        @custom_resource(
            f"{self.group}/{version}",
            "pools",
            kind="Pool",
            short_names=[f"s{self.group[1:9]}"],
            columns={"Ready": "status.replicas"},
            scale=Scale(),
            versions=versions,
            scope=scope,
        )
        class Pool(msgspec.Struct):
            """A pool."""

            spec: spec  # type: ignore[valid-type]  # made here
            status: _Status = msgspec.field(default_factory=_Status)

        Pool.__annotations__["spec"] = spec
        return Pool

    def _old(self) -> type[Any]:
        @custom_resource(f"{self.group}/v1beta1", "pools", kind="Pool", storage=False)
        class OldPool(msgspec.Struct):
            spec: dict[str, Any]

        return OldPool

    def operator(self, model: type[Any], version: str, **settings: Any) -> pyinformer.Operator:
        """Return an operator that installs a model."""
        app = pyinformer.Operator(
            "db-operator", install_definitions=True, version=version, **settings
        )
        declared = vars(model)["__custom_resource__"].resource
        app.reconcile(declared.api_version, "pools", model=model)(_reconcile)
        return app


async def _reconcile(request: pyinformer.Request, pool: Any, cluster: pyinformer.Cluster) -> None:
    """Do nothing."""


@asynccontextmanager
async def _defined(server: Server) -> AsyncIterator[Defined]:
    """Return models whose definition is removed at the end."""
    made = Defined()
    try:
        yield made
    finally:
        if not is_gone(server, *DEFINITIONS, made.name):
            await asyncio.to_thread(server.api.delete, *DEFINITIONS, made.name)
        await until(lambda: is_gone(server, *DEFINITIONS, made.name))


async def _start(server: Server, app: pyinformer.Operator) -> JSONObject:
    """Run an operator until it has started; return its definition."""
    async with server.connect() as cluster, app.running(cluster):
        (wanted,) = app.custom_resource_definitions()
        found = await cluster.get(*DEFINITIONS, wanted["metadata"]["name"])
    return found.to_dict()


def _spec_of(found: JSONObject, version: int = 0) -> set[str]:
    schema = found["spec"]["versions"][version]["schema"]["openAPIV3Schema"]
    return set(schema["properties"]["spec"]["properties"])


async def test_a_definition_is_installed_before_the_caches_and_written_once(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with _defined(server) as made:
        app = made.operator(made.model(_Spec), "1.0")
        first = await _start(server, app)
        assert first["metadata"]["annotations"][_MARK] == "1.0"
        assert caplog.messages == []
        second = await _start(server, app)
        assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        changed = await _start(server, made.operator(made.model(_Larger), "1.1"))
        assert "zone" in _spec_of(changed)
        left = await _start(server, app)
        assert left["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]
        assert "is left as it is" in caplog.text


async def test_a_stored_version_and_a_conversion_stay(server: Server) -> None:
    async with _defined(server) as made:
        before = made.model(_Spec, version="v1alpha1")
        await _start(server, made.operator(before, "1.0"))
        found = await _start(server, made.operator(made.model(_Spec, old=True), "2.0"))
        names = [one["name"] for one in found["spec"]["versions"]]
        assert names == ["v1", "v1beta1", "v1alpha1"]
        assert found["status"]["storedVersions"] == ["v1alpha1", "v1"]
        webhook = {
            "clientConfig": {"url": "https://127.0.0.1:9/convert"},
            "conversionReviewVersions": ["v1"],
        }
        found["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        await asyncio.to_thread(server.api.update, found)
        after = await _start(server, made.operator(made.model(_Spec), "3.0"))
        assert after["spec"]["conversion"] == found["spec"]["conversion"]
        assert [one["name"] for one in after["spec"]["versions"]] == ["v1", "v1alpha1"]


async def test_replicas_of_two_versions_that_start_at_once_leave_the_newer_definition(
    server: Server,
) -> None:
    namespace = server.namespace()
    async with _defined(server) as made:
        election = pyinformer.LeaderElection(namespace=namespace)
        apps = [
            made.operator(
                made.model(_Larger if version == "2.0" else _Spec),
                version,
                leader_election=election,
            )
            for version in ("1.0", "2.0", "1.0", "2.0", "1.0")
        ]
        await asyncio.gather(*(_start(server, app) for app in apps))
        end = await asyncio.to_thread(server.api.get, *DEFINITIONS, made.name)
        assert end["metadata"]["annotations"][_MARK] == "2.0"
        assert "zone" in _spec_of(end)


async def test_a_definition_that_the_server_refuses_ends_the_start(server: Server) -> None:
    async with _defined(server) as made:
        await _start(server, made.operator(made.model(_Spec), "1.0"))
        app = made.operator(made.model(_Spec, scope="Cluster"), "2.0")
        with pytest.raises(InvalidError, match="scope"):
            await _start(server, app)


async def test_names_that_the_server_does_not_accept_end_the_start(server: Server) -> None:
    if not isinstance(server, RealServer):
        pytest.skip("the embedded server accepts them")
    async with _defined(server) as made:
        await _start(server, made.operator(made.model(_Spec), "1.0"))

        @custom_resource(f"{made.group}/v1", "others", kind="Pool")
        class Other(msgspec.Struct):
            spec: dict[str, Any]

        app = pyinformer.Operator("other", install_definitions=True)
        app.reconcile(f"{made.group}/v1", "others", model=Other)(_reconcile)
        try:
            with pytest.raises(ConfigurationError, match="does not accept its names"):
                await _start(server, app)
        finally:
            await asyncio.to_thread(server.api.delete, *DEFINITIONS, f"others.{made.group}")


async def _may_read(cluster: pyinformer.Cluster, name: str) -> bool:
    """Return whether the server knows the roles by now."""
    try:
        await cluster.get(*DEFINITIONS, name)
    except ForbiddenError:
        return False
    except NotFoundError:
        pass
    return True


async def test_the_printed_role_is_enough_to_install(strict: Server) -> None:
    namespace = strict.namespace()
    async with _defined(strict) as made:
        app = made.operator(made.model(_Spec), "1.0")
        text = app.required_rbac(
            namespaces=namespace, name=made.group, service_account=f"{namespace}/{ACCOUNT}"
        )
        async with as_the_account(strict, namespace) as cluster:
            run = app.running(cluster, namespaces=namespace)
            with pytest.raises(ForbiddenError, match="pyinformer rbac"):
                await run.start()
            await run.aclose()
            await apply(strict, *yaml.safe_load_all(text))
            while not await _may_read(cluster, made.name):
                await pause(0.05)
            async with app.running(cluster, namespaces=namespace) as run:
                assert run.health.ready()
            later = made.operator(made.model(_Larger), "2.0")
            async with later.running(cluster, namespaces=namespace):
                found = await asyncio.to_thread(strict.api.get, *DEFINITIONS, made.name)
                assert "zone" in _spec_of(found)
