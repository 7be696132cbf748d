"""What the demo shows: a table that fits the terminal, or lines without a control code."""

from __future__ import annotations

import io
import re

import pytest

from pyinformer.cli.demo._messages import EventLog
from pyinformer.cli.demo._metrics import Frame, ResourceRow, format_size, rss_bytes
from pyinformer.cli.demo._screens import PlainScreen, screen_for
from pyinformer.cli.output import takes_control_codes

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_UP_AND_ERASE = "\x1b[1A\x1b[2K"  # what every line of the frame before is taken back by
_SUMMARY_LINES = 9  # with the prompt below it
_RESOURCES = ("pods", "nodes", "deployments", "replicasets")


class _Terminal(io.StringIO):
    """Takes control codes."""

    def isatty(self) -> bool:
        """Say that it is a terminal."""
        return True


def _frame(state: str = "watching") -> Frame:
    event_log = EventLog()
    event_log.record("nodes", "node-3", "node-3 is being drained: 14 pods to move")
    for number in range(60):
        event_log.record(
            "deployments", f"d{number}", f"deployment d{number}: 3 of 5 replicas on image v7"
        )
        event_log.record("pods", f"p{number}", f"p{number} is new " + "x" * 200)
    rows = tuple(
        ResourceRow(
            resource=resource,
            objects=1234,
            events=56789,
            events_per_second=99.4,
            position="1234567",
            state=state,
            queued=7,
            body_bytes=2_345_678,
        )
        for resource in _RESOURCES
    )
    return Frame(
        elapsed_seconds=12.3,
        total_seconds=20.0,
        server="http://127.0.0.1:40000",
        rss_bytes=81_000_000,
        rows=rows,
        event_log=event_log,
    )


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40), (80, 10)])
def test_the_table_and_its_summary_fit_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: int, lines: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(lines))
    output = _Terminal()
    screen = screen_for(output, {"TERM": "xterm-256color"})

    screen.show(_frame())
    first = _ESCAPES.sub("", output.getvalue()).splitlines()
    before = len(output.getvalue())
    screen.close(_frame())
    redrawn = output.getvalue()[before:].rpartition(_UP_AND_ERASE)[2]
    last = _ESCAPES.sub("", redrawn).splitlines()

    assert len(first) <= lines
    assert max(map(len, first + last)) <= columns
    if lines >= 24:
        assert "\n".join(last).startswith("pyinformer demo")
        assert len(last) + _SUMMARY_LINES <= lines
        assert all(any(resource in line for line in first) for resource in _RESOURCES)
        assert any("node-3 is being drained" in line for line in first)
        assert any("p59 is new" in line for line in first)
    assert ("waiting" in "".join(first)) is (columns >= 100)


def test_the_cursor_is_restored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    output = _Terminal()
    screen = screen_for(output, {"TERM": "xterm-256color"})

    screen.close()
    screen.show(_frame())
    screen.close()
    screen.close()

    assert output.getvalue().count("\x1b[?25l") == 1
    assert output.getvalue().count("\x1b[?25h") == 1


def test_plain_lines_show_only_what_is_new() -> None:
    output, frame = io.StringIO(), _frame("waiting")
    screen = PlainScreen(output)

    screen.show(frame)
    told = len(output.getvalue())
    screen.show(frame)
    screen.close()

    first, second = output.getvalue()[:told], output.getvalue()[told:]
    assert "\x1b" not in first
    assert "1234 pods (99/s, waiting)" in first
    assert "node-3 is being drained: 14 pods to move" in first
    assert second.count("\n") == 1


@pytest.mark.parametrize(
    ("environ", "taken"),
    [
        pytest.param({"TERM": "xterm"}, True, id="terminal"),
        pytest.param({"TERM": "dumb"}, False, id="dumb"),
        pytest.param({}, False, id="no-term"),
        pytest.param({"TERM": "xterm", "NO_COLOR": "1"}, False, id="no-color"),
        pytest.param({"TERM": "xterm", "CI": "true"}, False, id="ci"),
    ],
)
def test_control_codes_are_written_only_to_terminals(environ: dict[str, str], taken: bool) -> None:
    assert takes_control_codes(_Terminal(), environ) is taken
    assert takes_control_codes(io.StringIO(), environ) is False


def test_sizes_read_well() -> None:
    assert [format_size(size) for size in (512, 9_440, 420_000, 81_000_000)] == [
        "0.5 kB",
        "9.4 kB",
        "0.42 MB",
        "81.0 MB",
    ]
    assert rss_bytes() > 1_000_000
