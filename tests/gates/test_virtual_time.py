"""The loop that other tests of this folder rely on."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.virtual_time import VirtualTimeLoop, elapse, work


@pytest.mark.virtual_time
async def test_an_hour_takes_no_time_and_ends_on_the_second() -> None:
    loop = asyncio.get_running_loop()
    fired: list[float] = []
    loop.call_later(1800.0, lambda: fired.append(loop.time()))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600.0):
            await asyncio.Event().wait()

    assert fired == [1800.0]
    assert loop.time() == 3600.0


@pytest.mark.virtual_time
async def test_time_passes_however_late_it_is() -> None:
    """After half a year a nanosecond is lost in the rounding of times."""
    work(1e12 + 0.3)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for _ in range(100):
        await elapse(0.1)
    assert loop.time() - begun == pytest.approx(10.0, abs=0.1)


@pytest.mark.virtual_time
async def test_a_thread_can_wake_a_loop_without_timers() -> None:
    loop = asyncio.get_running_loop()
    answered = asyncio.Event()
    threading.Thread(target=lambda: loop.call_soon_threadsafe(answered.set)).start()

    await answered.wait()

    assert loop.time() == 0.0


async def test_an_unmarked_test_has_the_real_clock() -> None:
    assert not isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
