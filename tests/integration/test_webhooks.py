"""Hooks of an operator at a real API server, which calls them over TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
import pytest
import trustme

import pyinformer
from pyinformer.admission import Denied, Review, Webhooks
from pyinformer.errors import APIStatusError
from pyinformer.operator import custom_resource
from tests.integration.service import Service
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from pyinformer import Cluster
    from pyinformer.testing import KubeAPIServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

_PLACE: Final = ("hooks.acme.io/v1", "databases")
_NAMESPACE: Final = "hooked"


class _Spec(msgspec.Struct):
    engine: str = "postgres"
    image: str = ""
    replicas: int = 1
    extra: dict[str, Any] = {}


@custom_resource(*_PLACE, kind="Database")
class _Database(msgspec.Struct):
    """What the definition is made of: it knows a field that the hooks' model does not."""

    spec: _Spec


class _KnownSpec(msgspec.Struct):
    engine: str = "postgres"
    image: str = ""


@custom_resource(*_PLACE, kind="Database")
class _Known(msgspec.Struct):
    spec: _KnownSpec


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _leaf(authority: trustme.CA, folder: Path) -> None:
    """Write a new leaf: the key first, so that for a moment the pair does not fit."""
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(folder / "tls.key")
    leaf.cert_chain_pems[0].write_to_path(folder / "tls.crt")


def _app(certificates: Path | str, port: int, **how: Any) -> pyinformer.Operator:
    reached = Webhooks(
        url=f"https://127.0.0.1:{port}",
        certificates=certificates,
        host="127.0.0.1",
        port=how.pop("listens_on", port),
    )
    app = pyinformer.Operator("hooks-test", webhooks=reached, **how)

    @app.reconcile(*_PLACE, model=_Known)
    async def reconcile(request: Any, database: Any, cluster: Any) -> None:
        """Do nothing."""

    @app.validate(*_PLACE, model=_Known, operations=["create", "update", "delete"])
    async def check(database: _Known, review: Review[_Known]) -> None:
        if review.operation == "delete" and database.spec.engine == "kept":
            raise Denied("it is kept", status=409)
        if database.spec.engine == "slow":
            review.warn("slow, also in a dry run" if review.dry_run else "slow engines are slow")
        if review.old and review.old.spec.engine != database.spec.engine:
            raise Denied("spec.engine cannot be changed")
        if database.spec.engine == "broken":
            raise ValueError("a secret text")

    @app.validate(*_PLACE, when={"large": "object.spec.replicas > 5"}, name="large")
    def refuse(database: pyinformer.KubeObject, review: Review) -> None:
        raise Denied("too many replicas", status=403)

    @app.default(*_PLACE, model=_Known)
    def fill(database: _Known, review: Review[_Known]) -> None:
        database.spec.image = database.spec.image or f"{database.spec.engine}:17"

    return app


def _database(name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"namespace": _NAMESPACE, "name": name}
    return {
        "apiVersion": _PLACE[0],
        "kind": "Database",
        "metadata": metadata,
        "spec": {"engine": "postgres", **spec},
    }


warned: list[str] = []


@asynccontextmanager
async def _hooked(
    server: KubeAPIServer, folder: Path
) -> AsyncIterator[tuple[Cluster, pyinformer.Operator, trustme.CA]]:
    """Define the resource, run the operator, and have the server ask it."""
    server.ensure_namespace(_NAMESPACE)
    server.close_connections()
    authority = trustme.CA()
    _leaf(authority, folder)
    app = _app(folder, _free_port())
    warned.clear()

    def on_warning(text: str, request: str) -> None:
        warned.append(text)

    kubeconfig = server.write_kubeconfig(folder / "kubeconfig")
    async with pyinformer.connect(kubeconfig, on_warning=on_warning) as cluster:
        (definition,) = _definitions()
        made = [await cluster.apply(definition, field_manager="test", force=True)]
        await _eventually(lambda: _is_served(cluster))
        try:
            async with app.running(cluster):
                bundle = authority.cert_pem.bytes()
                made += [
                    await cluster.create(one)
                    for one in app.webhook_configurations(ca_bundle=bundle)
                ]
                await _eventually(lambda: _is_defaulted(cluster))
                yield cluster, app, authority
        finally:
            for one in reversed(made):
                await cluster.delete(one)


