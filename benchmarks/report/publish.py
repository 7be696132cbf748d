"""Write a record into a folder: pages, plots, and the record itself.

What people wrote (method.md, misses.md) is never changed; what an earlier record had and this one
has not is removed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.report.goals import judged
from benchmarks.report.markdown import index_page, runs_page
from benchmarks.report.plots import overview_plot, section_plot
from benchmarks.report.record import Record, write_json
from benchmarks.report.subjects import by_subject
from benchmarks.runs import RUNS

WRITTEN_BY_HAND = ("method.md", "misses.md")
PUBLISHED = Path(__file__).parents[2] / "docs" / "benchmarks"


def publish(record: Record, folder: Path, *, pages: Path = PUBLISHED) -> list[str]:
    """Write the record into a folder.

    Args:
        record: what was measured.
        folder: where; it is made if it does not exist.
        pages: where the pages written by hand stand, which `folder` is given if it has none.

    Returns:
        What is left to a person, a sentence each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in WRITTEN_BY_HAND:
        if not (folder / name).exists() and (pages / name).exists():
            shutil.copyfile(pages / name, folder / name)
    write_json(record, folder / "results.json")
    (folder / "index.md").write_text(index_page(record), encoding="utf-8")
    (folder / "overview.svg").write_text(overview_plot(record), encoding="utf-8")
    pages_of_runs = {
        subject.name: runs_page(subject, sections)
        for subject, sections in by_subject(record.sections).items()
    }
    _write_all(folder / "runs", ".md", pages_of_runs)
    plots = {run.name: run.plots for run in RUNS}
    drawn = {each.name: section_plot(each, plots.get(each.name, ())) for each in record.sections}
    _write_all(folder / "plots", ".svg", drawn)
    return _left_to_do(record, folder)


def _write_all(folder: Path, suffix: str, texts: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for old in folder.glob(f"*{suffix}"):
        if old.stem not in texts:
            old.unlink()
    for name, text in texts.items():
        (folder / f"{name}{suffix}").write_text(text, encoding="utf-8")


def _left_to_do(record: Record, folder: Path) -> list[str]:
    """Name the goals that were missed without a paragraph that explains it."""
    misses = folder / "misses.md"
    explained = misses.read_text(encoding="utf-8") if misses.exists() else ""
    missed = dict.fromkeys(each.goal for each in judged(record) if each.is_met is False)
    return [
        f'missed, and not explained yet: "{goal.work}" needs a paragraph at '
        f'<a id="{goal.slug}"></a> in {misses}'
        for goal in {goal.slug: goal for goal in missed}.values()
        if f'id="{goal.slug}"' not in explained
    ]
