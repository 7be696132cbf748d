"""A reflector ends each turn that it opened, so that no handler waits for the next event."""

from __future__ import annotations

from pyinformer._runtime.tasks import Turn
from pyinformer.testing import APIServer, Fault
from tests.cache.reflector.running import put, reflecting
from tests.waiting import until


async def test_the_turn_of_what_arrived_with_a_list_ends_before_the_watch_is_read() -> None:
    turn, ends = Turn(), list[bool]()
    turn.calls.append(lambda: ends.append(turn.is_open))
    with APIServer(bookmark_interval_seconds=3600.0) as server:
        async with reflecting(server, turn=turn) as running:
            await running.until_watching()
            await until(lambda: ends)
            assert running.reflector.status().takeovers == 0, "a second watch would end it, too"

    assert ends == [False]


async def test_a_turn_ends_with_the_events_that_arrived_together() -> None:
    turn, ends = Turn(), list[bool]()
    with APIServer(bookmark_interval_seconds=3600.0) as server:
        put(server, "a")
        async with reflecting(server, turn=turn) as running:
            await running.until_watching()
            turn.calls.append(lambda: ends.append(turn.is_open))
            put(server, "a", value="new")
            await until(lambda: ends)

    assert ends == [False]


async def test_a_turn_that_a_line_cuts_off_which_cannot_be_applied_is_ended() -> None:
    turn, ends = Turn(), list[bool]()
    with APIServer(bookmark_interval_seconds=3600.0) as server:
        put(server, "a")
        async with reflecting(server, turn=turn) as running:
            await running.until_watching()
            server.faults.add(Fault(refuse=True, times=None))  # so that no later turn ends it
            turn.calls.append(lambda: ends.append(turn.is_open))
            server.emit_raw("v1", "pods", b"not json\n")
            await until(lambda: ends)

    assert ends == [False]
