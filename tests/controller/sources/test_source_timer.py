"""Timers: beats that hold, keys of the moment, and primaries spread over the period."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from pyinformer.controller.sources import PrimarySource, Request, SourceOptions, TimerSource
from pyinformer.errors import InvalidArgumentError, InvalidTypeError, LifecycleError
from pyinformer.objects import Added
from tests.controller.sources.feeding import FedInformer, Noted, made
from tests.virtual_time import elapse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pyinformer.controller.sources import Source


@asynccontextmanager
async def _running(source: Source) -> AsyncIterator[Noted]:
    noted = Noted()
    source.attach(noted)
    task = asyncio.create_task(source.run())
    try:
        yield noted
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.virtual_time
async def test_keys_are_requested_at_each_tick() -> None:
    options = SourceOptions(cluster="prod")
    source = TimerSource(10.0, ["default/a", Request("b", "dev")], options=options)
    async with _running(source) as noted:
        await elapse(9.9)
        assert noted.take() == []
        await elapse(20.2)

        assert noted.take() == ["prod:default/a timer 0", "dev:b timer 0"] * 3
        assert noted.reasons[0].source == "every 10 s"
        assert source.status().events == 3
        assert source.has_synced


@pytest.mark.virtual_time
async def test_a_function_is_called_at_each_tick_and_may_fail() -> None:
    asked = 0

    def keys() -> Iterator[str]:
        nonlocal asked
        asked += 1
        yield f"a{asked}"
        if asked == 2:
            raise ZeroDivisionError

    source = TimerSource(1.0, keys, name="poll")
    async with _running(source) as noted:
        await elapse(3.5)

        assert noted.take() == ["a1 timer 0", "a2 timer 0", "a3 timer 0"]
        assert source.status().failures == 1


@pytest.mark.virtual_time
async def test_every_primary_object_is_requested_once_a_period_at_low_priority() -> None:
    informers = FedInformer(), FedInformer()
    for informer in informers:
        informer.load(*(made(f"a{number}") for number in range(50)))
    primaries = [
        PrimarySource(each, options=SourceOptions(cluster=name))
        for each, name in zip(informers, "xy", strict=True)
    ]
    source = TimerSource(60.0, primaries=primaries)
    async with _running(source) as noted:
        await elapse(60)
        assert len(noted.take()) <= 1
        await elapse(30)
        half = noted.take()
        assert 50 <= len(half) <= 60
        await elapse(29.9)

        everything = {f"{c}:default/a{number} timer -100" for c in "xy" for number in range(50)}
        assert set(half + noted.take()) == everything


@pytest.mark.virtual_time
async def test_a_detached_timer_requests_nothing() -> None:
    source = TimerSource(1.0, "a")
    async with _running(source) as noted:
        source.detach()
        source.detach()
        await elapse(5)

        assert noted.take() == []
    with pytest.raises(LifecycleError, match="make a new one"):
        source.attach(Noted())


async def test_a_timer_has_no_events_and_nothing_to_wait_for() -> None:
    source = TimerSource(1.0, "a")

    await source.wait_synced()

    assert source.requests_for(Added(made("a"))) == []
    assert source.informer is None


async def _waits() -> str:
    return "a"


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        pytest.param(["a/b/c"], InvalidArgumentError, id="no-key"),
        pytest.param(7, InvalidTypeError, id="number"),
        pytest.param(_waits, InvalidTypeError, id="coroutine-function"),
        pytest.param(lambda obj: "a", InvalidTypeError, id="takes-arguments"),
        pytest.param(None, InvalidArgumentError, id="nothing-and-no-primary"),
    ],
)
def test_invalid_keys_are_refused_at_once(keys: object, error: type[Exception]) -> None:
    untyped: list[str] = keys  # type: ignore[assignment]

    with pytest.raises(error):
        TimerSource(1.0, untyped)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 1e-9])
def test_an_invalid_period_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidArgumentError, match="period_seconds"):
        TimerSource(seconds, "a")
