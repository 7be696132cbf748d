"""Show a record to people at a terminal, or in a log.

Every row is printed, and every reason why a row has no figure.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

from benchmarks.report.record import Record
from benchmarks.report.rows import Row

_COLUMNS = ("measurement", "peer", "median", "min", "max", "unit", "to reach")


def show(record: Record) -> None:
    """Print the record as tables."""
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    machine = record.machine
    print(f"{record.date}  {machine['cpu']}, {machine['cpus']} CPUs, {machine['system']}")
    print(versions)
    for section in record.sections:
        print()
        print(f"{section.title} ({section.name})")
        print(", ".join(f"{key}: {value}" for key, value in section.workload.items()))
        lines = [_cells(row) for row in section.rows]
        if importlib.util.find_spec("rich"):
            _show_rich(lines)
        else:
            _show_plain(lines)
        for note in dict.fromkeys(row.note for row in section.rows if row.note):
            print(f"- {note}")


def number(value: float) -> str:
    """Write a figure with three digits, and whole where it is large."""
    value = float(value)
    if abs(value) >= 1_000 or value.is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _cells(row: Row) -> tuple[str, ...]:
    if row.median is None or row.min is None or row.max is None:
        figures = ("failed" if "failed" in row.note else "none", "", "")
    else:
        figures = (number(row.median), number(row.min), number(row.max))
    return (row.measures, row.peer, *figures, row.unit, row.target)


def _show_rich(lines: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*_COLUMNS)
    for index in (2, 3, 4):
        table.columns[index].justify = "right"
    for line in lines:
        table.add_row(*line)
    # without a terminal nothing may be folded to 80 columns
    width = None if sys.stdout.isatty() else 160
    Console(width=width).print(table)


def _show_plain(lines: Sequence[tuple[str, ...]]) -> None:
    table = [_COLUMNS, *lines]
    widths = [max(len(line[index]) for line in table) for index in range(len(_COLUMNS))]
    for line in table:
        cells = (
            cell.rjust(width) if index in {2, 3, 4} else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        print("  ".join(cells).rstrip())
