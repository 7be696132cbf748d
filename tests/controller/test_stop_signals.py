"""SIGTERM and SIGINT reach all that runs, and afterwards the earlier handler."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import subprocess
import sys
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from pyinformer import Controller, ControllerGroup
from pyinformer.controller import on_stop_signal
from tests.controller.running import Calls
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

NUMBERS = [signal.SIGTERM, signal.SIGINT]


def _send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def _pass_on(
    to: Callable[[int, FrameType | None], object], number: int, frame: FrameType | None
) -> None:
    to(number, frame)


async def _block(called: list[str], name: str, *, until_set: asyncio.Event) -> None:
    with on_stop_signal(lambda sent: called.append(f"{name} {sent}")):
        await until_set.wait()


@contextmanager
def _handled(
    number: signal.Signals,
    handler: Callable[[int, FrameType | None], object] | signal.Handlers,
) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.every_loop
@pytest.mark.parametrize("number", NUMBERS)
async def test_one_signal_stops_all_that_run_on_the_loop(number: signal.Signals) -> None:
    controllers = [Controller(name, Calls()) for name in ("a", "b", "c")]
    runs = [controllers[0].run(), ControllerGroup(controllers[1]).run(), controllers[2].run()]
    tasks = [asyncio.create_task(run) for run in runs]
    await until(lambda: all(one.is_running for one in controllers))
    _send(number)
    async with asyncio.timeout(100):
        await asyncio.gather(*tasks)


@pytest.mark.every_loop
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("ends_first", [0, 1], ids=["older", "newer"])
async def test_the_handler_from_before_the_first_block_is_restored_after_the_last(
    number: signal.Signals, ends_first: int
) -> None:
    heard, called, ends = list[int](), list[str](), [asyncio.Event(), asyncio.Event()]
    with _handled(number, lambda sent, _: heard.append(sent)):
        before = signal.getsignal(number)
        tasks = [asyncio.create_task(_block(called, "a", until_set=ends[0]))]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(_block(called, "b", until_set=ends[1])))
        await asyncio.sleep(0)
        ends[ends_first].set()
        await tasks[ends_first]
        _send(number)
        await until(lambda: called)
        ends[1 - ends_first].set()
        await tasks[1 - ends_first]
        assert signal.getsignal(number) is before
        assert heard == [number], "the signal of the meantime"
        _send(number)
        await until(lambda: len(heard) == 2)
    assert called == [f"{'ba'[ends_first]} {number.name}"]


async def test_a_server_beside_a_controller_stops_after_it() -> None:
    """It has taken the signal at its start, as web servers do: the handler sets a flag."""
    stopping = asyncio.Event()
    controller = Controller("a", Calls())

    async def serve() -> None:
        with _handled(signal.SIGTERM, lambda _number, _frame: stopping.set()):
            await stopping.wait()

    serving = asyncio.create_task(serve())
    await asyncio.sleep(0)
    running = asyncio.create_task(controller.run())
    await until(lambda: controller.is_running)
    _send(signal.SIGTERM)
    async with asyncio.timeout(100):
        await asyncio.gather(serving, running)


def test_the_handler_of_asyncio_run_is_not_called_after_a_block() -> None:
    """It would cancel the task, which continues."""
    called = list[str]()

    async def main() -> None:
        with on_stop_signal(called.append):
            _send(signal.SIGINT)
            await until(lambda: called)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert called == ["SIGINT"]


@pytest.mark.every_loop
@pytest.mark.parametrize("number", NUMBERS)
async def test_a_handler_of_the_loop_is_called_during_and_after_a_block(
    number: signal.Signals,
) -> None:
    called, own = list[str](), list[str]()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(number, own.append, "own")
    try:
        with on_stop_signal(called.append):
            _send(number)
            await until(lambda: called and own)
        _send(number)
        await until(lambda: len(own) == 2)
    finally:
        loop.remove_signal_handler(number)
    assert called == [number.name]


async def test_the_inner_block_of_a_task_is_called_and_then_the_outer_one() -> None:
    called = list[str]()
    with on_stop_signal(lambda _: called.append("outer")):
        with on_stop_signal(lambda _: called.append("inner")):
            _send(signal.SIGTERM)
            await until(lambda: called)
        _send(signal.SIGTERM)
        await until(lambda: len(called) == 2)
    assert called == ["inner", "outer"]


async def test_a_block_of_a_task_inside_a_block_does_not_keep_the_signal_for_itself() -> None:
    """A second operator that the lifespan of `Operator.run` starts."""
    called, end = list[str](), asyncio.Event()
    with on_stop_signal(lambda _: called.append("program")):
        task = asyncio.create_task(_block(called, "second", until_set=end))
        await asyncio.sleep(0)
        _send(signal.SIGTERM)
        await until(lambda: len(called) == 2)
        end.set()
        await task
    assert sorted(called) == ["program", "second SIGTERM"]


async def test_a_signal_between_two_blocks_of_a_task_reaches_the_second() -> None:
    """A program that goes from its assembly to its run when the signal has just arrived."""
    called = list[str]()
    with on_stop_signal(lambda _: called.append("first")):
        _send(signal.SIGTERM)
    with on_stop_signal(lambda _: called.append("second")):
        await until(lambda: called)
    assert called == ["second"]


@pytest.mark.parametrize("number", NUMBERS)
async def test_a_signal_at_the_end_of_the_last_block_reaches_the_earlier_handler(
    number: signal.Signals,
) -> None:
    heard, called = list[int](), list[str]()
    with _handled(number, lambda sent, _: heard.append(sent)):
        with on_stop_signal(called.append):
            _send(number)
        await until(lambda: heard)
    assert not called


async def test_a_handler_that_is_installed_during_a_block_stays() -> None:
    heard = list[int]()
    before = signal.getsignal(signal.SIGTERM)
    try:
        with on_stop_signal(lambda _: None):
            signal.signal(signal.SIGTERM, lambda sent, _: heard.append(sent))
        _send(signal.SIGTERM)
        await until(lambda: heard)
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_a_later_handler_that_passes_signals_on_reaches_the_earlier_one() -> None:
    heard, called = list[int](), list[str]()

    async def run_once() -> None:
        """Install a handler in a block that passes on to the handler of the block."""
        with on_stop_signal(called.append):
            ours = signal.getsignal(signal.SIGTERM)
            assert callable(ours)
            signal.signal(signal.SIGTERM, functools.partial(_pass_on, ours))
            _send(signal.SIGTERM)
            await until(lambda: called)
        called.clear()
        _send(signal.SIGTERM)
        await until(lambda: heard)
        heard.clear()

    with _handled(signal.SIGTERM, lambda sent, _: heard.append(sent)):
        await run_once()
        await run_once()
    assert not called


def test_a_loop_that_was_closed_inside_a_block_takes_no_signals() -> None:
    heard, called = list[int](), list[str]()
    with _handled(signal.SIGTERM, lambda sent, _: heard.append(sent)):
        loop = asyncio.new_event_loop()

        async def enter(stack: AsyncExitStack) -> None:
            stack.enter_context(on_stop_signal(called.append))

        stack = AsyncExitStack()
        loop.run_until_complete(enter(stack))
        loop.close()
        _send(signal.SIGTERM)
        assert heard
        asyncio.run(stack.aclose())
    assert not called


async def test_a_signal_that_was_ignored_is_ignored_again() -> None:
    with _handled(signal.SIGTERM, signal.SIG_IGN):
        with on_stop_signal(lambda _: None):
            ours = signal.getsignal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        signal.signal(signal.SIGTERM, ours)  # by code that has kept it
        _send(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_a_signal_after_a_block_ends_a_program_that_has_no_handler() -> None:
    """Even if a later handler, installed in the block, passes it on to that of the block."""
    program = """