def _definitions() -> list[dict[str, Any]]:
    app = pyinformer.Operator("definition")
    app.reconcile(*_PLACE, model=_Database)(lambda _request, _obj, _cluster: None)
    return app.custom_resource_definitions()


async def _is_served(cluster: Cluster) -> bool:
    try:
        await cluster.create(_database("x"), dry_run=True)
    except APIStatusError:
        return False
    return True


async def _is_defaulted(cluster: Cluster) -> bool:
    try:
        found = await cluster.create(_database("x"), dry_run=True)
    except APIStatusError:
        return False
    return bool(found.at("spec.image", str, default=""))


async def _eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(600):
        if await condition():
            return
        await pause(0.1)
    pytest.fail("the server does not follow the configuration")


async def _refusal(write: Awaitable[object]) -> tuple[int, str]:
    with pytest.raises(APIStatusError) as raised:
        await write
    return raised.value.status, raised.value.message


async def test_the_server_asks_hooks_about_every_write(
    kube_apiserver_session: KubeAPIServer, tmp_path: Path
) -> None:
    async with _hooked(kube_apiserver_session, tmp_path) as (cluster, _, _authority):
        # A default keeps what its model does not know; a validation sees the default.
        made = await cluster.create(_database("a", replicas=3, extra={"b": [1]}))
        assert made.to_dict()["spec"] == {
            "engine": "postgres",
            "image": "postgres:17",
            "replicas": 3,
            "extra": {"b": [1]},
        }
        # A refusal has the words and the status of the hook.
        edited = made.to_dict()
        edited["spec"]["engine"] = "mysql"
        status, message = await _refusal(cluster.patch(made, edited))
        assert status == 422
        assert message.endswith("denied the request: spec.engine cannot be changed")
        # What does not fit the model of the hook is refused by the definition first.
        status, message = await _refusal(cluster.create(_database("b", image=5)))
        assert status == 422
        assert "spec.image" in message
        # A condition decides whether a hook is asked at all.
        status, message = await _refusal(cluster.create(_database("b", replicas=6)))
        assert (status, message.rpartition(": ")[2]) == (403, "too many replicas")
        # A hook that fails refuses, and its text stays here.
        status, message = await _refusal(cluster.create(_database("b", engine="broken")))
        assert status == 500
        assert "failed with ValueError" in message
        assert "secret text" not in message
        # Warnings arrive, also of a dry run, which stores nothing.
        await cluster.create(_database("b", engine="slow"), dry_run=True)
        with pytest.raises(pyinformer.NotFoundError):
            await cluster.get(*_PLACE, f"{_NAMESPACE}/b")
        await cluster.create(_database("b", engine="slow"))
        assert warned == ["slow, also in a dry run", "slow engines are slow"]
        # A deletion is refused by what is deleted.
        kept = await cluster.create(_database("kept", engine="kept"))
        status, message = await _refusal(cluster.delete(kept))
        assert (status, message.rpartition(": ")[2]) == (409, "it is kept")


