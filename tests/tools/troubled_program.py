"""A program that has every trouble that the page `/debug` shows, on an embedded server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

import pyinformer
from pyinformer import (
    ClusterPool,
    Controller,
    ControllerOptions,
    Result,
    SharedInformerFactory,
)
from pyinformer.errors import ClusterUnavailableError
from pyinformer.leaderelection import LeaderElector
from pyinformer.operator import Health, HealthServer
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import HURRIED, pod
from tests.limiters import doubling
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer import Cluster, Request, SharedInformer

HOSTILE: Final = "<img src=x onerror=alert(1)>\u202e\n"
"""A name that would run code if it became HTML, turn what follows around, and break the line."""

_OPTIONS: Final = ControllerOptions(rate_limiter=doubling(900.0, 900.0))
_FAILING: Final = ("shop/cart", "shop/search", "shop/payments")


class QuotaExceededError(Exception):
    """What the reconcile of some keys raises."""


@final
class Program(NamedTuple):
    """The running program."""

    server: HealthServer
    """Its health endpoint."""
    api: APIServer
    """The server that it follows."""
    pods: SharedInformer[None]
    """One of its informers."""

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"{self.server.url}/debug"


@asynccontextmanager
async def troubled_program(*, hostile: str = "") -> AsyncIterator[Program]:
    """Run a program until it has each trouble.

    Args:
        hostile: is put into each name and message that others choose.
    """
    go_on = asyncio.Event()

    async def reconcile(request: Request, obj: object) -> Result | None:
        if request.key in _FAILING:
            raise QuotaExceededError
        if request.key == "shop/spinning":
            return Result(requeue_after_seconds=0.0)
        if request.key == "shop/staged":
            return Result(waiting_for=f"StatefulSet shop/db: 0 of 3 are ready{hostile}")
        if request.key == "shop/slow":
            await go_on.wait()
        return None

    async def audit(event: object) -> None:
        await go_on.wait()

    def connect(name: str) -> Any:
        if name != "eu":
            raise ValueError("no such tenant")
        return pyinformer.connect(server=api.url, name=name)

    with APIServer() as api:
        for key in (
            *_FAILING,
            "shop/spinning",
            "shop/staged",
            "shop/slow",
            "shop/web-1",
            "shop/web-2",
        ):
            namespace, _, name = key.partition("/")
            api.create(pod(name, namespace=namespace))
        api.faults.add(Fault(status=403, resource="secrets", message=hostile, times=None))
        async with ClusterPool(_follow, connect=connect) as pool:
            factory = await pool.get("eu", timeout_seconds=100)
            pods = factory.informer("v1", "pods")
            pods.add_event_handler(audit, name=f"audit{hostile}")
            maps = factory.informer("v1", "configmaps", namespaces="shop")
            maps.add_event_handler(lambda _: None, name="mirror")
            secrets = factory.informer("v1", "secrets")
            await factory.start()
            with suppress(ClusterUnavailableError):
                await pool.get(f"us{hostile}", timeout_seconds=100)
            name = f"databases{hostile}"
            controller = Controller(name, reconcile, pods, workers=3, options=_OPTIONS)
            elector = LeaderElector(pods.cluster, "db-operator", namespace="ops", identity="pod-1")
            health = Health(factory, controller, elector, pool)
            async with controller, health.server() as server, _leading(elector):
                await until(lambda: secrets.status().reflector.last_error)
                await until(lambda: controller.status().hot)
                await until(lambda: controller.status().waiting_keys)
                await until(lambda: elector.status().is_leading)
                await until(lambda: pods.status().handlers[0].in_flight_key)
                yield Program(server, api, pods)
                go_on.set()


@asynccontextmanager
async def _follow(cluster: Cluster) -> AsyncIterator[SharedInformerFactory]:
    async with SharedInformerFactory(cluster, options=HURRIED) as factory:
        yield factory


@asynccontextmanager
async def _leading(elector: LeaderElector) -> AsyncIterator[None]:
    async def lead(_: object) -> None:
        await asyncio.Event().wait()

    leading = asyncio.create_task(elector.run(lead))
    try:
        yield
    finally:
        leading.cancel()
        await asyncio.wait([leading])
