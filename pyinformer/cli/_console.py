"""The table library's console, except that a reader who goes is an error as everywhere else."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console


class PipeConsole(Console):
    """Raises BrokenPipeError, where its base ends the process with a status of its own."""

    def on_broken_pipe(self) -> NoReturn:
        """Let the command end in order."""
        raise BrokenPipeError
