"""The plots of a record, as SVG that is readable on white and on black.

The same record gives the same bytes: no date, no random identifiers. Text stays text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import msgspec
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from benchmarks.report.goals import LABELS, OVERVIEW, Panel
from benchmarks.report.record import Record, Section
from benchmarks.report.rows import Row, make_rows
from benchmarks.report.terminal import number
from benchmarks.runs.run import is_foreign

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK = "#7d8590"  # about 4:1 both on white and on GitHub's dark page
_OWN = "#2f81f7"
_OTHER = "#a371a0"
_FLOOR = "#3fa266"
_sized = re.compile(r"(.+), ([\d,]+) pods").fullmatch  # a peer that was measured at many sizes
_LOG_FROM = 12.0  # largest over smallest: beyond that, a linear bar of the smallest is a hairline
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "pyinformer",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10.0,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.titlesize": 10.5,
}


def section_plot(section: Section, measures: Sequence[str] = ()) -> str:
    """Draw a run: one panel for each of `measures`, or for its first figure."""
    names = list(measures) or [row.measures for row in section.rows[:1]]
    panels = [[row for row in section.rows if row.measures == name] for name in names]
    titles = [_title(name, rows) for name, rows in zip(names, panels, strict=True)]
    return _drawn(titles, panels)


def overview_plot(record: Record) -> str:
    """Draw the plot for the README: what an update costs, and what an object weighs."""
    panels = [_panel_rows(record, panel) for panel in OVERVIEW]
    return _drawn([panel.title for panel in OVERVIEW], panels)


def _panel_rows(record: Record, panel: Panel) -> list[Row]:
    rows: list[Row] = []
    for run, peer in panel.peers:
        sections = [section for section in record.sections if section.name == run]
        rounds = [done for each in sections for done in each.rounds if peer in done]
        rows += make_rows([panel.spec], [peer] if rounds else [], rounds)
    return [msgspec.structs.replace(row, peer=LABELS.get(row.peer, row.peer)) for row in rows]


def _title(name: str, rows: Sequence[Row]) -> str:
    unit = rows[0].unit if rows else ""
    return f"{name}, {unit}" if unit else name


def _drawn(titles: Sequence[str], panels: Sequence[Sequence[Row]]) -> str:
    longest = max((len(rows) for rows in panels), default=1)
    with mpl.rc_context(_STYLE):
        drawing = Figure(figsize=(5.2 * len(panels) + 0.4, 0.9 + 0.34 * max(longest, 1)))
        FigureCanvasSVG(drawing)
        for place, (title, rows) in enumerate(zip(titles, panels, strict=True)):
            axes = drawing.add_subplot(1, len(panels), place + 1)
            (_draw_curve if all(_sized(row.peer) for row in rows) else _draw)(axes, title, rows)
            if place and [row.peer for row in rows] == [row.peer for row in panels[0]]:
                axes.set_yticklabels([])
        drawing.tight_layout()
        text = io.StringIO()
        drawing.savefig(
            text, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    return text.getvalue()


def _draw(axes: Axes, title: str, rows: Sequence[Row]) -> None:
    axes.set_title(title, loc="left")
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)
    axes.set_xticks([])
    axes.xaxis.set_visible(False)
    axes.tick_params(length=0)
    axes.set_yticks(range(len(rows)), [row.peer for row in rows])
    axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    known = [row.median for row in rows if row.median is not None and row.median > 0]
    if not known:
        return
    is_log = max(known) / min(known) > _LOG_FROM
    left = min(known) / 3 if is_log else 0.0
    if is_log:
        axes.set_xscale("log")
        axes.set_title(f"{title} (log scale)", loc="left")
    ceiling = max(row.max or row.median or 0 for row in rows)
    axes.set_xlim(left, ceiling * (3.2 if is_log else 1.35))
    for place, row in enumerate(rows):
        _draw_row(axes, place, row, left)


def _draw_curve(axes: Axes, title: str, rows: Sequence[Row]) -> None:
    """Draw a line for each peer, by the number of objects."""
    axes.set_title(title, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("objects in the cache")
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        found = _sized(row.peer)
        if found and row.median is not None:
            count = int(found.group(2).replace(",", ""))
            lines.setdefault(found.group(1), []).append((count, row.median))
    for peer, points in lines.items():
        counts, values = zip(*sorted(points), strict=True)
        style = ":" if peer.endswith("-compact") else "-"
        axes.plot(counts, values, color=_color(peer), marker="o", markersize=3, linestyle=style)
        axes.annotate(peer, (counts[-1], values[-1]), xytext=(5, 2), textcoords="offset points")


def _draw_row(axes: Axes, place: int, row: Row, left: float) -> None:
    if row.median is None or row.min is None or row.max is None:
        reason = "failed" if "failed" in row.note else "not measured"
        axes.text(0.01, place, reason, transform=axes.get_yaxis_transform(), va="center")
        return
    axes.barh(place, max(row.median - left, 0.0), left=left, height=0.62, color=_color(row.peer))
    if row.max > row.min:
        axes.plot([row.min, row.max], [place, place], color=_INK, linewidth=1.2)
    axes.annotate(
        number(row.median),
        (max(row.max, left), place),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
    )


def _color(peer: str) -> str:
    if peer.startswith(("bare", "floor")):
        return _FLOOR
    return _OTHER if is_foreign(peer) else _OWN
