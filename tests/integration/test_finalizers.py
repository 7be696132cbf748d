"""Finalizers that no controller would remove: a warning names them, and they can be removed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import msgspec

import pyinformer
from pyinformer import Cluster, KubeObject, NotFoundError, Operator, Request
from pyinformer.errors import ModelMismatchError
from tests.integration.objects import CONFIG_MAPS, unique
from tests.waiting import until

if TYPE_CHECKING:
    import pytest

    from tests.integration.servers import Server

FINALIZER = "suite.example.com/cleanup"


class FittingData(msgspec.Struct, frozen=True):
    mode: Literal["one", "other"] = "one"


class Fitting(msgspec.Struct):
    data: FittingData = FittingData()


def stored(server: Server, namespace: str, name: str) -> dict[str, Any] | None:
    """Return an object of the server; None if it is gone."""
    try:
        found: Any = server.api.get("v1", "configmaps", name, namespace)
    except NotFoundError:
        return None
    return dict(found)


def finalizers(server: Server, namespace: str, name: str) -> list[str]:
    """Return the finalizers of an object."""
    found = stored(server, namespace, name) or {"metadata": {}}
    return list(found["metadata"].get("finalizers", []))


async def test_a_finalizer_left_by_a_removed_label_is_reported_and_can_be_released(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    namespace, team = server.namespace(), unique("team")
    server.api.create(CONFIG_MAPS.make("a", namespace, labels={"team": team}))
    cleaned: list[str] = []
    may_release = asyncio.Event()

    async def reconcile(request: Request, obj: KubeObject[Any] | None) -> None:
        is_ours = obj is not None
        if not is_ours and may_release.is_set():
            try:
                obj = await cluster.get("v1", "configmaps", request.key)
            except NotFoundError:
                return
        async with pyinformer.controller.finalizer(cluster, obj, FINALIZER, add=is_ours) as held:
            if not is_ours and held.phase != "gone":
                cleaned.append(request.name)
                held.release()

    async with server.connect() as cluster:
        maps = pyinformer.SharedInformer(
            cluster, "v1", "configmaps", namespaces=namespace, label_selector=f"team={team}"
        )
        async with pyinformer.Controller("maps", reconcile, maps) as controller:
            await until(lambda: finalizers(server, namespace, "a") == [FINALIZER])
            await maps.wait_for(f"{namespace}/a", lambda obj: obj and obj.metadata.finalizers)
            changed = stored(server, namespace, "a") or {}
            changed["metadata"]["labels"]["team"] = "another"
            server.api.update(changed)
            await until(lambda: "has left the selector" in caplog.text)
            assert f"{namespace}/a has left the selector" in caplog.text
            assert FINALIZER in caplog.text

            server.api.delete("v1", "configmaps", "a", namespace)
            assert finalizers(server, namespace, "a") == [FINALIZER]
            may_release.set()
            controller.enqueue(f"{namespace}/a")
            await until(lambda: stored(server, namespace, "a") is None)
    assert cleaned == ["a"]


async def test_an_object_that_does_not_fit_its_model_any_more_can_be_cleaned_up(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    namespace = server.namespace()
    server.api.create({**CONFIG_MAPS.make("a", namespace), "data": {"x": "1"}})
    app = Operator("numbers")
    cleaned: list[str] = []

    async def clean_up(
        request: Request, obj: KubeObject, cluster: Cluster, error: ModelMismatchError
    ) -> None:
        async with pyinformer.controller.finalizer(cluster, obj, FINALIZER, add=False) as held:
            if held.phase == "deleting":
                cleaned.append(f"{request.name} {error.path}")
                return
        raise error

    @app.reconcile(
        "v1", "configmaps", model=Fitting, field_selector="metadata.name=a", on_unreadable=clean_up
    )
    async def reconcile(request: Request, fitting: Fitting | None, cluster: Cluster) -> None:
        if fitting is not None:
            async with pyinformer.controller.finalizer(cluster, app.object_of(fitting), FINALIZER):
                pass

    async with server.connect() as cluster, app.running(cluster, namespaces=namespace) as run:
        await until(lambda: finalizers(server, namespace, "a") == [FINALIZER])
        server.api.patch("v1", "configmaps", "a", {"data": {"mode": "neither"}}, namespace)
        await until(lambda: run.controllers[0].status().outcomes["terminal"])
        assert "data.mode" in caplog.text
        server.api.delete("v1", "configmaps", "a", namespace)
        await until(lambda: stored(server, namespace, "a") is None)
    assert cleaned == ["a data.mode"]
