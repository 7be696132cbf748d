"""The output stream of a command: whole lines to a file, a pipe or a terminal.

Writes are not buffered, so no data waits for a flush if the process ends while a pipe is full.
Colors are used only on a terminal that supports them.
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
    """Writes texts to a stream, one at a time; any thread may write.

    Args:
        output: a file, or any object with `write`.
        environ: the environment, which may disable colors.
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
        """Return a text with the codes of a style if colors are enabled."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self._is_colourful else text

    def write(self, text: str) -> None:
        """Write a whole text. Blocks while a pipe is full.

        Raises:
            BrokenPipeError: the output was closed.
            OSError: the write failed, for example because the disk is full.
        """
        with self._lock:
            if self._file is None:
                self._output.write(text)
                self._output.flush()
            else:
                self._write_all(memoryview(text.encode("utf-8", "backslashreplace")), self._file)

    def line(self, text: str) -> None:
        """Write a progress line; it is dropped if the disk is full.

        Raises:
            BrokenPipeError: the output was closed.
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
            except BlockingIOError:  # another process made the shared terminal non-blocking
                select.select((), (file,), ())


def takes_control_codes(output: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether control codes may be written: only to a terminal where they are enabled."""
    plain = environ.get("CI") or environ.get("NO_COLOR") or environ.get("TERM", "dumb") == "dumb"
    return output.isatty() and not plain
