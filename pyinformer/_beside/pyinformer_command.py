"""The program `pyinformer`: hears signals before it loads anything, then runs the command line.

What enters are the arguments of the process, what leaves is its exit status. It is not of the
package, since loading that takes long enough for somebody to press Ctrl-C, which then would be
answered with a traceback from the middle of an import.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

__all__ = ["ended_at_once_by_signals", "main"]

_SIGNALLED = 128  # plus the signal's number, as shells count


def main() -> int:
    """Run the command that the arguments name.

    Returns:
        The exit status; usage errors and `--help` end the process by themselves.
    """
    with ended_at_once_by_signals(to_the_end=True):
        from pyinformer.cli import main as run

        return run()


@contextmanager
def ended_at_once_by_signals(*, to_the_end: bool = False) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the process where it stands, until a command handles them.

    While modules are loaded there is nothing to put in order, and a traceback would say nothing.

    Args:
        to_the_end: the process is ours: after SystemExit the handlers stay, since a traceback
            from the end of the interpreter would say nothing either.
    """

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        os._exit(_SIGNALLED + number)

    before: dict[int, object] = {}
    with suppress(ValueError):  # not in the main thread
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, end)
    try:
        yield
    except SystemExit:
        if to_the_end:
            before.clear()
        raise
    finally:
        for known, one in before.items():
            signal.signal(known, one)  # type: ignore[arg-type]  # what signal() gave
