"""The live table of the demo: one row per resource, and below it the last changes.

Each frame is drawn over the last one, and is never higher than the terminal.
"""

from __future__ import annotations

from typing import TextIO, final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pyinformer.cli._pipe_console import PipeConsole
from pyinformer.cli.demo._demo_messages import EventLog
from pyinformer.cli.demo._metrics import Frame, ResourceRow, format_size

_TABLE_LINES = 8  # title, table head and foot, blank line, heading
_SUMMARY_LINES = 9  # the summary below the last frame; title and table should stay visible
_MOST_CHANGES = 20
_MOST_NODES, _MOST_DEPLOYMENTS = 2, 4
_STYLES = {"nodes": "yellow", "deployments": "cyan", "pods": "default"}
_WIDE = 100  # terminal columns that leave room for the less important table columns


@final
class LiveScreen:
    """Draws frames in place."""

    interval_seconds: float = 0.5  # faster updates are not readable

    def __init__(self, output: TextIO) -> None:
        self._console = PipeConsole(file=output, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._last: Frame | None = None

    def show(self, frame: Frame) -> None:
        """Draw a frame over the last one."""
        if not self._live.is_started:
            self._live.start()
        self._last = frame
        room = self._console.height - _TABLE_LINES - len(frame.rows) - 1
        self._live.update(self._draw(frame, min(room, _MOST_CHANGES)), refresh=True)

    def close(self, last: Frame | None = None) -> None:
        """Leave the last frame visible, with room for the summary below it."""
        last, self._last = last or self._last, None
        if last is None or not self._live.is_started:
            return
        room = self._console.height - _TABLE_LINES - len(last.rows) - _SUMMARY_LINES
        self._live.update(self._draw(last, min(room, _MOST_CHANGES)), refresh=True)
        self._live.stop()

    def _draw(self, frame: Frame, changes: int) -> RenderableType:
        parts: list[RenderableType] = [self._title(frame), self._table(frame)]
        lines = _recent_changes(frame.event_log, changes)
        if lines:
            parts += [Text(), Text("last changes", style="bold"), *lines]
        return Group(*parts)

    def _title(self, frame: Frame) -> Text:
        title = Text("pyinformer demo", style="bold", no_wrap=True, overflow="ellipsis")
        title.append(f"  {frame.elapsed_seconds:.1f} of {frame.total_seconds:.0f} s", style="cyan")
        title.append(f"  {frame.server}", style="dim")
        title.append(f"  process RSS {format_size(frame.rss_bytes)}", style="default not bold")
        return title

    def _table(self, frame: Frame) -> Table:
        wide = self._console.width >= _WIDE
        table = Table(header_style="bold", border_style="dim")
        table.add_column("resource")
        for heading in ("objects", "events/s"):
            table.add_column(heading, justify="right")
        if wide:
            for heading in ("events", "waiting"):
                table.add_column(heading, justify="right")
        table.add_column("position", justify="right")
        table.add_column("state")
        table.add_column("bodies", justify="right")
        for row in frame.rows:
            table.add_row(*_cells(row, wide=wide))
        return table


def _recent_changes(event_log: EventLog, room: int) -> list[Text]:
    """Return the last changes; rare ones come first, so that pods do not displace them."""
    nodes = event_log.last("nodes", min(_MOST_NODES, room // 3))
    deployments = event_log.last("deployments", min(_MOST_DEPLOYMENTS, room // 3))
    pods = event_log.last("pods", room - len(nodes) - len(deployments))
    return [
        Text(f"  {entry.text}", style=_STYLES[entry.topic], no_wrap=True, overflow="ellipsis")
        for entry in (*nodes, *deployments, *pods)
    ]


def _cells(row: ResourceRow, *, wide: bool) -> list[RenderableType]:
    state = Text(row.state, style="green" if row.state == "watching" else "bold red")
    cells: list[RenderableType] = [row.resource, f"{row.objects:,}", f"{row.events_per_second:.0f}"]
    if wide:
        cells += [f"{row.events:,}", f"{row.queued}"]
    return [*cells, row.position, state, format_size(row.body_bytes)]
