"""Calls from another event loop are refused, and the error names the right way."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pyinformer._runtime.tasks import LoopOwner
from pyinformer.errors import LifecycleError


def _in_thread(call: object) -> BaseException | None:
    """Call a function in another thread; return the error that it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()  # type: ignore[operator]
        except LifecycleError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised[0] if raised else None


async def test_the_first_loop_is_the_owner_and_others_are_refused() -> None:
    owner = LoopOwner("the thing")
    assert _in_thread(owner.check) is None
    owner.claim()
    owner.claim()
    owner.check()

    async def elsewhere() -> None:
        owner.claim()

    other = _in_thread(lambda: asyncio.run(elsewhere()))
    assert str(other).startswith("the thing belongs to another event loop: call it there")
    assert "asyncio.run_coroutine_threadsafe" in str(other)
    assert "runner.call(...)" in str(other)
    none = _in_thread(owner.check)
    assert "does not run in this thread" in str(none)
    assert "call_soon_threadsafe" in str(none)
    assert "run_in_thread()" in str(none)


def test_without_a_running_loop_there_is_no_owner() -> None:
    with pytest.raises(LifecycleError, match="the thing needs a running event loop"):
        LoopOwner("the thing").claim()


def test_after_its_loop_is_closed_an_owner_can_only_be_closed() -> None:
    owner = LoopOwner("the thing")

    async def claim() -> None:
        owner.claim()

    asyncio.run(claim())
    owner.check(may_be_closed=True)
    with pytest.raises(LifecycleError, match="that is closed: make a new one in this loop"):
        asyncio.run(claim())
