"""Where a command writes: whole lines to a file, a pipe or a terminal.

What enters is text that is fit to be printed; what leaves are bytes, past every buffer, so that
nothing is left to be flushed when the process ends while a pipe is full. Colours go to a terminal
that takes them, and nowhere else.
"""

from __future__ import annotations

import io
import os
import select
import threading
from collections.abc import Mapping
from typing import Literal, TextIO, TypeAlias, final

Style: TypeAlias = Literal["bold", "green", "yellow", "red", "dim"]

_CODES: Mapping[Style, str] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
}


@final
class Output:
    """Writes to one output; from any thread, one text after the other.

    Args:
        output: a file, or anything with `write`.
        environ: the environment, which may ask for no colours.
    """

    def __init__(self, output: TextIO, environ: Mapping[str, str]) -> None:
        self._output = output
        self._is_colourful = takes_control_codes(output, environ)
        self._lock = threading.Lock()
        self._file: int | None = None
        try:
            self._file = output.fileno()
        except (OSError, ValueError, io.UnsupportedOperation):
            return
        output.flush()

    def styled(self, text: str, style: Style) -> str:
        """Return a text with its colour, where colours are welcome."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self._is_colourful else text

    def write(self, text: str) -> None:
        """Write a text, to its end. Blocks while a pipe is full.

        Raises:
            BrokenPipeError: whoever read it has gone.
            OSError: it cannot be written, since the disk is full for example.
        """
        with self._lock:
            if self._file is None:
                self._output.write(text)
                self._output.flush()
            else:
                self._write_all(memoryview(text.encode("utf-8", "backslashreplace")), self._file)

    def line(self, text: str) -> None:
        """Write a line of what is said beside; it is lost where there is no room for it.

        Raises:
            BrokenPipeError: whoever read it has gone.
        """
        try:
            self.write(f"{text}\n")
        except BrokenPipeError:
            raise
        except OSError:
            return

    def _write_all(self, left: memoryview, file: int) -> None:
        while left:
            try:
                left = left[os.write(file, left) :]
            except BlockingIOError:  # somebody who shares the terminal made it so
                select.select((), (file,), ())


def takes_control_codes(output: TextIO, environ: Mapping[str, str]) -> bool:
    """Tell whether a live table may be drawn: on a terminal that nobody asked to keep plain."""
    plain = environ.get("CI") or environ.get("NO_COLOR") or environ.get("TERM", "dumb") == "dumb"
    return output.isatty() and not plain
