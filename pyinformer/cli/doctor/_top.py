"""`pyinformer top URL...`: the state of running programs, live in a terminal."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, TextIO, final

import anyio
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pyinformer._runtime.tasks import loop_time
from pyinformer.cli._exit_status import OK, UNCHECKED
from pyinformer.cli._pipe_console import PipeConsole
from pyinformer.cli._shutdown import Shutdown, run, status_of_write_error
from pyinformer.cli.doctor._status_page import fetch_status
from pyinformer.cli.doctor._top_rows import ProgramState, Row, heading, rows_of
from pyinformer.cli.output import takes_control_codes
from pyinformer.errors import InformerError
from pyinformer.operator.diagnosis import Severity

_STYLES: Final = {Severity.OK: "green", Severity.WARN: "yellow", Severity.TROUBLE: "bold red"}
_DRAW_SECONDS: Final = 1.0  # how old a frame gets while a program does not answer
_TABLE_LINES: Final = 3  # its head, a line below it, and the line with the keys
_HEADINGS: Final = ("", "what", "state", "figures", "note")
_KEYS: Final = "q quits"
_TABLE_COLUMNS: Final = 110  # a narrower terminal has several lines for each row
_INDENT: Final = "   "  # as wide as a mark
_MOST_NOTE_LINES: Final = 3


def top(
    urls: Sequence[str],
    *,
    interval_seconds: float,
    timeout_seconds: float,
    output: TextIO,
    environ: Mapping[str, str] = os.environ,
) -> int:
    """Show programs until `q` or Ctrl-C; without a terminal, print their state once.

    Call it in the main thread.

    Args:
        urls: of their health endpoints.
        interval_seconds: how often each is asked.
        timeout_seconds: how long an answer may take.
        output: the terminal.
        environ: the environment, which may disable control codes.

    Returns:
        The exit status.
    """
    programs = Programs(urls, timeout_seconds=timeout_seconds)

    async def command(shutdown: Shutdown) -> int:
        """Show the programs."""
        try:
            if takes_control_codes(output, environ):
                with _keys(lambda: shutdown.end(OK)):
                    await _show(programs, output, interval_seconds)
            return await _print_once(programs, output)
        except OSError as error:
            return status_of_write_error(error)

    return run(command, output)


@final
class Programs:
    """The programs that are shown, and what each answered last.

    Args:
        urls: of their health endpoints.
        timeout_seconds: how long an answer may take.
    """

    def __init__(self, urls: Sequence[str], *, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._states = {url: ProgramState(url=url) for url in urls}
        self._answered_at: dict[str, float] = {}
        self._began_at: float | None = None

    def states(self, now: float) -> list[ProgramState]:
        """Return the state of each program, with its age as of `now`."""
        began_at = now if self._began_at is None else self._began_at
        return [
            replace(state, age_seconds=now - self._answered_at.get(url, began_at))
            for url, state in self._states.items()
        ]

    async def ask(self) -> None:
        """Ask each program once.

        Cancellation:
            Safe; requests are dropped.
        """
        if self._began_at is None:
            self._began_at = loop_time()
        async with anyio.create_task_group() as group:
            for url in self._states:
                group.start_soon(self._ask, url)

    async def poll(self, interval_seconds: float) -> None:
        """Ask each program at an interval, whether others answer or not.

        Cancellation:
            Safe; requests are dropped.
        """
        self._began_at = loop_time()

        async def repeat(url: str) -> None:
            """Ask one program."""
            while True:
                await self._ask(url)
                await anyio.sleep(interval_seconds)

        async with anyio.create_task_group() as group:
            for url in self._states:
                group.start_soon(repeat, url)

    async def _ask(self, url: str) -> None:
        state = self._states[url]
        try:
            page = await fetch_status(url, timeout_seconds=self._timeout_seconds)
        except InformerError as error:
            self._states[url] = replace(state, error=str(error))
            return
        self._states[url] = ProgramState(url=url, page=page)
        self._answered_at[url] = loop_time()


async def _print_once(programs: Programs, output: TextIO) -> int:
    await programs.ask()
    states = programs.states(loop_time())
    for line in lines_of(states):
        print(line, file=output)
    output.flush()
    return UNCHECKED if any(state.error for state in states) else OK


def lines_of(states: Sequence[ProgramState]) -> Iterator[str]:
    """Yield the state of programs as plain lines."""
    yield from (heading(state)[1] for state in states)
    for row in rows_of(states):
        cells = (f"{row.severity:<8}", row.what, row.state, row.figures, row.note)
        yield "  ".join(cell for cell in cells if cell)


async def _show(programs: Programs, output: TextIO, interval_seconds: float) -> None:
    """Draw frames over each other until the command is cancelled."""
    console = PipeConsole(file=output, highlight=False)
    live = Live(console=console, auto_refresh=False, screen=True)
    with live:
        async with anyio.create_task_group() as group:
            group.start_soon(programs.poll, interval_seconds)
            while True:
                now = programs.states(loop_time())
                frame = screen(now, width=console.width, height=console.height)
                live.update(frame, refresh=True)
                await anyio.sleep(min(interval_seconds, _DRAW_SECONDS))


def screen(states: Sequence[ProgramState], *, width: int, height: int) -> RenderableType:
    """Return a frame that fits into a terminal.

    Args:
        states: the programs.
        width: the columns of the terminal.
        height: the lines of the terminal.
    """
    if width < _TABLE_COLUMNS:
        return _narrow(states, width, height)
    parts = [_line(text, _STYLES[severity]) for severity, text in map(heading, states)]
    parts = parts[: max(height - 1, 1)]
    rows, room = rows_of(states), height - len(parts) - _TABLE_LINES
    keys = _KEYS if len(rows) <= room else f"{_KEYS}; {len(rows) - max(room, 0)} more rows"
    if room <= 0:
        return Group(*parts)
    return Group(*parts, _table(rows[:room]), _line(keys, "dim"))


def _narrow(states: Sequence[ProgramState], width: int, height: int) -> RenderableType:
    """Return a frame without a table: each row has lines for its figures and its note."""
    parts = [
        _line(line, _STYLES[severity])
        for severity, text in map(heading, states)
        for line in textwrap.wrap(text, width)
    ][: max(height - 1, 1)]
    rows, shown = rows_of(states), 0
    for row in rows:
        lines = _narrow_row(row, width - len(_INDENT))
        if len(parts) + len(lines) >= height:
            break
        parts += lines
        shown += 1
    if len(parts) < height:
        left = len(rows) - shown
        parts.append(_line(f"{_KEYS}; {left} more rows" if left else _KEYS, "dim"))
    return Group(*parts)


def _narrow_row(row: Row, width: int) -> list[Text]:
    title = _line(f"{_mark(row):<{len(_INDENT)}}{row.what}  {row.state}", _STYLES[row.severity])
    below = textwrap.wrap(row.figures, width)
    below += textwrap.wrap(row.note, width, max_lines=_MOST_NOTE_LINES, placeholder="...")
    return [title, *(_line(f"{_INDENT}{line}", "") for line in below)]


def _mark(row: Row) -> str:
    return "" if row.severity is Severity.OK else row.severity.upper()[:2]


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, header_style="bold", expand=True, pad_edge=False)
    for name, ratio in zip(_HEADINGS, (1, 6, 4, 7, 9), strict=True):
        table.add_column(name, ratio=ratio, no_wrap=True, overflow="ellipsis")
    for row in rows:
        style = _STYLES[row.severity]
        texts = (row.what, row.state, row.figures, row.note)
        table.add_row(Text(_mark(row), style), *(Text(text) for text in texts))
    return table


def _line(text: str, style: str) -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


@contextmanager
def _keys(on_quit: Callable[[], object]) -> Iterator[None]:
    """Call a function when `q` is pressed, if the standard input is a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    import termios  # not on Windows, where no terminal of this kind gets here
    import tty

    number, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(number)

    def read() -> None:
        if os.read(number, 1024).lower().find(b"q") >= 0:
            on_quit()

    tty.setcbreak(number)
    loop.add_reader(number, read)
    try:
        yield
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)
