"""Scene 1.3: a server restarts, and the lists of its clients overload it again.

Many informers lose their server twice: it returns once with its history and once without.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import final

import anyio

from pyinformer._runtime.tasks import loop_time
from pyinformer.cache.informer import SharedInformerFactory
from pyinformer.cli.scenes._plain_informer import PlainInformer, services_api
from pyinformer.cli.scenes._proxy import Proxy
from pyinformer.cli.scenes._scene import Claim, Scene, SceneResult, fact
from pyinformer.cli.scenes._server import SceneServer, capture_logs, connected, service, wait_until

_INFORMERS = 20
_OBJECTS = 20
_OUTAGE_SECONDS = 1.0
_WARMING_UP_SECONDS = 0.3  # before each response, as of a server that has just restarted
_PATIENCE_SECONDS = 100.0
_MOST_LISTS = 4  # of pyinformer, at the same time


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What one program requested after each of the two restarts."""

    informers: int = fact("informers")
    lists: int = fact("history kept: lists")
    lists_at_once: int = fact("history kept: lists at the same time, at most")
    up_to_date: int = fact("history kept: informers that have the missed change")
    seconds: float = fact("history kept: seconds until all have")
    lists_without_history: int = fact("history lost: lists")
    lists_at_once_without_history: int = fact("history lost: lists at the same time, at most")
    up_to_date_without_history: int = fact("history lost: informers that have the missed change")
    without_history_seconds: float = fact("history lost: seconds until all have")


@final
@dataclass(slots=True)
class _Program:
    """The informers of one program, behind one proxy."""

    proxy: Proxy
    has: Callable[[str], int]
    """Returns how many informers have a Service with this name."""
    outages: list[tuple[int, int, int, float]] = field(default_factory=list)

    async def wait_for_watches(self) -> None:
        """Wait until every informer watches, so that an outage breaks all of them."""
        await wait_until(
            lambda: self.proxy.open_watches() == _INFORMERS, timeout_seconds=_PATIENCE_SECONDS
        )

    async def measure_recovery(self, change: str) -> None:
        """Reconnect, and record the requests until every informer has a change."""
        self.proxy.reset()
        self.proxy.resume()
        began = loop_time()
        await wait_until(lambda: self.has(change) == _INFORMERS, timeout_seconds=_PATIENCE_SECONDS)
        seconds = loop_time() - began
        await self.wait_for_watches()
        proxy = self.proxy
        self.outages.append((proxy.loads(), proxy.most_loads_at_once, self.has(change), seconds))

    def result(self) -> Recovery:
        """Return what was recorded."""
        kept, lost = self.outages
        return Recovery(
            informers=_INFORMERS,
            lists=kept[0],
            lists_at_once=kept[1],
            up_to_date=kept[2],
            seconds=kept[3],
            lists_without_history=lost[0],
            lists_at_once_without_history=lost[1],
            up_to_date_without_history=lost[2],
            without_history_seconds=lost[3],
        )


async def perform(server: SceneServer) -> SceneResult[Recovery]:
    """Play both outages for both programs, each behind its own proxy.

    Cancellation:
        Ends the scene.
    """
    namespace = server.namespace()
    for number in range(_OBJECTS):
        server.api.create(service(f"service-{number}", namespace))
    with capture_logs() as logged:
        async with _plain(server, namespace) as left, _ours(server, namespace) as right:
            await _outage(server, namespace, (left, right), change="first", forgets=False)
            await _outage(server, namespace, (left, right), change="second", forgets=True)
    plain, ours = left.result(), right.result()
    return SceneResult(
        plain=plain,
        ours=ours,
        outage=(
            Claim(
                "every plain informer listed again, even with the history kept",
                plain.lists >= _INFORMERS,
            ),
            Claim(
                "many of their lists ran at the same time, more than pyinformer ever sends",
                plain.lists_at_once > 2 * _MOST_LISTS,
            ),
        ),
        prevented=(
            Claim("pyinformer listed nothing while the history was kept", ours.lists == 0),
            Claim("all of its informers resumed their watches", ours.up_to_date == _INFORMERS),
            Claim(
                f"without the history it sent at most {_MOST_LISTS} lists at a time",
                0 < ours.lists_at_once_without_history <= _MOST_LISTS,
            ),
            Claim(
                "all of its informers had the change then",
                ours.up_to_date_without_history == _INFORMERS,
            ),
        ),
        logged=logged,
    )


async def _outage(
    server: SceneServer, namespace: str, programs: Sequence[_Program], *, change: str, forgets: bool
) -> None:
    """Disconnect the server, change an object meanwhile, and reconnect."""
    for program in programs:
        await program.wait_for_watches()
    for program in programs:
        if forgets:  # the restart takes seconds: new connections wait, and are not refused
            program.proxy.pause()
            program.proxy.reset_connections()
        else:
            program.proxy.disconnect()
    server.api.create(service(change, namespace))
    if forgets:
        await server.forget_history()
    else:
        await anyio.sleep(_OUTAGE_SECONDS)
    async with anyio.create_task_group() as tasks:
        for program in programs:
            tasks.start_soon(program.measure_recovery, change)


@asynccontextmanager
async def _plain(server: SceneServer, namespace: str) -> AsyncIterator[_Program]:
    async with (
        server.proxy() as proxy,
        services_api(proxy.url) as api,
        anyio.create_task_group() as tasks,
    ):
        informers = [
            PlainInformer(api.list_namespaced_service, namespace) for _ in range(_INFORMERS)
        ]
        for informer in informers:
            tasks.start_soon(informer.run)
        for informer in informers:
            await informer.synced.wait()
        proxy.answers_after_seconds = _WARMING_UP_SECONDS
        yield _Program(proxy, lambda name: sum(name in one.cache for one in informers))
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _ours(server: SceneServer, namespace: str) -> AsyncIterator[_Program]:
    async with (
        server.proxy() as proxy,
        connected(proxy) as cluster,
        SharedInformerFactory(cluster) as factory,
    ):
        informers = [
            factory.informer("v1", "services", namespaces=namespace, private=True)
            for _ in range(_INFORMERS)
        ]
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=_PATIENCE_SECONDS)
        proxy.answers_after_seconds = _WARMING_UP_SECONDS
        yield _Program(
            proxy, lambda name: sum(f"{namespace}/{name}" in i.lister for i in informers)
        )


SCENE = Scene(
    name="avalanche",
    number="1.3",
    title="a server restarts, and all of its clients list at once",
    references="kubernetes#105734, #107452, #108455, #107463 and, of the same class, #115282",
    story=(
        "The timeout filter of kube-apiserver answered 504 and left the handler running. Both then"
        " accessed the same headers, and Go ends a process for that. It happened under load, for"
        " example when thousands of kubelets listed after a restart. All watches of the dead"
        " process ended at once, every client reconnected and listed everything, and the load"
        " crashed the remaining servers one by one. The fix of the cause, a deadline that ends the"
        " handler, was proposed as KEP-4460 and is not implemented."
    ),
    plain="lists and watches; after a broken connection it pauses for a second and starts over",
    ours=(
        "A lost connection costs a watch, not a list: the watch resumes at its position. Only if"
        " the server has lost its history, informers list again, at most four of a connection at a"
        " time. Backoff with jitter and a budget spread the attempts."
    ),
    verdict="no lists while the history is kept, few at a time without it, and no missed change",
    perform=perform,
)
