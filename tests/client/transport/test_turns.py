"""A stream that never pauses yields to other tasks, on every event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.client.transport.serving import CHUNKED, chunk, connected, serving

if TYPE_CHECKING:
    from tests.client.transport.serving import Request

pytestmark = pytest.mark.every_loop

_EVENT_BYTES = 6_500
_EVENTS = 2_000
_EVENT_SECONDS = 0.001
_MOST_BYTES = 512 << 10  # of the buffer of a watch


async def test_other_tasks_run_while_a_watch_delivers() -> None:
    """Each event takes 1 ms by the response's clock, so an iteration has only a few of them."""
    event = chunk(b"x" * _EVENT_BYTES)

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + event * _EVENTS + chunk(b""))
        await writer.drain()

    loop = asyncio.get_running_loop()
    taken: list[int] = []  # in each iteration of the loop
    passed_seconds = 0.0

    is_over = False

    def turn() -> None:
        taken.append(0)
        if not is_over:
            loop.call_soon(turn)

    def take(data: bytes | bytearray, start: int, stop: int) -> None:
        nonlocal passed_seconds
        passed_seconds += _EVENT_SECONDS
        taken[-1] += stop - start

    turn()
    async with (
        serving(answer) as server,
        connected(server.url) as connection,
        connection.stream("/a", [("watch", "true")], watch=True) as body,
    ):
        body._now = lambda: loop.time() + passed_seconds  # type: ignore[attr-defined] # its clock
        await body.deliver(take, lambda: True)  # type: ignore[attr-defined] # it can
        is_over = True

    assert sum(taken) == _EVENTS * _EVENT_BYTES
    assert max(taken) <= 2 * _MOST_BYTES
