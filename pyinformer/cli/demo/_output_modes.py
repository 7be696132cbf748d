"""The screens of the demo: a live table on a terminal, and plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TextIO, final

from pyinformer.cli.demo._metrics import Frame, format_size
from pyinformer.cli.output import takes_control_codes


class Screen(Protocol):
    """Shows the frames of the demo."""

    interval_seconds: float
    """How often a frame is shown."""

    def show(self, frame: Frame) -> None:
        """Show a frame."""
        ...

    def close(self, last: Frame | None = None) -> None:
        """Show the last frame and release the terminal; a second call does nothing."""
        ...


@final
class PlainScreen:
    """Prints one line per second about the informers, and the newest change of each resource."""

    interval_seconds: float = 1.0

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._printed = 0

    def show(self, frame: Frame) -> None:
        """Print a frame and the changes since the last one."""
        counts = ", ".join(
            f"{row.objects} {row.resource} ({row.events_per_second:.0f}/s"
            f"{'' if row.state == 'watching' else f', {row.state}'})"
            for row in frame.rows
        )
        position = max((row.position for row in frame.rows), key=lambda text: (len(text), text))
        clock = f"{frame.elapsed_seconds:5.1f} s"
        self._print(f"{clock}  {counts}, position {position}, RSS {format_size(frame.rss_bytes)}")
        for entry in frame.event_log.last_of_each(after=self._printed):
            self._print(f"{clock}  {entry.text}")
        self._printed = frame.event_log.count

    def close(self, last: Frame | None = None) -> None:
        """Do nothing: every line is complete."""

    def _print(self, line: str) -> None:
        print(line, file=self._output, flush=True)


def screen_for(output: TextIO, environ: Mapping[str, str]) -> Screen:
    """Return the screen for an output."""
    if not takes_control_codes(output, environ):
        return PlainScreen(output)
    from pyinformer.cli.demo._live_screen import LiveScreen

    return LiveScreen(output)
