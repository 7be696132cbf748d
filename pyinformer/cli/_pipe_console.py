"""The console for tables; a closed output raises BrokenPipeError, as in other commands."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console


class PipeConsole(Console):
    """Raises BrokenPipeError, where its base class exits the process with its own status."""

    def on_broken_pipe(self) -> NoReturn:
        """Raise, so that the command can end in order."""
        raise BrokenPipeError
