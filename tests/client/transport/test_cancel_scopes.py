"""Deadlines inside of a request, and a scope around it that is cancelled in the same turn.

asyncio keeps one message of all cancellations of a step. A timer of asyncio inside took that of the
scope away, which then let its own cancellation pass: the caller's task ended without an error. Seen
where a loop was blocked, so that both fell due at once.
"""

from __future__ import annotations

import asyncio
import random
import threading
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from pyinformer.client.transport import ListWatch
from pyinformer.errors import TransportError
from pyinformer.objects import GroupVersionResource
from tests.cache.informer.clusters import pod
from tests.client.transport.serving import connected

if TYPE_CHECKING:
    from pyinformer.client.transport import Connection
    from pyinformer.testing import APIServer

PODS = GroupVersionResource.of("v1", "pods")
DEADLINE_SECONDS = 0.05
ROUNDS, TASKS = 25, 20


async def read_list(connection: Connection) -> None:
    async with ListWatch(connection, PODS).list() as body:
        while await body.read():
            await anyio.lowlevel.checkpoint()


async def read_watch(connection: Connection) -> None:
    watch = ListWatch(connection, PODS).watch(resource_version="1", timeout_seconds=100)
    async with watch as body:
        while await body.read():
            pass


async def request(connection: Connection) -> None:
    await connection.request("GET", "/api/v1/pods", timeout_seconds=DEADLINE_SECONDS)


@pytest.mark.every_loop
async def test_a_scope_around_a_request_catches_its_own_cancellation(apiserver: APIServer) -> None:
    for number in range(20):
        apiserver.create(pod(f"p{number}", note="x" * 60))
    loop, rng = asyncio.get_running_loop(), random.Random(1)
    ends: list[str] = []

    async def cancelled(connection: Connection, seconds: float, read: object) -> None:
        """Make a request in a scope that is cancelled about when the request expires."""
        try:
            with anyio.CancelScope() as scope:
                loop.call_later(seconds, scope.cancel)
                await read(connection)  # type: ignore[operator] # one of the three above
        except TransportError:
            ends.append("expired")
        except asyncio.CancelledError:
            ends.append("stray")
        else:
            ends.append("cancelled" if scope.cancelled_caught else "read")

    for _ in range(ROUNDS):
        async with connected(
            apiserver.url,
            headers_seconds=DEADLINE_SECONDS,
            idle_seconds=DEADLINE_SECONDS,
            connect_seconds=DEADLINE_SECONDS,
        ) as connection:
            loop.call_later(rng.uniform(0, 0.05), threading.Event().wait, rng.uniform(0, 0.08))
            async with anyio.create_task_group() as group:
                for read in (read_list, read_watch, request) * TASKS:
                    group.start_soon(cancelled, connection, rng.uniform(0.04, 0.07), read)
    assert "stray" not in ends
    assert "cancelled" in ends
    assert len(ends) == ROUNDS * TASKS * 3
