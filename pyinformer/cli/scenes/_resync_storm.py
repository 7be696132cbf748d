"""Scene 1.5: a resync causes useless writes, and a real change waits behind them.

Both controllers have the wrong comparison of the original incident.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median, median_low
from typing import Any, Protocol, final

import anyio

from pyinformer._runtime.tasks import loop_time
from pyinformer.cache.informer import SharedInformer, SharedInformerFactory
from pyinformer.cli.scenes._plain_informer import PlainInformer, services_api
from pyinformer.cli.scenes._proxy import Proxy
from pyinformer.cli.scenes._scene import Claim, Scene, SceneResult, fact
from pyinformer.cli.scenes._server import SceneServer, capture_logs, connected, service, wait_until
from pyinformer.client.cluster import Cluster
from pyinformer.controller import Controller, ControllerOptions
from pyinformer.controller.sources import Request
from pyinformer.objects import JSONObject, KubeObject

_SERVICES = 150
_CHANGES = 5
_HEADLESS = "service.kubernetes.io/headless"  # the label that the controller adds
_RELEASE = "release"  # the label of a real change
_DISTANCE_SECONDS = 0.01  # the latency of every request
_RESYNC_SECONDS = 3.0  # pyinformer spreads it over this time; the plain resync comes at once
_BEFORE_CHANGE_SECONDS = 0.02
_PATIENCE_SECONDS = 100.0  # takes some seconds on an idle machine
_MANY = _SERVICES / 5
_FEW = _SERVICES / 15  # a write in flight, and those that the queue does so that no key starves


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StormResult:
    """What a controller did during a resync."""

    objects: int = fact("objects of the resync")
    unchanged: int = fact("of these unchanged")
    in_vain: int = fact("writes that changed nothing")
    median_behind: int = fact("useless writes that a real change waited for, median of 5")
    median_seconds: float = fact("seconds until a real change was written, median of 5")
    slowest_seconds: float = fact("seconds until a real change was written, slowest")


@final
@dataclass(slots=True)
class Written:
    """The writes of a controller."""

    at: dict[str, float] = field(default_factory=dict)
    """When the real change of a Service was written, by name, on the clock of the loop."""
    behind: dict[str, int] = field(default_factory=dict)
    """How many useless writes were made while the real change of a Service waited, by name."""
    created: int = 0
    in_vain: int = 0
    _in_vain_before: dict[str, int] = field(default_factory=dict)

    def change(self, name: str, labels: Mapping[str, str]) -> None:
        """Record that a change of a Service has arrived in the cache."""
        if _RELEASE in labels and name not in self.at:
            self._in_vain_before.setdefault(name, self.in_vain)

    def put(self, name: str, labels: Mapping[str, str], *, before: str, after: str) -> None:
        """Record a write, by the resource versions before and after it."""
        if before == after:
            self.in_vain += 1
        elif _RELEASE in labels and name not in self.at:
            self.at[name] = loop_time()
            self.behind[name] = self.in_vain - self._in_vain_before.pop(name, self.in_vain)


class ResyncProgram(Protocol):
    """Runs the controller through a proxy."""

    def __call__(
        self, proxy: Proxy, namespace: str, written: Written
    ) -> AbstractAsyncContextManager[Callable[[], None]]:
        """Run the controller and wait for its sync; the yielded function starts a resync."""
        ...


async def perform(server: SceneServer) -> SceneResult[StormResult]:
    """Play the resync of both controllers, one after the other.

    Cancellation:
        Ends the scene.
    """
    plain = await _play(server, _plain, storm_seconds=_PATIENCE_SECONDS)
    with capture_logs() as logged:
        ours = await _play(server, _ours, storm_seconds=_RESYNC_SECONDS)
    return SceneResult(
        plain=plain,
        ours=ours,
        outage=(
            Claim(
                "every write of the plain controller changed nothing",
                plain.in_vain == plain.unchanged,
            ),
            Claim(
                "a real change waited for more than a fifth of them",
                plain.median_behind > _MANY,
            ),
        ),
        prevented=(
            Claim(
                f"with pyinformer a real change waited for fewer than {_FEW:g} of them",
                ours.median_behind < _FEW,
            ),
            Claim(
                "it stopped the useless writes before half of them", ours.in_vain < _SERVICES / 2
            ),
            Claim(
                "it named the controller of the useless writes, once",
                sum(n for line, n in logged.items() if "changed nothing" in line) == 1,
            ),
        ),
        logged=logged,
    )


async def _play(
    server: SceneServer, program: ResyncProgram, *, storm_seconds: float
) -> StormResult:
    """Start a resync, make real changes during it, and wait for its end."""
    namespace, written = server.namespace(), Written()
    for number in range(_SERVICES):
        server.api.create(service(f"service-{number}", namespace))
    async with server.proxy() as proxy, program(proxy, namespace, written) as resync:
        await wait_until(lambda: written.created == _SERVICES, timeout_seconds=_PATIENCE_SECONDS)
        proxy.answers_after_seconds = _DISTANCE_SECONDS
        resync()
        await wait_until(lambda: written.in_vain, timeout_seconds=_PATIENCE_SECONDS)
        began = {}
        for number in range(_SERVICES - _CHANGES, _SERVICES):
            await anyio.sleep(_BEFORE_CHANGE_SECONDS)
            name = f"service-{number}"
            began[name] = loop_time()
            await anyio.to_thread.run_sync(partial(_release, server, namespace, name))
        await wait_until(lambda: len(written.at) == _CHANGES, timeout_seconds=_PATIENCE_SECONDS)
        ended = loop_time()
        everything = _SERVICES - _CHANGES  # the writes of changed objects are not useless
        await wait_until(lambda: written.in_vain >= everything, timeout_seconds=storm_seconds)
        seconds = [written.at.get(name, ended) - at for name, at in began.items()]
        return StormResult(
            objects=_SERVICES,
            unchanged=everything,
            in_vain=written.in_vain,
            median_behind=median_low(written.behind.values()),
            median_seconds=median(seconds),
            slowest_seconds=max(seconds),
        )


def _release(server: SceneServer, namespace: str, name: str) -> None:
    """Change the label that stands for a real change."""
    server.api.patch("v1", "services", name, {"metadata": {"labels": {_RELEASE: "2"}}}, namespace)


def _endpoints(name: str, namespace: str, labels: Mapping[str, str]) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name, "namespace": namespace, "labels": {**labels, _HEADLESS: ""}},
    }


class PlainController:
    """A queue, a worker and a resync, as in controllers that are written without a library."""

    def __init__(self, api: Any, namespace: str, written: Written) -> None:  # noqa: ANN401
        self._api = api
        self._namespace = namespace
        self._written = written
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self.services = PlainInformer(api.list_namespaced_service, namespace, handler=self._change)
        self.endpoints = PlainInformer(api.list_namespaced_endpoints, namespace)

    def resync(self) -> None:
        """Queue every object again."""
        for obj in self.services.cache.values():
            self._add(obj)

    def _change(self, _kind: str, obj: Any) -> None:  # noqa: ANN401 - untyped
        self._written.change(obj.metadata.name, obj.metadata.labels or {})
        self._add(obj)

    def _add(self, obj: Any) -> None:  # noqa: ANN401 - untyped
        name = obj.metadata.name
        if name not in self._waiting:
            self._waiting.add(name)
            self._queue.put_nowait(name)

    async def work(self) -> None:
        """Reconcile one object after the other, without end.

        Cancellation:
            Ends the scene.
        """
        while True:
            name = await self._queue.get()
            self._waiting.discard(name)
            if name in self.services.cache:
                await self._reconcile(name, self.services.cache[name].metadata.labels)

    async def _reconcile(self, name: str, labels: Mapping[str, str]) -> None:
        current = self.endpoints.cache.get(name)
        if current is None:
            body = _endpoints(name, self._namespace, labels)
            await self._api.create_namespaced_endpoints(self._namespace, body)
            self._written.created += 1
        elif current.metadata.labels != labels:  # never equal: the controller has added a label
            desired = copy.deepcopy(current)
            desired.metadata.labels = {**labels, _HEADLESS: ""}
            done = await self._api.replace_namespaced_endpoints(name, self._namespace, desired)
            before, after = current.metadata.resource_version, done.metadata.resource_version
            self._written.put(name, labels, before=before, after=after)


@asynccontextmanager
async def _plain(
    proxy: Proxy, namespace: str, written: Written
) -> AsyncIterator[Callable[[], None]]:
    async with services_api(proxy.url) as api, anyio.create_task_group() as tasks:
        controller = PlainController(api, namespace, written)
        for informer in (controller.endpoints, controller.services):
            tasks.start_soon(informer.run)
            await informer.synced.wait()
        tasks.start_soon(controller.work)
        yield controller.resync
        tasks.cancel_scope.cancel()


@dataclass(frozen=True, slots=True)
class _Reconciler:
    """The same reconcile, with the same wrong comparison."""

    cluster: Cluster
    endpoints: SharedInformer[None]
    written: Written

    async def __call__(self, request: Request, obj: KubeObject | None) -> None:
        """Write the Endpoints of a Service."""
        if obj is None:
            return
        labels = dict(obj.metadata.labels)
        current = self.endpoints.lister.get(request.key)
        if current is None:
            await self.cluster.create(_endpoints(request.name, request.namespace, labels))
            self.written.created += 1
        elif dict(current.metadata.labels) != labels:  # as above
            desired = current.to_dict()
            desired["metadata"]["labels"] = {**labels, _HEADLESS: ""}
            done = await self.cluster.replace(desired)
            before, after = current.metadata.resource_version, done.metadata.resource_version
            self.written.put(request.name, labels, before=before, after=after)


@asynccontextmanager
async def _ours(
    proxy: Proxy, namespace: str, written: Written
) -> AsyncIterator[Callable[[], None]]:
    options = ControllerOptions(resync_period_seconds=_RESYNC_SECONDS, noop_breaker=True)
    async with connected(proxy) as cluster, SharedInformerFactory(cluster) as factory:
        services = factory.informer("v1", "services", namespaces=namespace)
        endpoints = factory.informer("v1", "endpoints", namespaces=namespace)
        services.add_event_handler(
            on_update=lambda _, new: written.change(new.metadata.name, new.metadata.labels)
        )
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=_PATIENCE_SECONDS)
        reconcile = _Reconciler(cluster, endpoints, written)
        async with Controller("endpoints", reconcile, services, options=options):
            yield lambda: None  # its resync starts by itself, every few seconds


SCENE = Scene(
    name="resync-storm",
    number="1.5",
    title="a resync writes everything uselessly, and a real change waits behind it",
    references="kubernetes#94112 and, of the same class, #108077, #42798, #50488, #125675",
    story=(
        "In a cluster with 12,989 Endpoints, nearly all of headless Services, the resync of"
        " Kubernetes 1.17 queued every Service about every 16 hours. The controller compared the"
        " labels of the Endpoints with those of the Service. It had added a label to the Endpoints"
        " itself, so they were never equal, and it wrote 12,954 of them, though none had changed."
        " At 20 writes per second that took ten minutes, while real changes waited in the same"
        " queue and deleted pods stayed in their Endpoints: 504s. A rate of 100 reduced it to five"
        " minutes."
    ),
    plain="one queue, one worker, a resync of everything; the comparison of the original",
    ours=(
        "Resyncs have their own lane: spread over the period, behind every event, and only if"
        " enabled. Writes that return the old resource version are counted. If most writes do, an"
        " ERROR names the controller, and the breaker pauses the lane."
    ),
    verdict="real changes pass during the resync, and the useless writes are named and paused",
    perform=perform,
)
