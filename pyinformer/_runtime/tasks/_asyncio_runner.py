"""The event loop of a program that pyinformer runs as a whole: uvloop's if it is installed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

UVLOOP_SWITCH: Final = "PYINFORMER_UVLOOP"
_OFF: Final = frozenset({"off", "0", "no", "false"})


def program_runner(*, may_use_uvloop: bool = True) -> asyncio.Runner:
    """Return a runner with a new event loop for a whole program.

    Args:
        may_use_uvloop: False for asyncio's own loop, as `PYINFORMER_UVLOOP=off` in the environment
            chooses it.
    """
    if not may_use_uvloop or means_off(os.environ.get(UVLOOP_SWITCH, "")):
        return _asyncio_runner()
    if _threads_are_greenlets():
        return _asyncio_runner()  # uvloop waits in C, where no greenlet runs
    try:
        import uvloop  # noqa: PLC0415 - an extra, for the few programs that have it
    except ImportError:  # it is an extra, and does not exist on Windows
        return _asyncio_runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


def means_off(text: str) -> bool:
    """Return whether the text of an environment variable is `off`, or means the same."""
    return text.strip().lower() in _OFF


def _threads_are_greenlets() -> bool:
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    return (gevent is not None and gevent.is_module_patched("threading")) or (
        eventlet is not None and eventlet.is_monkey_patched("thread")
    )


def _asyncio_runner() -> asyncio.Runner:
    loop = asyncio.new_event_loop()
    loop.close()
    if sys.version_info < (3, 14) and not _is_own(loop):
        asyncio.set_event_loop_policy(None)  # which awaits child processes there
    return asyncio.Runner(loop_factory=asyncio_loop)


def asyncio_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop of asyncio's own, whatever the policy is, such as that of uvloop."""
    loop = asyncio.new_event_loop()
    if _is_own(loop):
        return loop
    loop.close()
    return asyncio.SelectorEventLoop()


def run_on_asyncio(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine as `asyncio.run` does, on a loop of asyncio's own."""
    with asyncio.Runner(loop_factory=asyncio_loop) as runner:
        return runner.run(coroutine)


def _is_own(loop: asyncio.AbstractEventLoop) -> bool:
    return isinstance(loop, asyncio.BaseEventLoop)
