"""SIGTERM and SIGINT as calls on the event loop, for the length of a block."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def on_stop_signal(call: Callable[[str], object]) -> Iterator[None]:
    """Call a function with the name of each signal that asks the program to stop.

    Outside the main thread, and on a loop without signal handlers, nothing is called. Earlier
    handlers are restored at the end.

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
    try:
        yield
    finally:
        for number, before in replaced.items():
            loop.remove_signal_handler(number)
            if before is not None:  # None was not set from Python, and cannot be set from it
                signal.signal(number, before)