async def test_a_default_is_asked_again_after_another_webhook_has_changed_the_object(
    kube_apiserver_session: KubeAPIServer, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    port, calls = _free_port(), list[str]()
    reached = Webhooks(
        url=f"https://127.0.0.1:{port}",
        certificates=tmp_path / "other",
        host="127.0.0.1",
        port=port,
    )
    other = pyinformer.Operator("a-first", webhooks=reached)
    other.reconcile("v1", "configmaps")(_nothing)

    @other.default(*_PLACE)
    def count(database: dict[str, Any], review: Review) -> None:
        calls.append(database["spec"].get("image", ""))

    async with _hooked(kube_apiserver_session, tmp_path) as (cluster, _, authority):
        _leaf(authority, tmp_path / "other")
        async with other.running(cluster):
            bundle = authority.cert_pem.bytes()
            (configuration,) = other.webhook_configurations(ca_bundle=bundle)
            made = await cluster.create(configuration)
            try:

                async def is_asked() -> bool:
                    await cluster.create(_database("x"), dry_run=True)
                    return bool(calls)

                await _eventually(is_asked)
                calls.clear()
                await cluster.create(_database("x"), dry_run=True)
                assert calls == ["", "postgres:17"]
            finally:
                await cluster.delete(made)


async def _nothing(_request: object, _obj: object, _cluster: object) -> None:
    """Do nothing."""


async def test_an_apply_does_not_own_what_a_default_has_set(
    kube_apiserver_session: KubeAPIServer, tmp_path: Path
) -> None:
    async with _hooked(kube_apiserver_session, tmp_path) as (cluster, _, _authority):
        by_manager = {"one": _database("applied"), "two": _database("applied", replicas=2)}
        del by_manager["two"]["spec"]["engine"]
        versions = []
        for manager in ("one", "two") * 3:
            found = await cluster.apply(by_manager[manager], field_manager=manager, force=False)
            assert found.at("spec.image") == "postgres:17"
            versions.append(found.metadata.resource_version)
        assert len(set(versions[1:])) == 1  # no manager fights
        stored = kube_apiserver_session.get(*_PLACE, "applied", _NAMESPACE)["metadata"]
        kube_apiserver_session.close_connections()
        owners = {one["manager"]: one["fieldsV1"]["f:spec"] for one in stored["managedFields"]}
        assert owners == {"one": {"f:engine": {}}, "two": {"f:replicas": {}}}
        by_manager["two"]["spec"]["image"] = "own:1"
        other = await cluster.apply(by_manager["two"], field_manager="two", force=False)
        assert other.at("spec.image") == "own:1"


async def test_only_the_removal_of_a_finalizer_is_not_asked_about(
    kube_apiserver_session: KubeAPIServer, tmp_path: Path
) -> None:
    async with _hooked(kube_apiserver_session, tmp_path) as (cluster, _, _authority):
        held = _database("held")
        held["metadata"]["finalizers"] = ["acme.io/one", "acme.io/two"]
        await cluster.delete(await cluster.create(held))
        deleted = await cluster.get(*_PLACE, f"{_NAMESPACE}/held")
        edited = deleted.to_dict()
        edited["metadata"]["finalizers"] = ["acme.io/two"]
        edited["spec"]["engine"] = "mysql"
        status, _ = await _refusal(cluster.patch(deleted, edited))
        assert status == 422
        edited["spec"]["engine"] = "postgres"
        edited["metadata"]["finalizers"] = []
        await cluster.patch(deleted, edited)


async def test_finalizers_can_be_removed_while_no_hook_answers(
    kube_apiserver_session: KubeAPIServer, tmp_path: Path
) -> None:
    """Objects that are being deleted lose their finalizers; all other writes are refused."""
    server = kube_apiserver_session
    async with _hooked(server, tmp_path) as (cluster, app, authority):
        held = _database("held")
        held["metadata"]["finalizers"] = ["acme.io/held"]
        made = await cluster.create(held)
        await cluster.delete(made)
        deleted = await cluster.get(*_PLACE, f"{_NAMESPACE}/held")
        assert deleted.metadata.deletion_timestamp
        configurations = app.webhook_configurations(ca_bundle=authority.cert_pem.bytes())
        elsewhere = f"https://127.0.0.1:{_free_port()}"  # where no server listens
        for one in configurations:
            for hook in one["webhooks"]:
                path = hook["clientConfig"]["url"].rpartition("/")[2]
                hook["clientConfig"]["url"] = f"{elsewhere}/{path}"
            await cluster.apply(one, field_manager="test", force=True)

        async def is_refused() -> bool:
            try:
                await cluster.create(_database("x"), dry_run=True)
            except APIStatusError as error:
                return "connection refused" in error.message
            return False

        await _eventually(is_refused)
        edited = deleted.to_dict()
        edited["metadata"]["finalizers"] = []
        await cluster.patch(deleted, edited)
        with pytest.raises(pyinformer.NotFoundError):
            await cluster.get(*_PLACE, f"{_NAMESPACE}/held")


async def test_no_write_fails_while_the_certificate_is_renewed(
    kube_apiserver_session: KubeAPIServer, tmp_path: Path
) -> None:
    async with _hooked(kube_apiserver_session, tmp_path) as (cluster, app, authority):
        ends = asyncio.Event()
        written = 0

        async def write() -> None:
            nonlocal written
            while not ends.is_set():
                found = await cluster.create(_database("x"), dry_run=True)
                assert found.at("spec.image") == "postgres:17"
                written += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(write())
            for _ in range(3):
                shown = await asyncio.to_thread(_certificate_at, app)
                _leaf(authority, tmp_path)
                while await asyncio.to_thread(_certificate_at, app) == shown:
                    await pause(0.1)
                before = written
                while written < before + 20:
                    await pause(0.05)
            ends.set()


def _certificate_at(app: pyinformer.Operator) -> bytes | None:
    """Return what new connections are shown."""
    assert app.webhooks is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", app.webhooks.listening_port)) as plain,
        context.wrap_socket(plain) as secured,
    ):
        return secured.getpeercert(binary_form=True)


