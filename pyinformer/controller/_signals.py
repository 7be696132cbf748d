"""Signals that ask a program to stop, heard while a block lasts.

What enters are SIGTERM and SIGINT; what leaves are calls, on the loop. Outside of the main thread,
and where the loop knows no signals, nothing is heard and nothing breaks. What was there before is
put back.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, final

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@final
class StopSignals:
    """Use it as `with StopSignals(...)`, on the running loop.

    Args:
        on_signal: is called with the signal's name.
    """

    def __init__(self, on_signal: Callable[[str], None]) -> None:
        self._on_signal = on_signal
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            before = signal.getsignal(number)
            try:
                self._loop.add_signal_handler(number, self._on_signal, number.name)
            except (NotImplementedError, RuntimeError, ValueError):  # not the main thread
                continue
            self._before[number] = before
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            if self._loop is not None:
                self._loop.remove_signal_handler(number)
            if before is not None:  # None was not set from Python, and cannot be from here
                signal.signal(number, before)
        self._before.clear()
