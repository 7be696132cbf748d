"""20,000 pods in the world of a small pod: 256 MB of memory, and not a byte more.

The kernel kills a peer that needs more, as in a cluster, and its row has the reason. Without
cgroups, the rows compare the needed memory with the bound.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from benchmarks.harness.limits import memory_limit
from benchmarks.harness.measure import ServerOptions, measure
from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import (
    DICTS,
    JSON,
    MEGABYTE,
    OFFICIAL,
    OWN,
    OWN_MODES,
    PROTOBUF,
    cpu_per_update,
    extra,
    peak_megabytes,
)
from benchmarks.runs.run import Bench, Known, Replay, ReplayBench, Run, Setting, Size, replayed
from benchmarks.runs.variants import with_protobuf

_LIMIT_BYTES = 256 << 20
_OBJECTS = {Size.SMOKE: (40, 60), Size.BENCH: (20_000, 2_000), Size.FULL: (20_000, 5_000)}
_RELISTING = (JSON, PROTOBUF, *OWN_MODES)
_SURVIVED = "small_pod_survived"
_CHARGED = "small_pod_charged_bytes"


@dataclass(frozen=True, slots=True)
class _SmallBench:
    bench: ReplayBench

    @property
    def known(self) -> Known:
        return {**self.bench.known, "limit, MB": round(_LIMIT_BYTES / (1 << 20))}

    def measure(self, peer: str) -> Measurement:
        work = "relist" if peer in _RELISTING else "follow"
        workload = msgspec.structs.replace(self.bench.workload, work=work)
        with memory_limit(_LIMIT_BYTES) as limit:
            found = measure(peer, workload, cpu=self.bench.cpu, prefix=limit.prefix)
            charged = limit.peak_bytes()
        if found.error is None:
            within = (found.peak_rss_bytes or 0) <= _LIMIT_BYTES
            found.extra[_SURVIVED] = float(within)
        if charged is not None:
            found.extra[_CHARGED] = charged
        return found


@contextlib.contextmanager
def _open(setting: Setting) -> Iterator[Bench]:
    objects, updates = _OBJECTS[setting.size]
    options = with_protobuf(ServerOptions(objects=objects, updates=updates), setting)
    with replayed(Replay(options), setting) as bench:
        yield _SmallBench(bench)


def _specs(_: Known) -> tuple[Spec, ...]:
    everybody = dict.fromkeys(OWN_MODES, "<= 256")
    return (
        Spec(
            "256 MB: synced, relisted and followed (1: survived)",
            "",
            extra(_SURVIVED),
            dict.fromkeys(OWN_MODES, ">= 1"),
        ),
        Spec("256 MB: peak memory of the process", "MB", _peak_mebibytes, everybody),
        Spec("256 MB: CPU of the initial sync", "s", lambda found: found.sync_cpu_seconds, {}),
        Spec("256 MB: CPU per update", "us", cpu_per_update, {}),
    )


def _peak_mebibytes(found: Measurement) -> float | None:
    peak = peak_megabytes(found)
    return None if peak is None else peak * MEGABYTE / (1 << 20)


SMALL_POD = Run(
    name="small-pod",
    title="In a small pod: 20,000 pods in 256 MB",
    plots=("256 MB: peak memory of the process",),
    says=(
        "Each process runs in a cgroup of 256 MB, syncs, lists everything again (the Python peers"
        " but ours only sync), and follows updates. One that needs more is killed by the kernel."
        " No peer knows the limit; Go programs could, by GOMEMLIMIT."
    ),
    peers={
        Size.SMOKE: (OWN,),
        Size.BENCH: (JSON, PROTOBUF, DICTS, *OWN_MODES),
        Size.FULL: (JSON, PROTOBUF, OFFICIAL, DICTS, *OWN_MODES),
    },
    rounds=dict.fromkeys(Size, 1),
    open=_open,
    specs=_specs,
)
