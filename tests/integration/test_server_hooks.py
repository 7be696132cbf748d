"""Hooks of an operator: both servers ask them alike, by URL; the embedded one in process, too."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
import trustme

import pyinformer
from pyinformer.admission import Denied, Review, Webhooks
from pyinformer.errors import APIStatusError, ConflictError
from pyinformer.operator import Scale, custom_resource
from tests.integration.objects import unique
from tests.integration.servers import EmbeddedServer, Server
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from pathlib import Path

    from pyinformer import Cluster
    from pyinformer.objects import JSONObject

_PLACE: Final = ("asked.example.com/v1", "shops")
_GROUP: Final = "admissionregistration.k8s.io/v1"

IN_PROCESS = pytest.mark.parametrize(
    ("server", "in_process"),
    [
        pytest.param("embedded", True, id="in-process"),
        pytest.param("embedded", False, id="embedded-url"),
        pytest.param(
            "real", False, id="real-url", marks=[pytest.mark.real, pytest.mark.timeout(300)]
        ),
    ],
    indirect=["server"],
)


class _Spec(msgspec.Struct):
    engine: str = "postgres"
    image: str = ""
    size: int = 1
    note: str = ""
    tag: str | None = None


class _Status(msgspec.Struct):
    phase: str = ""
    ready: int = 0


@custom_resource(
    *_PLACE,
    kind="Shop",
    scale=Scale(spec_replicas_path="spec.size", status_replicas_path="status.ready"),
)
class _Shop(msgspec.Struct):
    """What the definition is made of: it knows fields that the hooks' model does not."""

    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


class _KnownSpec(msgspec.Struct):
    engine: str = "postgres"
    image: str = ""
    tag: str | None = None


@custom_resource(*_PLACE, kind="Shop")
class _Known(msgspec.Struct):
    spec: _KnownSpec


def _app(webhooks: Webhooks | None) -> pyinformer.Operator:  # noqa: C901 - five small hooks
    app = pyinformer.Operator("asked", webhooks=webhooks)

    @app.reconcile(*_PLACE, model=_Known)
    async def reconcile(request: Any, shop: Any, cluster: Any) -> None:
        """Do nothing."""

    @app.default(*_PLACE, model=_Known)
    def fill(shop: _Known, review: Review[_Known]) -> None:
        shop.spec.image = shop.spec.image or f"{shop.spec.engine}:17"
        shop.spec.tag = "set by a default"

    @app.validate(*_PLACE, model=_Known, operations=["create", "update", "delete"])
    async def check(shop: _Known, review: Review[_Known]) -> None:
        if review.operation == "delete" and shop.spec.engine == "kept":
            raise Denied("it is kept", status=409)
        if shop.spec.engine == "slow":
            review.warn(f"slow engines are slow, {review.user.name}")
        if review.old and review.old.spec.engine != shop.spec.engine:
            raise Denied("spec.engine cannot be changed")
        if shop.spec.engine == "broken":
            raise ValueError("a secret text")

    @app.validate(*_PLACE, when={"large": "object.spec.size > 5"}, name="large")
    def refuse(shop: pyinformer.KubeObject, review: Review) -> None:
        raise Denied("too large", status=403)

    @app.validate(_PLACE[0], "shops/status")
    def check_status(shop: pyinformer.KubeObject, review: Review) -> None:
        if shop.at("status.phase", str, default="") == "odd":
            raise Denied("odd phase")

    @app.validate(_PLACE[0], "shops/scale", operations=["update"])
    def check_scale(scale: pyinformer.KubeObject, review: Review) -> None:
        if scale.at("spec.replicas", int) > 3:
            raise Denied("beyond 3")

    return app


def _definitions() -> list[JSONObject]:
    app = pyinformer.Operator("definition")
    app.reconcile(*_PLACE, model=_Shop)(lambda _request, _obj, _cluster: None)
    return app.custom_resource_definitions()


def _shop(name: str, **spec: Any) -> JSONObject:
    metadata = {"namespace": "default", "name": name}
    return {"apiVersion": _PLACE[0], "kind": "Shop", "metadata": metadata, "spec": spec}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


warned: list[str] = []


@asynccontextmanager
async def _asked(server: Server, folder: Path, *, in_process: bool) -> AsyncIterator[Cluster]:
    """Define the resource, and have the server ask the hooks."""
    warned.clear()
    options = pyinformer.client.ConnectionOptions()

    def on_warning(text: str, request: str) -> None:
        warned.append(text)

    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(folder / "tls.key")
    leaf.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    port = _free_port()
    url = Webhooks(url=f"https://127.0.0.1:{port}", certificates=folder, host="127.0.0.1")
    app = _app(None if in_process else url)
    async with pyinformer.connect(
        config=server.config(), options=options, on_warning=on_warning
    ) as cluster:
        made = [
            await cluster.apply(one, field_manager="test", force=True) for one in _definitions()
        ]
        try:
            if in_process:
                assert isinstance(server, EmbeddedServer)
                server.api.use_hooks(app)
                yield cluster
                return
            async with app.running(cluster):
                made += [
                    await cluster.create(one)
                    for one in app.webhook_configurations(ca_bundle=authority.cert_pem.bytes())
                ]
                await _until_asked(cluster)
                yield cluster
        finally:
            for one in reversed(made):
                await cluster.delete(one)


