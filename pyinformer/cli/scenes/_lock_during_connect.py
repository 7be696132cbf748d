"""Scene 1.4: a lock is held during the wait for a cluster that does not answer.

One control plane accepts connections and never answers; the callers of two healthy ones must not
wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, final

import anyio
from anyio.abc import TaskGroup

from pyinformer._runtime.tasks import loop_time
from pyinformer.cache.informer import SharedInformerFactory
from pyinformer.cli.scenes._plain_informer import PlainInformer, services_api
from pyinformer.cli.scenes._proxy import Proxy
from pyinformer.cli.scenes._scene import Claim, Scene, SceneResult, fact
from pyinformer.cli.scenes._server import SceneServer, capture_logs, connected, service
from pyinformer.client.cluster import Cluster, ClusterPool

_PAUSED = "paused"
_HEALTHY = ("shop", "media")
_CALLERS = 10  # of each cluster
_PATIENCE_SECONDS = 3.0  # of each caller; in the original it was unbounded
_SOON_SECONDS = 1.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CallerResult:
    """What the callers of a program's clusters received."""

    callers: int = fact("callers of healthy clusters")
    answered: int = fact("of these received their cluster")
    slowest_seconds: float = fact("seconds that the slowest of them waited (at most 3)")
    paused_requests: int = fact("requests to the paused cluster")
    paused_error: str = fact("the error of callers of the paused cluster")


Get: TypeAlias = Callable[[str], Awaitable[object]]
"""Returns the synced informer or factory of a cluster."""


class ClientManager:
    """Returns one synced informer for each cluster, created at its first use.

    The lock prevents two callers from creating two.
    """

    def __init__(
        self,
        proxies: Mapping[str, Proxy],
        namespace: str,
        *,
        clients: AsyncExitStack,
        tasks: TaskGroup,
    ) -> None:
        self._proxies = proxies
        self._namespace = namespace
        self._clients = clients
        self._tasks = tasks
        self._lock = asyncio.Lock()
        self._clusters: dict[str, PlainInformer] = {}

    async def get(self, name: str) -> PlainInformer:
        """Return the informer of a cluster.

        Cancellation:
            Safe.
        """
        async with self._lock:
            if name not in self._clusters:
                api = await self._clients.enter_async_context(services_api(self._proxies[name].url))
                informer = PlainInformer(api.list_namespaced_service, self._namespace)
                self._tasks.start_soon(informer.run)
                await informer.synced.wait()
                self._clusters[name] = informer
            return self._clusters[name]


@asynccontextmanager
async def _plain(proxies: Mapping[str, Proxy], namespace: str) -> AsyncIterator[Get]:
    async with AsyncExitStack() as clients, anyio.create_task_group() as tasks:
        yield ClientManager(proxies, namespace, clients=clients, tasks=tasks).get
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _ours(proxies: Mapping[str, Proxy], namespace: str) -> AsyncIterator[Get]:
    @asynccontextmanager
    async def follow(cluster: Cluster) -> AsyncIterator[SharedInformerFactory]:
        async with SharedInformerFactory(cluster) as factory:
            factory.informer("v1", "services", namespaces=namespace)
            await factory.start()
            yield factory

    async def synced(factory: SharedInformerFactory, timeout_seconds: float) -> None:
        await factory.wait_for_cache_sync(timeout_seconds=timeout_seconds)

    def reach(name: str) -> AbstractAsyncContextManager[Cluster]:
        return connected(proxies[name])

    async with ClusterPool(follow, connect=reach, ready=synced) as pool:
        yield partial(pool.get, timeout_seconds=_PATIENCE_SECONDS)


@final
@dataclass(slots=True)
class _Callers:
    """The callers of one program, and what they received."""

    get: Get
    answered: int = 0
    waited: list[float] = field(default_factory=list)
    received: list[str] = field(default_factory=list)

    async def call(self, name: str) -> None:
        """Request a cluster, with a timeout."""
        began = loop_time()
        try:
            # The holder of the lock times out last, so that its end lets no other caller in.
            with anyio.fail_after(_PATIENCE_SECONDS + (name == _PAUSED)):
                await self.get(name)
            self.answered += name != _PAUSED
        except OSError as error:  # TimeoutError and ClusterUnavailableError are
            if name == _PAUSED:
                self.received.append(str(error) or f"nothing: {type(error).__name__}")
        if name != _PAUSED:
            self.waited.append(loop_time() - began)


async def _play(
    server: SceneServer,
    program: Callable[[Mapping[str, Proxy], str], AbstractAsyncContextManager[Get]],
) -> CallerResult:
    namespace = server.namespace()
    server.api.create(service("shop", namespace))
    async with AsyncExitStack() as stack:
        proxies = {
            name: await stack.enter_async_context(server.proxy()) for name in (_PAUSED, *_HEALTHY)
        }
        proxies[_PAUSED].pause()
        callers = _Callers(await stack.enter_async_context(program(proxies, namespace)))
        async with anyio.create_task_group() as tasks:
            for name in (_PAUSED, *_HEALTHY) * _CALLERS:
                tasks.start_soon(callers.call, name)
        return CallerResult(
            callers=_CALLERS * len(_HEALTHY),
            answered=callers.answered,
            slowest_seconds=max(callers.waited),
            paused_requests=proxies[_PAUSED].arrived,
            paused_error=callers.received[0] if callers.received else "",
        )


async def perform(server: SceneServer) -> SceneResult[CallerResult]:
    """Request all three clusters at once, from both programs.

    Cancellation:
        Ends the scene.
    """
    plain = await _play(server, _plain)
    with capture_logs() as logged:
        ours = await _play(server, _ours)
    return SceneResult(
        plain=plain,
        ours=ours,
        outage=(
            Claim("no caller of a healthy cluster received it", plain.answered == 0),
            Claim("no error named the reason", "nothing" in plain.paused_error),
        ),
        prevented=(
            Claim(
                "pyinformer served every caller of a healthy cluster", ours.answered == ours.callers
            ),
            Claim(f"within {_SOON_SECONDS:g} s", ours.slowest_seconds < _SOON_SECONDS),
            Claim("ten callers cost the paused cluster one request", ours.paused_requests == 1),
            Claim(
                "their error names the cluster and the resource that it waits for",
                _PAUSED in ours.paused_error and "services" in ours.paused_error,
            ),
        ),
        logged=logged,
    )


SCENE = Scene(
    name="held-lock",
    number="1.4",
    title="a lock is held during the wait for a paused cluster, and all other clusters stop",
    references="client-go's WaitForCacheSync; similar: controller-runtime#1219, cluster-api#8948",
    story=(
        "A service for many virtual clusters kept one set of informers for each, created at its"
        " first use: it took the write lock, started the informers, and waited for their caches"
        " while it held the lock. One of the clusters was paused: its address and credentials"
        " existed, but its control plane did not run. The informers retried without end, the wait"
        " never ended, the lock was never released, and every call for any cluster hung. It"
        " appeared only after a restart of the service: before, the paused cluster had been in the"
        " map."
    ),
    plain="an asyncio.Lock around a dict of informers, and a wait for the first list inside it",
    ours=(
        "A ClusterPool opens each cluster once, in its own task, and holds no lock meanwhile. Every"
        " wait is bounded, and its error names the cluster, the resource and the reason. A cluster"
        " that cannot be opened is retried with backoff."
    ),
    verdict="healthy clusters answer at once, and the paused one is named",
    perform=perform,
)
