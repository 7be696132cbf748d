"""SIGTERM and SIGINT as calls on the event loop, for the length of a block.

A signal calls the function of the innermost block of each task. Once no block is left, the earlier
handler is restored, and is called with the signals of the meantime. A loop that is blocked calls
nothing: a signal that is repeated then interrupts what blocks it.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, final

from pyinformer._runtime.clock import monotonic

if TYPE_CHECKING:
    from types import FrameType

_Handled: TypeAlias = "Callable[[int, FrameType | None], Any] | int | None"  # by signal.getsignal()

STOPPING: Final = "%s: %s: stopping in order; a second signal forces the end"
FORCED_END: Final = "%s: %s again: ending without waiting for reconciles"
"""What a log says of the first and of further signals: who ends, and the name of the signal."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

# A loop that has not taken a signal for so long is blocked, not busy; wrappers of programs send one
# signal twice within milliseconds.
_BLOCKED_SECONDS: Final = 1.0


class _Block(NamedTuple):
    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[Any] | None
    call: Callable[[str], object]


class _Sent(NamedTuple):
    at: float  # of the first one, by monotonic()
    notices: list[asyncio.Handle]


_blocks: Final[list[_Block]] = []  # of all loops of the main thread, the latest last
_taken: Final[set[int]] = set()  # signals for which blocks were called
_sent: Final[dict[asyncio.AbstractEventLoop, _Sent]] = {}  # what a loop has not taken yet


@contextmanager
def on_stop_signal(call: Callable[[str], object]) -> Iterator[None]:
    """Call a function with the name of each signal that asks the program to stop.

    Outside the main thread nothing is called. Blocks of several tasks are all called; of those that
    a task has nested, the innermost. A handler that the loop has for the signal is called as well.
    Another earlier handler, such as that of a web server in the same program, is restored when the
    last block ends, and called then; but not Python's own for Ctrl-C, nor that of `asyncio.run`,
    which would cancel the task.

    A signal that comes a second or more after one that the loop has not taken yet raises
    KeyboardInterrupt in the code that blocks the loop.

    Args:
        call: called on the running loop.

    Source:
        controller-runtime pkg/manager/signals, SetupSignalHandler: one signal ends all managers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    block = _Block(asyncio.get_running_loop(), asyncio.current_task(), call)
    _blocks.append(block)
    _install()
    try:
        yield
    finally:
        _blocks.remove(block)
        if block.loop not in {one.loop for one in _blocks}:
            _sent.pop(block.loop, None)
        if not _open_blocks():
            _restore()


@final
class _Handler:
    """Handles a signal; a loop's own `add_signal_handler` would replace what others have added."""

    def __init__(self, before: _Handled) -> None:
        self.before = signal.SIG_DFL if before is None else before  # None: not set from Python

    def __call__(self, number: int, frame: FrameType | None) -> None:
        loops = {block.loop for block in _open_blocks()}
        now = monotonic()
        for loop in loops:
            sent = _sent.setdefault(loop, _Sent(now, []))
            if now - sent.at >= _BLOCKED_SECONDS:
                for notice in sent.notices:
                    notice.cancel()  # the blocks end, and their clean-up needs its time
                raise KeyboardInterrupt
            sent.notices.append(loop.call_soon_threadsafe(_notify, loop, number))
        if loops:
            return
        # A later handler passes signals on, or a loop was closed in the middle of a block.
        if callable(self.before):
            self.before(number, frame)
        else:
            signal.signal(number, self.before)
            signal.raise_signal(number)

    def pass_on(self, number: int) -> None:
        """Call the earlier handler, if a program may have it beside others."""
        before = self.before
        if not callable(before) or before is signal.default_int_handler:
            return
        function = before.func if isinstance(before, partial) else before
        if not isinstance(getattr(function, "__self__", None), asyncio.Runner):
            before(number, None)


def _open_blocks() -> list[_Block]:
    return [block for block in _blocks if not block.loop.is_closed()]


def _notify(loop: asyncio.AbstractEventLoop, number: int) -> None:
    _sent.pop(loop, None)
    innermost = {block.task: block.call for block in _blocks if block.loop is loop}
    for call in innermost.values():
        call(signal.Signals(number).name)
    if innermost:
        _taken.add(number)
    else:  # the last block has ended since
        signal.raise_signal(number)


def _install() -> None:
    for number in _SIGNALS:
        before = signal.getsignal(number)
        if not isinstance(before, _Handler):
            signal.signal(number, _Handler(before))


def _restore() -> None:
    taken = frozenset(_taken)
    _taken.clear()  # before a handler that may raise
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if isinstance(handler, _Handler):  # else a later one was installed
            signal.signal(number, handler.before)
            if number in taken:
                handler.pass_on(number)
