"""The pages of the runs: one for each subject, so that related figures stand together.

A run that no subject names is on the last page.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.report.record import Section


@dataclass(frozen=True, slots=True)
class Subject:
    """A page of runs."""

    name: str
    """The name of its file, without the suffix."""
    title: str
    runs: tuple[str, ...] = ()
    """Names of runs, or what they begin with, ending in `*`."""

    def has(self, run: str) -> bool:
        """Return whether the page shows the run of that name."""
        return any(run == one or (one[-1] == "*" and run.startswith(one[:-1])) for one in self.runs)


_OTHERS = Subject("parts", "Parts: reads, work queues, metrics, imports")
SUBJECTS = (
    Subject("lone-event", "A lone event", ("lone-event", "reconcile")),
    Subject("updates", "Watch updates", ("updates-*", "fan-out")),
    Subject("latency", "Latency", ("latency-*",)),
    Subject(
        "sync",
        "Initial sync and memory",
        ("sync", "sync-*", "curve", "cold-start", "starts", "relist", "small-pod"),
    ),
    Subject("real-server", "At a real kube-apiserver", ("real-server", "real-server-*", "rest")),
    Subject("webhooks", "Admission webhooks", ("webhooks",)),
    _OTHERS,
)


def subject_of(run: str) -> Subject:
    """Return the page that shows the run of that name."""
    return next((subject for subject in SUBJECTS if subject.has(run)), _OTHERS)


def by_subject(sections: Iterable[Section]) -> dict[Subject, list[Section]]:
    """Return the sections of each page that has some, in the order of the pages."""
    listed = list(sections)
    found = {one: [each for each in listed if subject_of(each.name) is one] for one in SUBJECTS}
    return {subject: shown for subject, shown in found.items() if shown}


def anchor_of(run: str) -> str:
    """Return the anchor of a run on its page."""
    return f"run-{run}"
