"""The cost of an initial sync of metadata alone.

Both peers ask for PartialObjectMetadata, which the server has rendered beforehand for ours; the
default of ours, which is sent whole bodies, stands beside them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from benchmarks.harness.measure import ServerOptions
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import METADATA_ALONE, OWN, against, peak_megabytes, rss_per_object
from benchmarks.runs.run import Bench, Replay, Run, Setting, Size, replayed
from benchmarks.runs.variants import with_protobuf

CLIENT_GO_METADATA = "client-go-metadata"
_OBJECTS = {Size.SMOKE: 40, Size.BENCH: 20_000, Size.FULL: 100_000}


def _open(setting: Setting) -> AbstractContextManager[Bench]:
    options = ServerOptions(objects=_OBJECTS[setting.size], metadata=True)
    return replayed(Replay(with_protobuf(options, setting)), setting)


def _specs(_: object) -> tuple[Spec, ...]:
    ratios = against(METADATA_ALONE, (CLIENT_GO_METADATA, OWN))
    peak = "initial sync: peak memory of the process"
    return (
        Spec("initial sync: wall time", "s", lambda found: found.sync_wall_seconds, {}, ratios),
        Spec("initial sync: CPU time", "s", lambda found: found.sync_cpu_seconds, {}, ratios),
        Spec(peak, "MB", peak_megabytes, {METADATA_ALONE: "<= 200"}, ratios),
        Spec("initial sync: memory (RSS) per object", "bytes", rss_per_object, {}),
    )


SYNC_METADATA = Run(
    name="sync-metadata",
    title="Initial sync of metadata alone",
    says=(
        "From the start of an informer until its handler has had the metadata of every pod. The"
        " goal of 200 MB is for 100,000 pods; fewer pods need less."
    ),
    peers={
        Size.SMOKE: (METADATA_ALONE, OWN),
        Size.BENCH: (CLIENT_GO_METADATA, METADATA_ALONE, OWN),
        Size.FULL: (CLIENT_GO_METADATA, METADATA_ALONE, OWN),
    },
    rounds={Size.SMOKE: 1, Size.BENCH: 2, Size.FULL: 3},
    open=_open,
    specs=_specs,
)
