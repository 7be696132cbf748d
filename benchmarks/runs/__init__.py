"""What is measured: one module for each kind of work, and the list of all runs.

Nothing enters. Leaves: RUNS, in the order in which they run and are published.
Invariant: a run that is not in the list does not exist for the command line or the goals.
"""

from __future__ import annotations

from benchmarks.runs.against import AGAINST
from benchmarks.runs.controllers import CONTROLLERS, PASSING
from benchmarks.runs.existing import AUDITS, QUEUE, READS, SYNC, UPDATES
from benchmarks.runs.run import Run

RUNS: tuple[Run, ...] = (
    UPDATES,
    SYNC,
    READS,
    AUDITS,
    QUEUE,
    CONTROLLERS,
    PASSING,
    AGAINST,
)


def find_run(name: str) -> Run:
    """Return the run of that name.

    Raises:
        KeyError: there is none.
    """
    return {run.name: run for run in RUNS}[name]
