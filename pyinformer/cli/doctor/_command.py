"""One run of `pyinformer doctor`: what is asked, how the report is printed, and the exit status."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TextIO

from pyinformer._printable import printable
from pyinformer.cli._exit_status import UNCHECKED
from pyinformer.cli._shutdown import Shutdown, run, status_of_write_error
from pyinformer.cli.doctor._report import Report
from pyinformer.cli.output import Output
from pyinformer.errors import InformerError


def doctor(
    examine: Callable[[], Awaitable[Report]],
    *,
    as_json: bool,
    output: TextIO,
    errors: TextIO,
) -> int:
    """Examine something, and print the report. Call it in the main thread.

    Args:
        examine: returns the report.
        as_json: print one JSON document instead of lines.
        output: receives the report.
        errors: receives one line if nothing could be asked.

    Returns:
        The exit status.
    """
    printed, notes = Output(output, os.environ), Output(errors, os.environ)

    async def command(_: Shutdown) -> int:
        """Examine and print."""
        try:
            report = await examine()
        except InformerError as error:
            notes.line(f"pyinformer doctor: {printable(str(error))}")
            return UNCHECKED
        try:
            if as_json:
                printed.write(report.json())
            else:
                printed.write("".join(f"{line}\n" for line in report.lines(printed.styled)))
        except OSError as error:
            return status_of_write_error(error)
        return report.exit_status

    return run(command, output)
