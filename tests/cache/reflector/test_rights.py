"""Missing rights: when they are granted, informers learn it soon, and send few requests until then.

The times are virtual.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from msgspec import json

from pyinformer.cache.reflector import ReflectorOptions, ReflectorState, RequestBudget
from pyinformer.errors import status_error_class
from tests.cache.reflector.samples import pod_bytes
from tests.cache.reflector.scripted import ScriptedServer, following, silence
from tests.virtual_time import elapse
from tests.waiting import until

pytestmark = pytest.mark.virtual_time

PODS = [json.decode(pod_bytes("a", "40"))]
REFUSED = status_error_class(403)(status=403)
BY_PAGES = ReflectorOptions(use_watch_list=False)
SOON_SECONDS = 6.0


def refusing() -> ScriptedServer:
    """Return a server that refuses every list."""
    return ScriptedServer(silence, PODS, refused=REFUSED)


@pytest.mark.parametrize("after_seconds", [3.0, 29.0, 40.0, 100.0, 1000.0])
async def test_a_right_that_is_granted_is_used_within_seconds(after_seconds: float) -> None:
    server, now = refusing(), asyncio.get_running_loop().time
    async with following(server, options=BY_PAGES) as (reflector, sink):
        await elapse(after_seconds)
        assert reflector.state is ReflectorState.FORBIDDEN
        server.refused = None
        healed_at = now()
        await until(sink.versions)
        assert now() - healed_at < SOON_SECONDS


async def test_many_refused_informers_of_a_connection_learn_it_together() -> None:
    budget, now = RequestBudget(), asyncio.get_running_loop().time
    servers = [refusing() for _ in range(50)]
    async with AsyncExitStack() as stack:
        some = [
            await stack.enter_async_context(following(one, options=BY_PAGES, budget=budget))
            for one in servers
        ]
        await elapse(300.0)
        for server in servers:
            server.refused = None
        healed_at = now()
        await until(lambda: all(sink.versions() for _, sink in some))
        assert now() - healed_at < SOON_SECONDS + 5.0  # few lists run at a time


async def test_refused_informers_send_few_requests() -> None:
    """One attempt in five seconds for all of them, and one a minute each."""
    budget = RequestBudget()
    servers = [refusing() for _ in range(20)]
    async with AsyncExitStack() as stack:
        for one in servers:
            await stack.enter_async_context(following(one, options=BY_PAGES, budget=budget))
        await elapse(60.0)
        before = sum(len(one.requests) for one in servers)
        await elapse(600.0)
        sent = sum(len(one.requests) for one in servers) - before
    assert sent <= 20 * 10 + 600 / 5 + 20
    assert all("list" in one.requests for one in servers)


async def test_a_server_that_asks_to_wait_is_obeyed() -> None:
    server = refusing()
    server.refused = status_error_class(403)(status=403, retry_after_seconds=90.0)
    async with following(server, options=BY_PAGES):
        await elapse(89.0)
        assert server.requests == ["list"]


@pytest.mark.parametrize("waited_seconds", [1.0, 3.0, 100.0])
async def test_a_cancelled_wait_for_rights_leaves_nothing(waited_seconds: float) -> None:
    """The others learn of the right within their turn and that of the one that has ended."""
    budget, now = RequestBudget(), asyncio.get_running_loop().time
    server = refusing()
    async with following(server, options=BY_PAGES, budget=budget) as (waiting, sink):
        async with following(refusing(), options=BY_PAGES, budget=budget) as (ended, _):
            await elapse(waited_seconds)
            assert ended.state is ReflectorState.FORBIDDEN
        assert waiting.state is ReflectorState.FORBIDDEN
        server.refused = None
        healed_at = now()
        await until(sink.versions)
        assert now() - healed_at < 2 * SOON_SECONDS
