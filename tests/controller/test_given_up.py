"""A reconcile that gives its object up, whatever its error and its cache are like by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer import Controller, SharedInformer, TerminalError
from tests.cache.informer.clusters import cluster_of
from tests.controller.test_controller_end_to_end import config_map
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer import Cluster, KubeObject, Request
    from pyinformer.testing import APIServer


class _WithoutReasonError(TerminalError):
    def __init__(self) -> None:
        Exception.__init__(self, "no such host")


class _NumberError(TerminalError):
    def __init__(self) -> None:
        super().__init__("no such host")
        self.reason = 7  # type: ignore[assignment]  # a user's mistake


class _BrokenError(TerminalError):
    def __getattribute__(self, name: str) -> object:
        if name == "reason":
            raise ValueError("secret")
        return super().__getattribute__(name)


@pytest.mark.parametrize("error", [_WithoutReasonError(), _NumberError(), _BrokenError("x")])
async def test_the_reason_of_an_error_of_a_user_need_not_be_a_text(
    apiserver: APIServer, error: TerminalError
) -> None:
    """The controller waits for a change of the object, as after any other TerminalError."""
    apiserver.create(config_map("a", v="1"))
    seen = list[object]()

    async def reconcile(request: Request, obj: KubeObject | None) -> None:
        seen.append(obj and obj.at("data.v"))
        raise error

    async with cluster_of(apiserver) as cluster:
        maps = SharedInformer(cluster, "v1", "configmaps")
        async with Controller("maps", reconcile, maps) as controller:
            await until(lambda: controller.status().waiting)
            (waits,) = controller.status().waiting_keys
            apiserver.update(config_map("a", v="2"))
            await until(lambda: "2" in seen)
    assert waits.waiting_for == f"a change; it was given up: {type(error).__name__}"


async def test_an_object_can_be_given_up_when_its_cache_is_closed(apiserver: APIServer) -> None:
    apiserver.create(config_map("a"))
    maps: SharedInformer

    async def reconcile(request: Request, obj: KubeObject | None) -> None:
        await maps.aclose()
        raise TerminalError("no such host")

    async with cluster_of(apiserver) as cluster:
        maps = SharedInformer(cluster, "v1", "configmaps")
        async with Controller("maps", reconcile, maps) as controller:
            await until(lambda: controller.status().outcomes["terminal"])
            assert controller.is_running


async def test_what_was_given_up_and_is_gone_waits_for_nothing(apiserver: APIServer) -> None:
    """Also if a predicate drops deletions."""
    apiserver.create(config_map("a"))
    app = pyinformer.Operator("maps")

    async def reconcile(request: Request, obj: KubeObject | None, cluster: Cluster) -> None:
        raise TerminalError("no such host")

    app.reconcile("v1", "configmaps", predicate=lambda _, new: new is not None)(reconcile)
    async with (
        cluster_of(apiserver) as cluster,
        app.running(cluster, health_port=None) as run,
    ):
        (controller,) = run.controllers
        await until(lambda: controller.status().waiting)
        apiserver.delete("v1", "configmaps", "a", namespace="default")
        await until(lambda: not controller.status().waiting)
        assert controller.status().outcomes["terminal"] == 1
