"""Pacing: each key once per round, none early, none late, and beats that hold."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.controller.sources import PrimarySource, SourceOptions, TimerSource, next_beat_at
from tests.controller.sources.feeding import FedInformer, made
from tests.virtual_time import elapse, work
from tests.waiting import now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.controller.sources import Reason, Request

_Taken = list[tuple[float, str]]


def _filled(count: int) -> FedInformer:
    informer = FedInformer()
    informer.load(*(made(f"a{number}") for number in range(count)))
    return informer


@asynccontextmanager
async def _timed(
    period_seconds: float, *informers: FedInformer, clusters: int = 1
) -> AsyncIterator[_Taken]:
    """Run a timer over every object of the informers, which counts in each cluster.

    Yields:
        The requests, with the seconds from the begin of the first round; it may grow.
    """
    primaries = [
        PrimarySource(each, options=SourceOptions(cluster=f"c{number}" if number else ""))
        for each in informers
        for number in range(clusters)
    ]
    source = TimerSource(period_seconds, primaries=primaries)
    taken: _Taken = []
    began_at = now() + period_seconds

    def enqueue(request: Request, reason: Reason, *, priority: int) -> None:
        taken.append((now() - began_at, str(request)))

    source.attach(enqueue)
    task = asyncio.create_task(source.run())
    try:
        yield taken
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.virtual_time
@given(st.integers(min_value=0, max_value=100), st.floats(min_value=0.01, max_value=1e4))
async def test_each_key_is_taken_once_per_round_within_it(
    count: int, period_seconds: float
) -> None:
    informer = _filled(count)
    async with _timed(period_seconds, informer) as taken:
        await elapse(2.96 * period_seconds)

    assert [key for _, key in taken] == list(informer.lister.keys()) * 2
    for number, (at, _) in enumerate(taken):
        round_at = (number >= count) * period_seconds
        late = 1e-6 + 0.96 * period_seconds
        assert round_at - 1e-6 <= at <= round_at + late


@pytest.mark.virtual_time
async def test_keys_are_spread_evenly() -> None:
    async with _timed(100.0, _filled(1000)) as taken:
        await elapse(199.9)

    per_second = [sum(second <= at < second + 1 for at, _ in taken) for second in range(90)]
    assert all(10 <= count <= 12 for count in per_second), per_second


@pytest.mark.virtual_time
async def test_the_loop_does_not_wake_up_for_each_key_of_many() -> None:
    async with _timed(1.0, _filled(1000), clusters=20) as taken:
        await elapse(1.99)

    assert len(taken) == 20_000
    assert len({at for at, _ in taken}) <= 21


@pytest.mark.virtual_time
async def test_a_round_takes_what_there_is_when_it_begins() -> None:
    informer = _filled(1)
    async with _timed(10.0, informer) as taken:
        await elapse(10.1)
        informer.add(made("b"))
        await elapse(9.8)
        assert taken == [(0.0, "default/a0")]
        await elapse(9.9)

    assert [key for _, key in taken] == ["default/a0", "default/a0", "default/b"]
    assert taken[1][0] == 10.0


@pytest.mark.virtual_time
async def test_a_round_of_nothing_waits_for_the_next() -> None:
    informer = _filled(0)
    async with _timed(10.0, informer) as taken:
        await elapse(11.0)
        informer.add(made("a"))
        await elapse(10.0)

    assert taken == [(10.0, "default/a")]


@pytest.mark.virtual_time
async def test_after_a_long_pause_missed_rounds_are_not_made_up_for() -> None:
    async with _timed(10.0, _filled(1)) as taken:
        await elapse(11.0)
        work(1004.0)
        await elapse(9.9)
        assert taken == [(0.0, "default/a0"), (1005.0, "default/a0")]
        await elapse(1.0)

    assert [at for at, _ in taken] == [0.0, 1005.0, 1015.0]


@pytest.mark.parametrize(
    ("now", "expected"),
    [(0.0, 10.0), (9.99, 10.0), (9.9995, 20.0), (10.0, 20.0), (10.001, 20.0), (57.0, 60.0)],
)
def test_ticks_keep_their_period_and_missed_ticks_are_skipped(now: float, expected: float) -> None:
    assert next_beat_at(now, began_at=0.0, period_seconds=10.0) == expected


@given(
    st.floats(min_value=0, max_value=1e6),
    st.floats(min_value=0, max_value=1e6),
    st.floats(min_value=0.001, max_value=1e5),
)
def test_the_next_tick_is_always_later(
    began_at: float, passed: float, period_seconds: float
) -> None:
    at = began_at + passed

    beat_at = next_beat_at(at, began_at=began_at, period_seconds=period_seconds)

    assert at < beat_at <= at + period_seconds * 1.11
