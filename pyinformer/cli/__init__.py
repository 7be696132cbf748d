"""The command line: `pyinformer watch`, `get`, `demo`, `serve`, `scenes` and `crd`.

What enters are the arguments of the process, what leaves is its exit status. Nothing is loaded
before `main()` is called, and without the extra `cli` that says what to install.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

__all__ = ["main"]

_EXTRA = frozenset(
    {"typer", "click", "rich", "yaml"}
)  # what the extra brings and nothing else here needs
_SIGNALLED = 128  # plus the signal's number, as shells count


def main() -> int:
    """Run the command that the arguments name.

    Returns:
        The exit status; usage errors and `--help` end the process by themselves.
    """
    with _ended_at_once_by_signals():
        try:
            from pyinformer.cli._app import run

            return run()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _EXTRA:
                raise
            print(f"{error.name} is not installed: install 'pyinformer[cli]'", file=sys.stderr)
            return 1


@contextmanager
def _ended_at_once_by_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the process where it stands, until a command handles them.

    While modules are loaded there is nothing to put in order, and a traceback would say nothing.
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
    finally:
        for known, one in before.items():
            signal.signal(known, one)  # type: ignore[arg-type]  # what signal() gave
