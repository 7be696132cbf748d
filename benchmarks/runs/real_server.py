"""Sync and updates at a real kube-apiserver, into which the pods were written by a client.

The server and the writers take all CPUs, so that only the client's own CPU time and memory compare.
In the smoke the embedded server stands in for the real one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from benchmarks.harness.measure import measure
from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Least, Spec
from benchmarks.runs.figures import (
    DICTS,
    JSON,
    MICRO,
    OWN,
    PROTOBUF,
    UVLOOP,
    against,
    peak_megabytes,
    per,
    update_spec,
)
from benchmarks.runs.run import Bench, Known, Run, Setting, Size
from benchmarks.runs.variants import Variant
from benchmarks.server.written import WrittenPods, written_pods

_SIZES = {Size.SMOKE: (30, 60), Size.FULL: (20_000, 4_000)}
_VARIANTS = {
    f"{peer} {load}": Variant(peer, {"load": load})
    for peer in (JSON, PROTOBUF)
    for load in ("list", "watch-list")
}
_BEST = tuple(
    Least(peer, tuple(name for name, variant in _VARIANTS.items() if variant.peer == peer))
    for peer in (JSON, PROTOBUF)
)


@dataclass(frozen=True, slots=True)
class _RealBench:
    pods: WrittenPods
    updates: int
    known: Known
    cpu: int | None

    def measure(self, peer: str) -> Measurement:
        variant = _VARIANTS.get(peer, Variant(peer))
        with self.pods.workload(self.updates) as workload:
            asked = msgspec.structs.replace(workload, **variant.changes)
            found = measure(variant.peer, asked, cpu=self.cpu)
        found.peer = peer
        return found


@contextlib.contextmanager
def _open(setting: Setting) -> Iterator[Bench]:
    objects, updates = _SIZES[setting.size]
    is_real = setting.size is not Size.SMOKE
    with written_pods(objects, seed=setting.seed, is_real=is_real) as pods:
        known: Known = {
            "server": "kube-apiserver and etcd" if is_real else "pyinformer.testing.APIServer",
            "objects": objects,
            "updates": updates,
            "seed": setting.seed,
            "object bytes, mean": round(pods.mean_bytes()),
            "client CPU": f"{setting.client_cpu}",
        }
        yield _RealBench(pods, updates, known, setting.client_cpu)


def _specs(_: Known) -> tuple[Spec, ...]:
    rivals: tuple[str | Least, ...] = (*_BEST, DICTS)
    return (
        update_spec(against(OWN, rivals), {}),
        Spec(
            "initial sync: CPU per object",
            "us",
            lambda found: per(found.sync_cpu_seconds, found.objects, MICRO),
            {},
            against(OWN, rivals),
        ),
        Spec(
            "peak memory of the process",
            "MB",
            peak_megabytes,
            {},
            against(OWN, rivals),
        ),
    )


REAL_SERVER = Run(
    name="real-server",
    title="At a real kube-apiserver",
    says=(
        "Pods written into a kube-apiserver and its etcd, over TLS with a token; then updates"
        " written by eight clients at once. The server takes the CPUs: only what the client"
        " itself used compares."
    ),
    peers={
        Size.SMOKE: (DICTS, OWN, UVLOOP),
        Size.FULL: (*_VARIANTS, DICTS, OWN, UVLOOP, "pyinformer-raw", "pyinformer-compact"),
    },
    rounds={Size.SMOKE: 1, Size.FULL: 2},
    open=_open,
    specs=_specs,
)
