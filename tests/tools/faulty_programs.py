"""Programs that each have one fault of the alerts, and one that has none.

A program has metrics of its own, and a health endpoint that answers `/metrics`.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import pyinformer
from pyinformer import Controller, ControllerOptions, Result, SharedInformer, SharedInformerFactory
from pyinformer.leaderelection import LeaderElector
from pyinformer.operator import Health
from pyinformer.telemetry.prometheus import PrometheusMetrics
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import HURRIED, pod
from tests.limiters import doubling
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from pyinformer import Cluster, Request
    from pyinformer.objects import JSONObject
    from pyinformer.operator import HealthServer
    from pyinformer.testing import RequestRecord

    _Reconcile: TypeAlias = Callable[[Cluster], Awaitable[Result]]

ALERTS: Final = {
    ("InformerCacheStale", "stale"),
    ("InformerNotSynced", "unsynced"),
    ("InformerForbidden", "unsynced"),
    ("InformerPolling", "polling"),
    ("InformerRelistLoop", "relists"),
    ("InformerHandlerBehind", "late"),
    ("EventLoopBlocked", "blocked"),
    ("ReconcilesFail", "failing"),
    ("ObjectsKeepFailing", "failing"),
    ("NoopWriteStorm", "storm"),
    ("NoLeader", "unled"),
    ("TwoLeaders", "split"),
    ("BucketsWithoutOwner", "unowned"),
}
"""The alert of each program, or of each Lease."""

_OPTIONS: Final = ControllerOptions(rate_limiter=doubling(0.05, 0.1))
_PAUSE_SECONDS: Final = 0.5
_BLOCKED_SECONDS: Final = 1.2  # the watchdog counts blocks of more than a second


@final
class Programs:
    """The running programs.

    Attributes:
        servers: the health endpoint of each, by name.
    """

    def __init__(self, stack: AsyncExitStack) -> None:
        self.servers: dict[str, HealthServer] = {}
        self._stack = stack

    def server(self, **options: Any) -> APIServer:
        """Return a server with one pod."""
        api = self._stack.enter_context(APIServer(**options))
        api.create(pod("a"))
        return api

    async def add(
        self,
        name: str,
        api: APIServer,
        *,
        lease: str = "healthy",
        plural: str = "pods",
        handler: Callable[[object], Any] | None = None,
        reconcile: _Reconcile | None = None,
    ) -> None:
        """Run a program with an informer, a handler, a controller and an elector."""

        async def work(request: Request, _pod: object) -> Result | None:
            return await (reconcile or _nothing)(cluster)

        metrics = PrometheusMetrics()
        cluster = await self._enter(pyinformer.connect(server=api.url, metrics=metrics))
        factory = await self._enter(SharedInformerFactory(cluster, options=HURRIED))
        informer = factory.informer("v1", plural)
        informer.add_event_handler(handler or (lambda _: None), name="handler")
        controller = Controller(name, work, informer, options=_OPTIONS)
        elector = LeaderElector(cluster, lease, namespace="default", identity=name)
        health = Health(factory, controller, elector)
        self.servers[name] = await self._enter(health.server(metrics=metrics))
        await factory.start()
        self.run(_read(informer))
        self.run(elector.run(_lead))
        if plural == "pods":
            await self._enter(controller)

    async def add_sharing(self, name: str, api: APIServer) -> None:
        """Run an operator whose replicas share its keys."""
        metrics = PrometheusMetrics()
        cluster = await self._enter(pyinformer.connect(server=api.url, metrics=metrics))
        buckets = pyinformer.Buckets(namespace="default")
        app = pyinformer.Operator(name, metrics=metrics, sharding=buckets)
        app.reconcile("v1", "pods")(_reconcile_nothing)
        run = await self._enter(app.running(cluster))
        self.servers[name] = await self._enter(run.health.server(metrics=metrics))

    async def _enter(self, lifetime: Any) -> Any:
        return await self._stack.enter_async_context(lifetime)

    def run(self, work: Coroutine[Any, Any, object]) -> None:
        """Run something until all programs end."""
        task = asyncio.create_task(work)

        async def end() -> None:
            task.cancel()
            await asyncio.wait([task])

        self._stack.push_async_callback(end)


@asynccontextmanager
async def faulty_programs() -> AsyncIterator[dict[str, HealthServer]]:
    """Run all programs; the block gets their health endpoints by name."""
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        programs = Programs(stack)
        api = programs.server(bookmark_interval_seconds=1.0)
        api.faults.add(Fault(resource="secrets", status=403, times=None))
        await programs.add("healthy", api)
        programs.run(_change(api))
        await programs.add("unsynced", api, lease="a", plural="secrets")
        await programs.add("failing", api, lease="b", reconcile=_fail)
        await programs.add("storm", api, lease="c", reconcile=_write_the_same)
        unproven = programs.server()
        unproven.faults.add(Fault(verb="list", status=503, times=None, match=_asks_for_one))
        await programs.add("stale", unproven, lease="d")
        unwatched = programs.server()
        unwatched.faults.add(Fault(verb="watch", resource="pods", status=403, times=None))
        await programs.add("polling", unwatched, lease="g")
        expired = programs.server(bookmark_interval_seconds=1.0)
        expired.faults.add(Fault(verb="watch", status=410, times=None, match=_continues))
        await programs.add("relists", expired, lease="e")
        programs.run(_end_watches(expired))
        await programs.add("late", api, lease="f", handler=lambda _: stop.wait())
        api.create(pod("b"))
        await programs.add("one", programs.server(bookmark_interval_seconds=1.0), lease="split")
        await programs.add("two", programs.server(bookmark_interval_seconds=1.0), lease="split")
        unled = programs.server(bookmark_interval_seconds=1.0)
        unled.create(_lease_of_another("unled"))
        unled.create(_lease_of_another("unowned"))
        await programs.add("unled", unled, lease="unled")
        await programs.add_sharing("unowned", unled)
        blocked = _Blocked(api.url)
        stack.callback(blocked.end)
        programs.servers["blocked"] = await asyncio.to_thread(blocked.start)
        try:
            yield programs.servers
        finally:
            stop.set()


@final
class _Blocked:
    """A program in a thread of its own, the loop of which is blocked every few seconds.

    Args:
        url: of its server.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._server: HealthServer | None = None
        self._has_begun = threading.Event()
        self._shall_end = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def start(self) -> HealthServer:
        """Start it; return its health endpoint."""
        self._thread.start()
        self._has_begun.wait()
        assert self._server is not None
        return self._server

    def end(self) -> None:
        """End it."""
        self._shall_end.set()
        self._thread.join()

    async def _run(self) -> None:
        metrics = PrometheusMetrics()
        async with (
            pyinformer.connect(server=self._url, metrics=metrics) as cluster,
            SharedInformerFactory(cluster, options=HURRIED) as factory,
        ):
            factory.informer("v1", "pods")
            await factory.start()
            async with Health(factory).server(metrics=metrics) as self._server:
                self._has_begun.set()
                while not self._shall_end.wait(_BLOCKED_SECONDS):  # the fault
                    await pause(_BLOCKED_SECONDS)