import asyncio, signal
from pyinformer.controller import on_stop_signal

async def main():
    with on_stop_signal(print):
        ours = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, lambda *arguments: ours(*arguments))
    signal.raise_signal(signal.SIGTERM)

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, timeout=100, capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, b"", b"")


@pytest.mark.parametrize("run", ["asyncio.run", "uvloop.run"])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_repeated_signal_interrupts_what_blocks_the_loop(
    number: signal.Signals, run: str
) -> None:
    program = f"""
import asyncio, time
import uvloop
from pyinformer.controller import on_stop_signal

async def main():
    with on_stop_signal(print):
        print("blocks", flush=True)
        while True:
            time.sleep(0.001)

try:
    {run}(main())
except KeyboardInterrupt:
    print("interrupted")
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"blocks\n"
        sent = 0
        while running.poll() is None and sent < 500:
            running.send_signal(number)
            sent += 1
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(0.2)
        running.kill()
        assert running.stdout.read() == b"interrupted\n"
    assert sent > 2  # the first ones may be taken soon


async def test_a_signal_that_is_sent_twice_at_once_interrupts_nothing() -> None:
    called: list[str] = []
    with on_stop_signal(called.append):
        _send(signal.SIGINT)
        _send(signal.SIGINT)
        await until(lambda: len(called) == 2)
        _send(signal.SIGINT)
        await until(lambda: len(called) == 3)
    assert called == ["SIGINT"] * 3
