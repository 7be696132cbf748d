"""Ctrl-C at every single step of the blocking face: it ends everything, and leaves nothing behind.

A person can press the keys between any two steps, so a profiler raises the KeyboardInterrupt there:
at the first step of a program, in the next run at the second one, until a run has no more steps.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import anyio
import pytest

import pyinformer

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_OURS = str(Path(pyinformer.__file__).parent)
_OF_THE_LOOP = {"call_soon_threadsafe", "_call_soon", "_write_to_self"}
_AT_MOST_SECONDS = 3.0  # a wait that is lost takes six or fifteen
_ATTEMPTS = 5  # a busy machine may exceed that now and then; a wait is lost each time


class Interrupter:
    """Raises KeyboardInterrupt at one of the steps at which Python looks for signals.

    These are the beginning of a function, and behind a call of C's.

    Args:
        step: at which one.
    """

    def __init__(self, step: int) -> None:
        self._left = step
        self.has_interrupted = False

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Count a step of this thread."""
        code = frame.f_code
        if event not in {"call", "c_return"} or code.co_name == "__exit__":
            return  # it does not look there; and what has not begun to end, ends at exit
        if not (code.co_filename.startswith(_OURS) or code.co_name in _OF_THE_LOOP):
            return  # the test's own, or the threading module's, which can lose its own locks
        self._left -= 1
        if self._left < 0 and not self.has_interrupted:
            self.has_interrupted = True
            sys.setprofile(None)
            raise KeyboardInterrupt


def interrupted_at_each_step(program: Callable[[], None]) -> int:
    """Run a program again and again, interrupted one step later each time; return the steps."""
    step = 0
    while has_interrupted(program, step):
        step += 1
    return step


def has_interrupted(program: Callable[[], None], step: int) -> bool:
    """Interrupt a program at a step; return whether it has that many."""
    for _ in range(_ATTEMPTS):
        interrupter = Interrupter(step)
        if seconds_of(program, interrupter) < _AT_MOST_SECONDS:
            return interrupter.has_interrupted
    pytest.fail(f"a wait is lost at step {step}")


def seconds_of(program: Callable[[], None], interrupter: Interrupter) -> float:
    """Run a program until it is interrupted; return how long it and its thread took."""
    began_at = monotonic()
    sys.setprofile(interrupter)
    try:
        program()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    for thread in threading.enumerate():
        if thread.name == "interrupted" and thread.is_alive():  # else it never began
            thread.join(100)
            assert not thread.is_alive()
    return monotonic() - began_at


def test_an_interrupt_at_any_step_of_a_call_leaves_no_thread_and_no_wait() -> None:
    async def work() -> None:
        await anyio.lowlevel.checkpoint()

    def program() -> None:
        with pyinformer.run_in_thread(name="interrupted") as runner:
            runner.call(work)

    assert interrupted_at_each_step(program) > 30


def test_an_interrupt_at_any_step_closes_what_was_connected() -> None:
    context = contextvars.copy_context()

    def program() -> None:
        with (
            pyinformer.run_in_thread(name="interrupted") as runner,
            runner.connect(server="http://127.0.0.1:1") as cluster,
            cluster.informer_factory() as factory,
        ):
            factory.informer("v1", "pods")

    assert interrupted_at_each_step(program) > 30
    assert contextvars.copy_context() == context


def test_a_runner_that_was_closed_before_it_started_does_not_start() -> None:
    runner = pyinformer.run_in_thread(name="interrupted")
    runner.close()
    with pytest.raises(pyinformer.errors.LifecycleError, match="started only once"):
        runner.start()
