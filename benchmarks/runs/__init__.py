"""What is measured: one module for each kind of work, and the list of all runs.

A run that is not in the list does not exist for the command line or the goals.
"""

from __future__ import annotations

from benchmarks.runs.against import AGAINST
from benchmarks.runs.audits import AUDITS
from benchmarks.runs.children import CHILDREN
from benchmarks.runs.cold_start import COLD_START, COLD_START_AGAINST
from benchmarks.runs.controllers import CONTROLLERS, PASSING
from benchmarks.runs.curve import CURVE
from benchmarks.runs.fan_out import FAN_OUT
from benchmarks.runs.imports import IMPORTS
from benchmarks.runs.latency import LATENCY
from benchmarks.runs.lone_event import LONE_EVENT, RECONCILE
from benchmarks.runs.metrics import METRICS
from benchmarks.runs.queues import QUEUE
from benchmarks.runs.reads import READS, READS_OWN
from benchmarks.runs.real_server import LONG_UPDATES, REAL_SERVER, REST, UNPINNED_UPDATES
from benchmarks.runs.recording import RECORDING
from benchmarks.runs.relist import RELIST
from benchmarks.runs.run import Run
from benchmarks.runs.small_pod import SMALL_POD
from benchmarks.runs.starts import STARTS
from benchmarks.runs.sync import MILLION, SYNC
from benchmarks.runs.sync_metadata import SYNC_METADATA
from benchmarks.runs.updates import FRAMEWORKS, INDEXED, KINDS, METADATA, OBJECT, TLS
from benchmarks.runs.updates import QUEUE as UPDATES_QUEUE
from benchmarks.runs.webhooks import WEBHOOKS

RUNS: tuple[Run, ...] = (
    LONE_EVENT,
    RECONCILE,
    METADATA,
    OBJECT,
    UPDATES_QUEUE,
    INDEXED,
    FRAMEWORKS,
    FAN_OUT,
    *LATENCY,
    SYNC,
    MILLION,
    SYNC_METADATA,
    CURVE,
    RELIST,
    SMALL_POD,
    STARTS,
    IMPORTS,
    COLD_START,
    READS,
    READS_OWN,
    QUEUE,
    METRICS,
    RECORDING,
    *KINDS,
    TLS,
    REAL_SERVER,
    LONG_UPDATES,
    UNPINNED_UPDATES,
    REST,
    AUDITS,
    WEBHOOKS,
    CHILDREN,
    CONTROLLERS,
    PASSING,
    AGAINST,
    COLD_START_AGAINST,
)


def find_run(name: str) -> Run:
    """Return the run of that name.

    Raises:
        KeyError: there is none.
    """
    return {run.name: run for run in RUNS}[name]
