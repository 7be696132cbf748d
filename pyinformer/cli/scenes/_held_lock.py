"""Scene 1.4: a lock is held while a cluster is waited for, and that cluster sleeps.

In go a control plane that accepts connections and never answers, and two healthy ones; out comes
who of their callers gets an answer, and what the others are told.
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

from pyinformer.cli.scenes._environment import Environment, capture_logs, connected, service
from pyinformer.cli.scenes._plain_informer import PlainInformer, services_api
from pyinformer.cli.scenes._proxy import Proxy
from pyinformer.cli.scenes._scene import Claim, Scene, SceneResult, fact
from pyinformer.cluster import Cluster, ClusterPool
from pyinformer.informer import SharedInformerFactory

_PAUSED = "paused"
_HEALTHY = ("shop", "media")
_CALLERS = 10  # of each cluster
_PATIENCE_SECONDS = 3.0  # of each caller; the original's had no end
_SOON_SECONDS = 1.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CallerResult:
    """What the callers of a program's clusters got."""

    callers: int = fact("callers of healthy clusters")
    answered: int = fact("of these got their cluster")
    slowest_seconds: float = fact("seconds that the slowest of them waited (they give up at 3)")
    paused_requests: int = fact("requests that the paused cluster got")
    paused_callers_told: str = fact("what callers of the paused cluster were told")


Get: TypeAlias = Callable[[str], Awaitable[object]]
"""Returns what follows the Services of a cluster, once it has synced."""


class ClientManager:
    """Gives each cluster one synced informer, made when it is first asked for.

    The lock makes sure that two callers do not make two of them.
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
    """Those who ask for clusters, and what they got."""

    get: Get
    answered: int = 0
    waited: list[float] = field(default_factory=list)
    received: list[str] = field(default_factory=list)

    async def call(self, name: str) -> None:
        """Ask for a cluster, and have patience."""
        began = anyio.current_time()
        try:
            # Who holds the lock goes last, so that nobody is let in because the scene ends.
            with anyio.fail_after(_PATIENCE_SECONDS + (name == _PAUSED)):
                await self.get(name)
            self.answered += name != _PAUSED
        except OSError as error:  # TimeoutError and ClusterUnavailableError are
            if name == _PAUSED:
                self.received.append(str(error) or f"nothing: {type(error).__name__}")
        if name != _PAUSED:
            self.waited.append(anyio.current_time() - began)


async def _play(
    environment: Environment,
    program: Callable[[Mapping[str, Proxy], str], AbstractAsyncContextManager[Get]],
) -> CallerResult:
    namespace = environment.namespace()
    environment.api.create(service("shop", namespace))
    async with AsyncExitStack() as stack:
        proxies = {
            name: await stack.enter_async_context(environment.proxy())
            for name in (_PAUSED, *_HEALTHY)
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
            paused_callers_told=callers.received[0] if callers.received else "",
        )


async def perform(environment: Environment) -> SceneResult[CallerResult]:
    """Ask for all three clusters at once, of each program.

    Cancellation:
        Ends it.
    """
    plain = await _play(environment, _plain)
    with capture_logs() as logged:
        ours = await _play(environment, _ours)
    return SceneResult(
        plain=plain,
        ours=ours,
        outage=(
            Claim("no caller of a healthy cluster got it", plain.answered == 0),
            Claim("and nobody was told why", "nothing" in plain.paused_callers_told),
        ),
        prevented=(
            Claim(
                "ours gave every caller of a healthy cluster what it asked for",
                ours.answered == ours.callers,
            ),
            Claim(f"within {_SOON_SECONDS:g} s", ours.slowest_seconds < _SOON_SECONDS),
            Claim("ten callers cost the paused cluster one request", ours.paused_requests == 1),
            Claim(
                "they were told which cluster it is, and what it waits for",
                _PAUSED in ours.paused_callers_told and "services" in ours.paused_callers_told,
            ),
        ),
        logged=logged,
    )


SCENE = Scene(
    name="held-lock",
    number="1.4",
    title="a lock is held while a paused cluster is waited for, and every other cluster stops",
    references="client-go's WaitForCacheSync; its kin: controller-runtime#1219, cluster-api#8948",
    story=(
        "A service for many virtual clusters kept one set of informers for each, made when a"
        " cluster was first asked for: it took the write lock, started the informers, and waited"
        " for their caches with the lock in its hand. One of the clusters was paused: its"
        " addresses and credentials were there, its control plane was not. The informers tried for"
        " ever, the wait never ended, the lock was never given back, and every call for any"
        " cluster hung, new ones included. It showed only when the service was restarted: before,"
        " the paused cluster had been in the map."
    ),
    plain="an asyncio.Lock around a dict of informers, and a wait for the first list inside of it",
    ours=(
        "A ClusterPool opens each cluster once, in a task of its own, and nothing is locked"
        " meanwhile. Every wait ends, and its error says which cluster, which resource, and why;"
        " a cluster that cannot be opened is tried again when its backoff allows."
    ),
    verdict="healthy clusters answer at once, and the paused one is named",
    perform=perform,
)
