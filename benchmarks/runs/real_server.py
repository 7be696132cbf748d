"""Sync, updates and rest at a real kube-apiserver, into which the pods were written by a client.

The server and the writers take all CPUs, so that only the client's own CPU time and memory compare.
What a sync costs the server is measured as well: it argues how pyinformer loads by default. In the
smoke the embedded server stands in for the real one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from benchmarks.harness.measure import measure
from benchmarks.harness.phases import Measurement, Workload
from benchmarks.harness.processes import ServerUse
from benchmarks.peers.own_rest import INFORMERS
from benchmarks.report.rows import Least, Spec
from benchmarks.runs.figures import (
    DICTS,
    JSON,
    MICRO,
    OWN,
    PROTOBUF,
    UVLOOP,
    against,
    extra,
    follow_specs,
    peak_megabytes,
    per,
    update_spec,
)
from benchmarks.runs.run import Bench, Known, Run, Setting, Size
from benchmarks.runs.variants import Variant
from benchmarks.server.written import RunningServer, WrittenPods, small_collections, written_pods

_PODS_EACH = 10
_SIZES = {Size.SMOKE: (30, 60), Size.FULL: (20_000, 4_000)}
# Go collects its garbage when the heap has doubled: here about six times, after the load of 20,000
# pods not once in 4,000 updates.
_LONG_SIZES = {Size.SMOKE: (30, 60), Size.FULL: (5_000, 12_500)}
_CLIENT_GO = {
    f"{peer} {load}": Variant(peer, {"load": load})
    for peer in (JSON, PROTOBUF)
    for load in ("list", "watch-list")
}
_PAGED = f"{OWN} list"
_VARIANTS = {**_CLIENT_GO, _PAGED: Variant(OWN, {"load": "list"})}
_BEST = tuple(
    Least(peer, tuple(name for name, variant in _CLIENT_GO.items() if variant.peer == peer))
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
        server = ServerUse(self.pods.running.pid)
        self.pods.on_release = server.stop
        with self.pods.workload(self.updates) as workload:
            asked = msgspec.structs.replace(workload, **variant.changes)
            server.start()
            found = measure(variant.peer, asked, cpu=self.cpu)
        found.peer = peer
        found.extra |= server.figures()
        return found


def is_real(setting: Setting) -> bool:
    """Return whether the server is a real kube-apiserver; in the smoke it is the embedded one."""
    return setting.size is not Size.SMOKE


def server_name(setting: Setting) -> str:
    """Name the server of a run of this size."""
    return "kube-apiserver and etcd" if is_real(setting) else "pyinformer.testing.APIServer"


def pods_known(pods: WrittenPods, updates: int, setting: Setting) -> Known:
    """Return what the report says of the pods of a run and of their server."""
    return {
        "server": server_name(setting),
        "objects": len(pods.names),
        "updates": updates,
        "seed": setting.seed,
        "object bytes, mean": round(pods.mean_bytes()),
    }


@contextlib.contextmanager
def _open(sizes: Mapping[Size, tuple[int, int]], setting: Setting) -> Iterator[Bench]:
    objects, updates = sizes[setting.size]
    with written_pods(objects, seed=setting.seed, is_real=is_real(setting)) as pods:
        known = pods_known(pods, updates, setting) | {"client CPU": f"{setting.client_cpu}"}
        yield _RealBench(pods, updates, known, setting.client_cpu)


@contextlib.contextmanager
def _open_unpinned(setting: Setting) -> Iterator[Bench]:
    with _open(_LONG_SIZES, replace(setting, client_cpu=None)) as bench:
        yield bench


@dataclass(frozen=True, slots=True)
class _RestBench:
    server: RunningServer
    known: Known
    rest_seconds: float
    cpu: int | None

    def measure(self, peer: str) -> Measurement:
        server = self.server
        workload = Workload(
            url=server.url,
            objects=0,
            updates=0,
            last_resource_version="",
            ca_file=server.ca_file,
            token=server.token,
            work="rest",
            rest_seconds=self.rest_seconds,
        )
        return measure(peer, workload, cpu=self.cpu)


@contextlib.contextmanager
def _open_rest(setting: Setting) -> Iterator[Bench]:
    seconds = 30.0 if is_real(setting) else 0.2
    with small_collections(INFORMERS, _PODS_EACH, is_real=is_real(setting)) as server:
        known: Known = {
            "server": server_name(setting),
            "informers": INFORMERS,
            "objects of each": _PODS_EACH,
            "seconds": seconds,
            "client CPU": f"{setting.client_cpu}",
        }
        yield _RestBench(server, known, seconds, setting.client_cpu)


def _rest_specs(_: Known) -> tuple[Spec, ...]:
    ratios = against(OWN, (JSON, PROTOBUF))
    return (
        Spec("CPU at rest", "ms per second", extra("rest_cpu_ms_per_second"), {}, ratios),
        Spec("wake-ups at rest", "per second", extra("rest_wakeups_per_second"), {}, ratios),
        Spec("memory at rest", "MB", extra("rest_megabytes"), {}, ratios),
        Spec(
            "start: wall time until all have synced", "ms", extra("rest_sync_wall_ms"), {}, ratios
        ),
        Spec("start: CPU until all have synced", "ms", extra("rest_sync_cpu_ms"), {}, ratios),
    )


def _long_specs(_: Known) -> tuple[Spec, ...]:
    return _followed_specs((JSON, PROTOBUF, DICTS))


def _unpinned_specs(_: Known) -> tuple[Spec, ...]:
    return _followed_specs((PROTOBUF,))


def _followed_specs(rivals: tuple[str, ...]) -> tuple[Spec, ...]:
    return (
        update_spec(against(OWN, rivals), {}),
        Spec(
            "collections of Go's garbage meanwhile",
            "",
            extra("update_collections"),
            {},
            only=(JSON, PROTOBUF),
        ),
        *follow_specs(),
        _sync_spec(rivals),
        Spec("peak memory of the process", "MB", peak_megabytes, {}),
    )


def _sync_spec(rivals: Sequence[str | Least]) -> Spec:
    return Spec(
        "initial sync: CPU per object",
        "us",
        lambda found: per(found.sync_cpu_seconds, found.objects, MICRO),
        {},
        against(OWN, rivals),
    )


def _specs(_: Known) -> tuple[Spec, ...]:
    rivals: tuple[str | Least, ...] = (*_BEST, DICTS)
    return (
        update_spec(against(OWN, rivals), {}),
        _sync_spec(rivals),
        Spec("peak memory of the process", "MB", peak_megabytes, {}, against(OWN, rivals)),
        Spec("initial sync: wall time", "s", lambda found: found.sync_wall_seconds, {}),
        Spec(
            "initial sync: CPU of the kube-apiserver per object",
            "us",
            lambda found: per(found.extra.get("server_cpu_seconds"), found.objects, MICRO),
            {},
        ),
        Spec("initial sync: growth of the kube-apiserver", "MB", extra("server_megabytes"), {}),
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
        Size.FULL: (
            *_CLIENT_GO,
            DICTS,
            OWN,
            _PAGED,
            UVLOOP,
            "pyinformer-raw",
            "pyinformer-compact",
        ),
    },
    rounds={Size.SMOKE: 1, Size.FULL: 3},
    open=partial(_open, _SIZES),
    specs=_specs,
)

LONG_UPDATES = Run(
    name="real-server-updates",
    title="Many updates at a real kube-apiserver",
    says=(
        "Two and a half times as many updates as pods, so that a garbage collector runs as often as"
        " it does in a program that keeps running. Server and writers are those of the run above."
    ),
    peers={
        Size.SMOKE: (DICTS, OWN, UVLOOP),
        Size.FULL: (JSON, PROTOBUF, DICTS, OWN, UVLOOP),
    },
    rounds={Size.SMOKE: 1, Size.FULL: 3},
    open=partial(_open, _LONG_SIZES),
    specs=_long_specs,
)

UNPINNED_UPDATES = replace(
    LONG_UPDATES,
    name="real-server-unpinned",
    title="Many updates at a real kube-apiserver, with the client on all CPUs",
    says=(
        "The same with a client that may run on each CPU, as it may in a pod. Go's runtime, which"
        " runs one thread at a time where it has one CPU, then uses two."
    ),
    peers={Size.SMOKE: (OWN,), Size.FULL: (PROTOBUF, OWN, UVLOOP)},
    open=_open_unpinned,
    specs=_unpinned_specs,
)

REST = Run(
    name="rest",
    title="At rest",
    says=(
        f"{INFORMERS} informers of one program at a real kube-apiserver over TLS, each of ten pods"
        " in a namespace of its own, when the caches of all have synced and nothing changes."
    ),
    peers={Size.SMOKE: (OWN, UVLOOP), Size.FULL: (JSON, PROTOBUF, OWN, UVLOOP)},
    rounds={Size.SMOKE: 1, Size.FULL: 3},
    open=_open_rest,
    specs=_rest_specs,
)