class _Load:
    """Writes without pause, of which half should pass; stores what became of each."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ends = False
        self.outcomes: dict[str, list[str]] = {"postgres": [], "broken": []}

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._write(one)) for one in [*self.outcomes] * 2]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ends = True
        await asyncio.gather(*self._tasks)

    async def _write(self, engine: str) -> None:
        while not self._ends:
            try:
                await self._cluster.create(_database("x", engine=engine), dry_run=True)
            except APIStatusError as error:
                self.outcomes[engine].append(f"{error.status} {error.message}")
            else:
                self.outcomes[engine].append("allowed")

    async def wait(self, count: int) -> None:
        """Wait for so many writes more of each kind."""
        wanted = {engine: len(found) + count for engine, found in self.outcomes.items()}
        while any(len(self.outcomes[engine]) < number for engine, number in wanted.items()):
            await pause(0.05)


async def test_two_replicas_answer_with_a_certificate_of_their_own_while_the_leader_ends(
    kube_apiserver_session: KubeAPIServer, tmp_path: Path
) -> None:
    """Under load no write is refused that should pass, and none passes that should be refused."""
    server = kube_apiserver_session
    server.ensure_namespace(_NAMESPACE)
    server.close_connections()
    kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
    election = pyinformer.LeaderElection(namespace=_NAMESPACE)
    async with (
        Service() as service,
        pyinformer.connect(kubeconfig) as cluster,
        pyinformer.connect(kubeconfig) as other,
        _applied(cluster, _app("self", service.port)),
        _app("self", service.port, leader_election=election, listens_on=0).running(cluster) as one,
    ):
        service.ports.append(one.webhook_port or 0)
        follower = _app("self", service.port, leader_election=election, listens_on=0)
        async with follower.running(other) as two:
            service.ports.append(two.webhook_port or 0)
            await _eventually(lambda: _is_defaulted(cluster))
            async with _Load(cluster) as load:
                await load.wait(30)
                service.ports.remove(one.webhook_port or 0)  # it is not ready any more
                await one.aclose()
                await load.wait(30)
        assert set(load.outcomes["postgres"]) == {"allowed"}
        (refusal,) = set(load.outcomes["broken"])
        assert refusal.startswith("500 ")
        assert "failed with ValueError" in refusal


@asynccontextmanager
async def _applied(cluster: Cluster, app: pyinformer.Operator) -> AsyncIterator[None]:
    """Define the resource, and have the server ask hooks whose authority it does not know yet."""
    made = [await cluster.apply(_definitions()[0], field_manager="test", force=True)]
    try:
        await _eventually(lambda: _is_served(cluster))
        made += [await cluster.create(one) for one in app.webhook_configurations()]
        yield
    finally:
        for one in reversed(made):
            await cluster.delete(one)
