"""The command `pyinformer`: install signal handlers, then load the library and run the command.

This module is outside of the package: loading the package takes long enough for a user to press
Ctrl-C, which would print a traceback from the middle of an import.
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
        The exit status; usage errors and `--help` exit by themselves.
    """
    with ended_at_once_by_signals(to_the_end=True):
        from pyinformer.cli import main as run

        return run()


@contextmanager
def ended_at_once_by_signals(*, to_the_end: bool = False) -> Iterator[None]:
    """End the process at once at Ctrl-C and SIGTERM, until a command handles them.

    While modules are loaded there is nothing to clean up, and a traceback would not help.

    Args:
        to_the_end: keep the handlers after SystemExit, up to the end of the interpreter: only for
            a process that runs nothing else.
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
