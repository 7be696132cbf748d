"""Races between a waiting thread and its loop that no caller of the face can bring about."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import anyio
import anyio.lowlevel
import pytest

from pyinformer.blocking import timeout
from pyinformer.blocking._loop_calls import Call
from pyinformer.blocking._loop_thread import LoopThread
from pyinformer.errors import LifecycleError


class Unstoppable:
    """Finishes opening only when it is cancelled."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    async def __aenter__(self) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await anyio.sleep_forever()
        return "open"

    async def __aexit__(self, *_: object) -> None:
        self.closed.set()


def test_a_resource_opened_after_its_waiter_left_is_closed() -> None:
    lifetime = Unstoppable()
    thread = LoopThread("a test's", grace_seconds=5.0)
    thread.start()
    try:
        with pytest.raises(TimeoutError), timeout(0.05):
            thread.enter(lifetime)

        assert lifetime.closed.is_set()
    finally:
        thread.close()


async def test_a_call_cancelled_before_its_start_is_never_started() -> None:
    begun = threading.Event()
    call = Call(begun.set)
    call.cancel(asyncio.get_running_loop())
    await anyio.lowlevel.checkpoint()
    await anyio.lowlevel.checkpoint()

    assert call.wait(0.0)
    await call.run()
    assert not begun.is_set()
    with pytest.raises(LifecycleError, match="cancelled"):
        call.result()
