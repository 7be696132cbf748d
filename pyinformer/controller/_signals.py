"""SIGTERM and SIGINT as calls on the event loop, for the length of a block."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
# What is called on a loop, the innermost block last: a loop has one handler for each signal.
_calls: Final[dict[asyncio.AbstractEventLoop, list[Callable[[str], object]]]] = {}


@contextmanager
def on_stop_signal(call: Callable[[str], object]) -> Iterator[None]:
    """Call a function with the name of each signal that asks the program to stop.

    Outside the main thread, and on a loop without signal handlers, nothing is called. Blocks may
    be nested: the innermost is called. Earlier handlers are restored at the end.

    Args:
        call: called on the running loop.
    """
    loop = asyncio.get_running_loop()
    replaced: dict[signal.Signals, Any] = {}
    for number in _SIGNALS:
        before = signal.getsignal(number)
        try:
            loop.add_signal_handler(number, call, number.name)
        except (NotImplementedError, RuntimeError, ValueError):  # not the main thread
            continue
        replaced[number] = before
    _calls.setdefault(loop, []).append(call)
    try:
        yield
    finally:
        outer = _calls[loop]
        outer.remove(call)
        if not outer:
            del _calls[loop]
        for number, before in replaced.items():
            if outer:
                loop.add_signal_handler(number, outer[-1], number.name)
                continue
            loop.remove_signal_handler(number)
            if before is not None:  # None was not set from Python, and cannot be set from it
                signal.signal(number, before)
