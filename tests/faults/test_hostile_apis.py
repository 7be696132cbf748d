"""Bad APIs behind a connection: they delay no healthy one, and themselves not without a bound.

Every server here is a raw socket: the APIs of one group answer as none should, those of the core
answer as they must.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer import SharedInformerFactory
from pyinformer.cache import ReflectorOptions
from pyinformer.cache.reflector import RequestBudgetOptions
from tests.client.transport.serving import CHUNKED, chunk, cluster_with, response, serving
from tests.followed import limited
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.client.transport.serving import Request

BAD_GROUPS = ("trickles.example.com", "pages.example.com", "stalls.example.com")
ENOUGH = 4  # of each group: one alone can take all places
META = b'"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"4"}'
END = (
    b'{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":'
    b'{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
)
ADDED = b'{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1",%s}}\n' % META
LIST = (
    b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[{%s}]}'
)
PAGE = (
    b'{"kind":"ThingList","apiVersion":"pages.example.com/v1",'
    b'"metadata":{"resourceVersion":"5","continue":"%d"},"items":[]}'
)
STALLED = b"HTTP/1.1 503 X\r\nContent-Length: 50\r\n\r\n"
tokens = itertools.count()


async def ticks() -> AsyncIterator[None]:
    """Yield twenty times a second."""
    while True:
        tick = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, tick.set)
        await tick.wait()
        yield


async def healthy(request: Request, writer: asyncio.StreamWriter) -> None:
    """Show one object, whichever way is asked."""
    if "watch=true" not in request.target:
        writer.write(response(LIST % META))
        return
    is_first = "sendInitialEvents" in request.target
    writer.write(CHUNKED + (chunk(ADDED + END) if is_first else b""))
    await asyncio.Event().wait()


async def hostile(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer as the group of the request does."""
    if "trickles" in request.target:
        writer.write(CHUNKED)
        async for _ in ticks():
            writer.write(chunk(b"\n"))
    elif "pages" in request.target and "watch=true" not in request.target:
        writer.write(response(PAGE % next(tokens)))
    elif "pages" in request.target:
        writer.write(response(b"{}", status=400))  # knows no watch-list
    else:
        writer.write(CHUNKED)
        await asyncio.Event().wait()


async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer as a front does that passes each group on to another server."""
    await (hostile if "example.com" in request.target else healthy)(request, writer)


@pytest.mark.parametrize("watch_list", [True, False], ids=["watch-list", "list"])
async def test_healthy_informers_beside_three_hostile_apis_sync_promptly(
    watch_list: bool,
) -> None:
    options = ReflectorOptions(use_watch_list=watch_list)
    # A list that makes no progress keeps its place for longer than the healthy ones may take.
    budget = RequestBudgetOptions(list_idle_seconds=600.0)
    async with (
        serving(answer) as server,
        pyinformer.connect(server=server.url) as cluster,
        SharedInformerFactory(cluster, options=options) as factory,
    ):
        shared = limited(cluster, budget)
        for group, number in itertools.product(BAD_GROUPS, range(ENOUGH)):
            factory.informer(f"{group}/v1", "things", namespaces=f"ns-{number}")
        await factory.start()
        await until(lambda: shared.request_budget.statistics().waiting_to_list >= 2 * ENOUGH)

        good = [factory.informer("v1", "configmaps", namespaces=f"n-{one}") for one in range(8)]
        for informer in good:
            await informer.wait_for_cache_sync(timeout_seconds=100)

        assert all([obj.key for obj in one.lister.list()] == ["ns/a"] for one in good)
        paged = [one for one in server.requests if "pages" in one.target]
        assert len(paged) < ENOUGH * 20
        listing = shared.request_budget.statistics().peak_listing
        assert listing <= 4 + len(BAD_GROUPS) + 1


async def test_a_healthy_resource_syncs_beside_stalled_ones_of_its_own_api_group() -> None:
    async def one_is_healthy(request: Request, writer: asyncio.StreamWriter) -> None:
        await (healthy if "configmaps" in request.target else hostile)(request, writer)

    options = ReflectorOptions(use_watch_list=False)
    budget = RequestBudgetOptions(list_idle_seconds=600.0, list_slow_seconds=0.1)
    async with (
        serving(one_is_healthy) as server,
        pyinformer.connect(server=server.url) as cluster,
        SharedInformerFactory(cluster, options=options) as factory,
    ):
        shared = limited(cluster, budget)
        for number in range(ENOUGH):
            factory.informer("v1", f"stalls{number}", namespaces="ns")
        await factory.start()
        await until(lambda: shared.request_budget.statistics().listing == ENOUGH)

        good = [factory.informer("v1", "configmaps", namespaces=f"n-{one}") for one in range(8)]
        for informer in good:
            await informer.wait_for_cache_sync(timeout_seconds=100)
        assert shared.request_budget.statistics().peak_listing == ENOUGH + 1


async def test_an_error_whose_body_stalls_delays_an_informer_and_does_not_stop_it() -> None:
    """The same with a first load and with a watch that is refused like that."""
    stalled: list[str] = []

    async def stall_each_once(request: Request, writer: asyncio.StreamWriter) -> None:
        kind = "watch" if "watch=true" in request.target else "list"
        if kind in stalled:
            await healthy(request, writer)
            return
        stalled.append(kind)
        writer.write(STALLED)
        await asyncio.Event().wait()

    async with (
        serving(stall_each_once) as server,
        cluster_with(server.url, idle_seconds=0.5) as cluster,  # of an error's body, too; else 5 s
        SharedInformerFactory(cluster, options=ReflectorOptions(use_watch_list=False)) as factory,
    ):
        informer = factory.informer("v1", "configmaps")
        await factory.start()
        await until(lambda: sum("watch=true" in one.target for one in server.requests) == 2)
        await until(lambda: informer.state == "watching")
        assert stalled == ["list", "watch"]