def _lease_of_another(name: str) -> JSONObject:
    """Return a Lease that a leader holds which does not renew it."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"holderIdentity": "gone", "leaseDurationSeconds": 3600},
    }


async def _reconcile_nothing(_request: Request, _pod: object, _cluster: Cluster) -> None:
    """Reconcile nothing."""


def _asks_for_one(request: RequestRecord) -> bool:
    """Return whether a list is to show how old the cache is, and not to fill it."""
    return request.query.get("limit") == "1"


def _continues(request: RequestRecord) -> bool:
    """Return whether a watch of pods continues from a version, which the server has forgotten."""
    return request.resource == "pods" and "sendInitialEvents" not in request.query


async def _change(api: APIServer) -> None:
    for count in itertools.count():
        await pause(_PAUSE_SECONDS)
        api.update(pod("a", count=str(count)))


async def _read(informer: SharedInformer) -> None:
    """Ask for a young cache, since a minute of the alerts is a second here."""
    while True:
        informer.lister.fresh(max_age_seconds=4.0)
        await pause(_PAUSE_SECONDS)


async def _end_watches(api: APIServer) -> None:
    while True:
        await pause(_PAUSE_SECONDS)
        api.end_watches()


async def _lead(_: object) -> None:
    await asyncio.Event().wait()


async def _nothing(_: Cluster) -> Result:
    return Result(requeue_after_seconds=0.5)


async def _fail(_: Cluster) -> Result:
    raise RuntimeError("the fault")


async def _write_the_same(cluster: Cluster) -> Result:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap"}
    body["metadata"] = {"name": "same", "namespace": "default"}
    await cluster.apply(body, field_manager="storm", force=True)
    return Result(requeue_after_seconds=0.1)
