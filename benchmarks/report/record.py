"""Show a run: a table for people, a JSON record for later comparison.

Enters: sections of rows, and what is known of machine and workload. Leaves: text on standard
output (by rich where it is installed) and, if asked for, a file.
Invariant: both say the same; the record also holds every round's raw figures.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Row

_COLUMNS = ("measurement", "peer", "median", "min", "max", "unit", "to reach")
_PACKAGES = ("pyinformer", "aiohttp", "msgspec", "kubernetes_asyncio", "anyio")
_CPUINFO = Path("/proc/cpuinfo")


class Section(msgspec.Struct):
    """One run: its workload, its rows, its raw figures."""

    title: str
    workload: dict[str, float | int | str]
    rows: list[Row]
    rounds: list[dict[str, Measurement]]


class Record(msgspec.Struct):
    """What `--json` writes."""

    date: str
    machine: dict[str, str | int | None]
    versions: dict[str, str]
    sections: list[Section]


def make_record(sections: Sequence[Section]) -> Record:
    """Put the sections beside the date, the machine and the versions."""
    return Record(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=_machine(),
        versions=_versions(),
        sections=list(sections),
    )


def write_json(record: Record, path: Path) -> None:
    """Write the record to `path`, indented."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def show(record: Record) -> None:
    """Print the record as tables."""
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    machine = record.machine
    print(f"{record.date}  {machine['cpu']}, {machine['cpus']} CPUs, {machine['system']}")
    print(versions)
    for section in record.sections:
        print()
        print(section.title)
        print(", ".join(f"{key}: {value}" for key, value in section.workload.items()))
        lines = [_cells(row) for row in section.rows]
        if importlib.util.find_spec("rich"):
            _show_rich(lines)
        else:
            _show_plain(lines)
        for note in dict.fromkeys(row.note for row in section.rows if row.note):
            print(f"- {note}")


def _cells(row: Row) -> tuple[str, ...]:
    if row.median is None or row.min is None or row.max is None:
        figures = ("failed", "", "")
    else:
        figures = (_number(row.median), _number(row.min), _number(row.max))
    return (row.measures, row.peer, *figures, row.unit, row.target)


def _number(value: float) -> str:
    value = float(value)
    if abs(value) >= 1_000 or value.is_integer():
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}"


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


def _machine() -> dict[str, str | int | None]:
    return {
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
    }


def _cpu_model() -> str:
    if _CPUINFO.exists():
        for line in _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
