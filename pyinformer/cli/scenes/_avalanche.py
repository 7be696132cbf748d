"""Scene 1.3: a server dies and returns, and the lists of its clients are what kills it again.

In goes a server with many informers; out comes what it is asked when it is back: once when its
history has outlived the outage, once when it has not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import final

import anyio

from pyinformer.cli.scenes._environment import (
    Environment,
    capture_logs,
    connected,
    service,
    wait_until,
)
from pyinformer.cli.scenes._plain_informer import PlainInformer, services_api
from pyinformer.cli.scenes._proxy import Proxy
from pyinformer.cli.scenes._scene import Claim, Scene, SceneResult, fact
from pyinformer.informer import SharedInformerFactory

_INFORMERS = 20
_OBJECTS = 20
_OUTAGE_SECONDS = 1.0
_WARMING_UP_SECONDS = 0.3  # before each answer, as of a server that has just come back
_PATIENCE_SECONDS = 100.0
_MOST_LISTS = 4  # of ours, at the same time


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What the server was asked by one program after it was back, twice."""

    informers: int = fact("informers")
    lists: int = fact("history kept: lists")
    lists_at_once: int = fact("history kept: lists at the same time, at most")
    up_to_date: int = fact("history kept: informers that have what changed meanwhile")
    seconds: float = fact("history kept: seconds until all have")
    lists_without_history: int = fact("history lost: lists")
    lists_at_once_without_history: int = fact("history lost: lists at the same time, at most")
    up_to_date_without_history: int = fact("history lost: informers that have what changed")
    without_history_seconds: float = fact("history lost: seconds until all have")


@final
@dataclass(slots=True)
class _Program:
    """Many informers of one kind behind a proxy."""

    proxy: Proxy
    has: Callable[[str], int]
    """Counts the informers whose cache has a Service of a name."""
    outages: list[tuple[int, int, int, float]] = field(default_factory=list)

    async def wait_for_watches(self) -> None:
        """Wait until every informer watches, so that an outage breaks all of them."""
        await wait_until(
            lambda: self.proxy.open_watches() == _INFORMERS, timeout_seconds=_PATIENCE_SECONDS
        )

    async def measure_recovery(self, change: str) -> None:
        """Let the server be back, and note what it is asked until everybody has a change."""
        self.proxy.reset()
        self.proxy.resume()
        began = anyio.current_time()
        await wait_until(lambda: self.has(change) == _INFORMERS, timeout_seconds=_PATIENCE_SECONDS)
        seconds = anyio.current_time() - began
        await self.wait_for_watches()
        proxy = self.proxy
        self.outages.append((proxy.loads(), proxy.most_loads_at_once, self.has(change), seconds))

    def result(self) -> Recovery:
        """Return what was noted."""
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


async def perform(environment: Environment) -> SceneResult[Recovery]:
    """Play both outages; both programs live through the same ones, each behind its own proxy.

    Cancellation:
        Ends it.
    """
    namespace = environment.namespace()
    for number in range(_OBJECTS):
        environment.api.create(service(f"service-{number}", namespace))
    with capture_logs() as logged:
        async with (
            _plain(environment, namespace) as left,
            _ours(environment, namespace) as right,
        ):
            await _outage(environment, namespace, (left, right), change="first", forgets=False)
            await _outage(environment, namespace, (left, right), change="second", forgets=True)
    plain, ours = left.result(), right.result()
    return SceneResult(
        plain=plain,
        ours=ours,
        outage=(
            Claim("every plain informer listed again, history or not", plain.lists >= _INFORMERS),
            Claim(
                "their lists came at the same time, many more than ours at its worst",
                plain.lists_at_once > 2 * _MOST_LISTS,
            ),
        ),
        prevented=(
            Claim("ours listed nothing while history lasted", ours.lists == 0),
            Claim("all of its informers went on by their watches", ours.up_to_date == _INFORMERS),
            Claim(
                f"without history it listed, at most {_MOST_LISTS} at a time",
                0 < ours.lists_at_once_without_history <= _MOST_LISTS,
            ),
            Claim(
                "all of its informers got there then", ours.up_to_date_without_history == _INFORMERS
            ),
        ),
        logged=logged,
    )


async def _outage(
    environment: Environment,
    namespace: str,
    programs: Sequence[_Program],
    *,
    change: str,
    forgets: bool,
) -> None:
    """Let the server die, change something meanwhile, and return."""
    for program in programs:
        await program.wait_for_watches()
    for program in programs:
        if forgets:  # its restart takes seconds: what connects meanwhile is not refused, but waits
            program.proxy.pause()
            program.proxy.reset_connections()
        else:
            program.proxy.disconnect()
    environment.api.create(service(change, namespace))
    if forgets:
        await environment.forget_history()
    else:
        await anyio.sleep(_OUTAGE_SECONDS)
    async with anyio.create_task_group() as tasks:
        for program in programs:
            tasks.start_soon(program.measure_recovery, change)


@asynccontextmanager
async def _plain(environment: Environment, namespace: str) -> AsyncIterator[_Program]:
    async with (
        environment.proxy() as proxy,
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
async def _ours(environment: Environment, namespace: str) -> AsyncIterator[_Program]:
    async with (
        environment.proxy() as proxy,
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
    title="a server dies and returns, and everybody lists at once",
    references="kubernetes#105734, #107452, #108455, #107463 and, of the same class, #115282",
    story=(
        "The timeout filter of kube-apiserver answered 504 and left the handler running; both then"
        " read and wrote the same headers, and Go ends a process for that. It struck under load,"
        " as when thousands of kubelets listed after a restart. Every watch of the dead process"
        " ended at once, every client connected again and listed everything, and the servers that"
        " were left went down under it, one after the other. The root of it, a deadline that ends"
        " what it times out, was proposed as KEP-4460 and has not come."
    ),
    plain="lists and watches; after a broken connection it pauses for a second and begins anew",
    ours=(
        "A lost connection costs a watch, not a list: it is opened again where it was. Only a"
        " server that has forgotten the history is listed again, by four informers of a connection"
        " at a time. Attempts are spread by backoff with jitter, and by a budget."
    ),
    verdict="no list while history lasts, few at a time when it is lost, and no change is missed",
    perform=perform,
)