async def _until_asked(cluster: Cluster) -> None:
    for _ in range(600):
        try:
            found = await cluster.create(_shop("probe"), dry_run=True)
            if found.at("spec.image", str, default=""):
                return
        except APIStatusError:
            pass  # not served yet
        await pause(0.1)
    pytest.fail("the server does not follow the configuration")


async def _refusal(write: Awaitable[object]) -> tuple[int, str]:
    with pytest.raises(APIStatusError) as raised:
        await write
    assert raised.value.reason == ""
    return raised.value.status, raised.value.message.partition("denied the request: ")[2]


async def _patch(
    cluster: Cluster, obj: pyinformer.KubeObject, change: JSONObject, subresource: str = ""
) -> object:
    path = f"/apis/{_PLACE[0]}/namespaces/default/{_PLACE[1]}/{obj.metadata.name}/{subresource}"
    return await cluster.request(
        "PATCH",
        path.rstrip("/"),
        body=msgspec.json.encode(change),
        content_type="application/merge-patch+json",
    )


async def _owned(server: Server, name: str) -> dict[tuple[str, str], JSONObject]:
    """Return the fields of spec that managers own; our client drops managedFields."""
    stored = await asyncio.to_thread(server.api.get, *_PLACE, name, "default")
    return {
        (one["manager"], one["operation"]): one["fieldsV1"].get("f:spec", {})
        for one in stored["metadata"]["managedFields"]
    }


@IN_PROCESS
async def test_hooks_complete_refuse_and_warn(
    server: Server, tmp_path: Path, *, in_process: bool
) -> None:
    async with _asked(server, tmp_path, in_process=in_process) as cluster:
        name = unique("shop")
        made = await cluster.create(_shop(name, size=3, note="é"))
        # The fields that the model of the hook does not know stay.
        assert made.to_dict()["spec"] == {
            "engine": "postgres",
            "image": "postgres:17",
            "size": 3,
            "note": "é",
            "tag": "set by a default",
        }
        changed = _patch(cluster, made, {"spec": {"engine": "mysql"}})
        assert await _refusal(changed) == (422, "spec.engine cannot be changed")
        assert (await cluster.get(*_PLACE, f"default/{name}")).at("spec.engine", str) == "postgres"
        large = _patch(cluster, made, {"spec": {"size": 6}})
        assert await _refusal(large) == (403, "too large")

        await cluster.create(_shop(unique("shop"), engine="slow"), dry_run=True)
        assert [one.partition(", ")[0] for one in warned] == ["slow engines are slow"]
        dry = await cluster.create(_shop(unique("shop")), dry_run=True)
        assert dry.at("spec.image", str) == "postgres:17"


@IN_PROCESS
async def test_hooks_are_asked_about_deletions_and_subresources(
    server: Server, tmp_path: Path, *, in_process: bool
) -> None:
    async with _asked(server, tmp_path, in_process=in_process) as cluster:
        name = unique("shop")
        made = await cluster.create(_shop(name, engine="kept"))
        assert await _refusal(cluster.delete(*_PLACE, f"default/{name}")) == (409, "it is kept")
        odd = _patch(cluster, made, {"status": {"phase": "odd"}}, "status")
        assert await _refusal(odd) == (422, "odd phase")
        await _patch(cluster, made, {"status": {"phase": "even"}}, "status")
        scaled = _patch(cluster, made, {"spec": {"replicas": 4}}, "scale")
        assert await _refusal(scaled) == (422, "beyond 3")
        assert (await cluster.get(*_PLACE, f"default/{name}")).at("spec.size", int) == 1


@IN_PROCESS
async def test_a_hook_that_fails_refuses_without_its_text(
    server: Server, tmp_path: Path, *, in_process: bool
) -> None:
    async with _asked(server, tmp_path, in_process=in_process) as cluster:
        with pytest.raises(APIStatusError) as raised:
            await cluster.create(_shop(unique("shop"), engine="broken"))
        assert raised.value.status == 500
        assert "failed calling webhook" in raised.value.message
        assert "a secret text" not in raised.value.message


@IN_PROCESS
async def test_nobody_owns_what_a_default_sets_and_no_managers_fight(
    server: Server, tmp_path: Path, *, in_process: bool
) -> None:
    async with _asked(server, tmp_path, in_process=in_process) as cluster:
        body = _shop(unique("shop"), engine="mysql", size=2)
        first = await cluster.apply(body, field_manager="one")
        assert first.at("spec.image", str) == "mysql:17"
        again = await cluster.apply(body, field_manager="one")
        assert again.metadata.resource_version == first.metadata.resource_version
        name = body["metadata"]["name"]
        assert await _owned(server, name) == {("one", "Apply"): {"f:engine": {}, "f:size": {}}}
        with pytest.raises(ConflictError):
            await cluster.apply(_shop(name, size=3), field_manager="two")
        await cluster.apply(_shop(name, image="other"), field_manager="two")

        made = await cluster.create(_shop(unique("shop"), note="a"), field_manager="three")
        await _patch(cluster, made, {"spec": {"note": "b"}})
        owned = await _owned(server, made.metadata.name)
        assert owned == {
            # The definition has a default for the image, and none for the tag.
            ("three", "Update"): {".": {}, "f:engine": {}, "f:image": {}, "f:size": {}},
            ("pyinformer", "Update"): {"f:note": {}},
        }
