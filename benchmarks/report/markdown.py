"""The pages of a record, as Markdown.

The pages say nothing that the record does not hold; a peer without a figure is named with the
reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.report.goals import Verdict, judged
from benchmarks.report.record import Machine, Record, Section
from benchmarks.report.rows import Row
from benchmarks.report.subjects import Subject, anchor_of, by_subject
from benchmarks.report.terminal import number

_HEADER = "<!-- written by `python -m benchmarks --publish`; changes by hand are overwritten -->"
_RATIO = ", ratio"
_POINTERS = (
    "[How this is measured, and what is not comparable](method.md). "
    "The [raw record](results.json) holds the figures of every round."
)
_RUNS_POINTERS = "[All runs](../index.md), and [how they measure](../method.md)."
_SMOKE = (
    "**A smoke: it shows that everything runs. Its figures, and what they reach, mean nothing.**"
)
_FIGURES = (
    "Figures are medians of the rounds (smallest to largest); those with a / are ratios, formed "
    "within a round."
)


def index_page(record: Record) -> str:
    """Write the first page: the machine, what was to be reached, where the rest is."""
    verdicts = judged(record)
    met = sum(verdict.is_met is True for verdict in verdicts)
    measured = sum(verdict.is_met is not None for verdict in verdicts)
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    lines = [
        _HEADER,
        "# Benchmarks",
        "",
        *([_SMOKE, ""] if "smoke" in record.size else []),
        f"Measured until {record.date[:10]} ({_sizes(record)}): {_shown(record.machine)}.",
        "",
        *_elsewhere(record),
        f"Versions: {versions}.",
        "",
        _POINTERS,
        "",
        "![CPU per update and memory per object, by client](overview.svg)",
        "",
        "## To reach",
        "",
        f"Of {len(verdicts)} goals {met} are met. {measured - met} are missed. {_FIGURES}",
        "",
        *_table(
            ("work", "figure", "reached", "to reach", ""),
            [_goal_cells(verdict) for verdict in verdicts],
        ),
        "",
        "## Runs",
        "",
        *_contents(record),
    ]
    return "\n".join(lines) + "\n"


def runs_page(subject: Subject, sections: Sequence[Section]) -> str:
    """Write the page of the runs of one subject."""
    lines = [_HEADER, f"# {subject.title}", "", _RUNS_POINTERS]
    return "\n".join(lines) + "\n" + "".join("\n" + _run(section) for section in sections)


def _run(section: Section) -> str:
    figures = [row for row in section.rows if not row.measures.endswith(_RATIO)]
    ratios = [row for row in section.rows if row.measures.endswith(_RATIO)]
    known = ", ".join(f"{name}: {_plain(value)}" for name, value in section.workload.items())
    lines = [f'<a id="{anchor_of(section.name)}"></a>', "", f"## {section.title}", ""]
    lines += [section.says, ""]
    lines += [f"![{section.title}](../plots/{section.name}.svg)", ""]
    where = f", on another machine: {_shown(section.machine)}" if section.machine else ""
    lines += [f"`{section.name}` at size {section.size}, {section.date[:10]}{where}; {known}.", ""]
    lines += [*_pivot(figures), ""]
    if ratios:
        header = ("ratio", "of", "median (min to max)", "to reach")
        lines += [*_table(header, [_ratio_cells(row) for row in ratios]), ""]
    lines += _targets(figures)
    lines += _notes(section.rows)
    return "\n".join(lines[:-1]) + "\n"


def figure(row: Row | None) -> str:
    """Write a row's figure: median, and the range if there is one."""
    if row is None:
        return ""
    if row.median is None or row.min is None or row.max is None:
        return "failed" if "failed" in row.note else "not measured"
    if row.min == row.max:
        return number(row.median)
    return f"{number(row.median)} ({number(row.min)} to {number(row.max)})"


def _contents(record: Record) -> list[str]:
    """List the pages of runs, and below each page its runs."""
    lines: list[str] = []
    for subject, sections in by_subject(record.sections).items():
        page = f"runs/{subject.name}.md"
        lines.append(f"- [{subject.title}]({page})")
        lines += [f"  - [{each.title}]({page}#{anchor_of(each.name)})" for each in sections]
    return lines


def _goal_cells(verdict: Verdict) -> tuple[str, ...]:
    goal, row = verdict.goal, verdict.row
    reached = "not measured" if row is None else f"{figure(row)}{_unit(row)}"
    if verdict.is_of_another_size:
        reached += f", with {_plain(verdict.objects)} objects"
    words = {
        True: "met",
        False: f"[missed](misses.md#{goal.slug})",
        None: row.note if row is not None and "failed" in row.note else "",
    }
    target = goal.target or f"<= {number(goal.limit)}"
    measures = goal.measures.removesuffix(_RATIO)
    work = f"{goal.work} \\*" if verdict.is_elsewhere else goal.work
    return (work, f"{measures}: {goal.peer}", reached, target, words[verdict.is_met])


def _ratio_cells(row: Row) -> tuple[str, ...]:
    return (row.measures.removesuffix(_RATIO), row.peer, figure(row), row.target)


def _pivot(rows: Sequence[Row]) -> list[str]:
    """Lay figures out by measure and peer, with the fewer of the two across."""
    measures = list(dict.fromkeys(_measure(row) for row in rows))
    peers = list(dict.fromkeys(row.peer for row in rows))
    found = {(_measure(row), row.peer): row for row in rows}
    if len(measures) <= len(peers):
        return _table(
            ("peer", *measures),
            [(peer, *(figure(found.get((one, peer))) for one in measures)) for peer in peers],
        )
    return _table(
        ("", *peers),
        [(one, *(figure(found.get((one, peer))) for peer in peers)) for one in measures],
    )


def _targets(rows: Iterable[Row]) -> list[str]:
    wanted = [
        f"- {row.measures}, {row.peer}: {row.target}{_unit(row)}" for row in rows if row.target
    ]
    return ["To reach:", "", *wanted, ""] if wanted else []


def _notes(rows: Iterable[Row]) -> list[str]:
    failed = dict.fromkeys(row.note for row in rows if "failed" in row.note)
    return ["Failed:", "", *(f"- {_escaped(note)}" for note in failed), ""] if failed else []


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return [*lines, *("| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in rows)]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _measure(row: Row) -> str:
    return f"{row.measures}{f', {row.unit}' if row.unit else ''}"


def _unit(row: Row) -> str:
    return f" {row.unit}" if row.unit not in {"", "x"} else ""


def _shown(machine: Machine) -> str:
    return ", ".join(_machine_word(name, value) for name, value in machine.items())


def _elsewhere(record: Record) -> list[str]:
    """Name the runs of other machines: their figures are compared with none of the others."""
    runs: dict[str, list[str]] = {}
    for section in record.sections:
        if section.machine:
            runs.setdefault(_shown(section.machine), []).append(section.name)
    found = [f"`{'`, `'.join(names)}`: {machine}." for machine, names in runs.items()]
    if not found:
        return []
    marks = "Their goals are marked with an asterisk; what the machines do to the ratios is at the"
    where = f"{marks} beginning of [the misses](misses.md)."
    return [f"On another machine, {'; '.join(found)} {where}", ""]


def _machine_word(name: str, value: object) -> str:
    return (
        f"{value} CPUs"
        if name == "cpus"
        else f"{value} of memory"
        if name == "memory"
        else str(value)
    )


def _sizes(record: Record) -> str:
    days = sorted({section.date[:10] for section in record.sections} - {record.date[:10], ""})
    others = f"; parts of it on {', '.join(days)}" if days else ""
    return f"size {record.size}{others}"


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)
