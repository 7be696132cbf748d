"""From nothing to a full cache: a fresh process imports the library, connects and syncs.

The embedded server speaks TLS with an authority of its own and holds ten ConfigMaps: the time until
a program has its first objects is measured, not the load.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Spec
from benchmarks.runs.against import NOW, ROOT, THEN, named, names, trees
from benchmarks.runs.figures import OWN, UVLOOP, extra
from benchmarks.runs.queues import run_child
from benchmarks.runs.run import Bench, Known, Run, Setting, Size
from benchmarks.server.embedded import TLSServer, tls_config_map_server

_OBJECTS = 10
_REPEATS = {Size.SMOKE: 1, Size.BENCH: 3, Size.FULL: 5}
_LOADS = ("watch-list", "list")
_PEERS = tuple(f"{peer} {load}" for peer in (OWN, UVLOOP) for load in _LOADS)
_COMPARED = tuple(f"{OWN} {load}" for load in _LOADS)
_UNCOMPILED = "PYTHONDONTWRITEBYTECODE"

# Without the harness, whose own imports would come for nothing.
_PROBE = """\
import os, sys, time
url, ca_file, load, loop, cpu, objects = sys.argv[1:]
if cpu: os.sched_setaffinity(0, {int(cpu)})
began, cpu_began = time.perf_counter(), time.process_time()
import asyncio
import pyinformer
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.client.transport import ClusterConfig
imported, cpu_imported = time.perf_counter(), time.process_time()
factory = None
if loop == "uvloop":
    import uvloop
    factory = uvloop.new_event_loop
async def main():
    options = ReflectorOptions(use_watch_list=load == "watch-list")
    config = ClusterConfig(server=url, ca_file=ca_file)
    async with pyinformer.connect(config=config) as cluster:
        async with pyinformer.SharedInformerFactory(cluster, options=options) as factory:
            informer = factory.informer("v1", "configmaps")
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=60)
            ended, cpu_ended = time.perf_counter(), time.process_time()
            assert informer.status().objects == int(objects)
    return ended, cpu_ended
with asyncio.Runner(loop_factory=factory) as runner:
    ended, cpu_ended = runner.run(main())
print('{"import_wall_ms": %f, "sync_wall_ms": %f, "sync_cpu_ms": %f, "wall_ms": %f,'
      ' "cpu_ms": %f, "modules": %d}' % (
      (imported - began) * 1e3, (ended - imported) * 1e3, (cpu_ended - cpu_imported) * 1e3,
      (ended - began) * 1e3, (cpu_ended - cpu_began) * 1e3, len(sys.modules)))
"""


@dataclass(frozen=True, slots=True)
class _ColdBench:
    known: Known
    server: TLSServer
    repeats: int
    cpu: int | None
    places: Mapping[str, Path]
    """Where a package stands, by the last word of a peer's name; empty for the one here."""

    def measure(self, peer: str) -> Measurement:
        name, load, *tree = peer.split(" ")
        loop = "uvloop" if name == UVLOOP else "asyncio"
        place = self.places[tree[0]] if tree else ROOT
        pin = "" if self.cpu is None else str(self.cpu)
        what = (self.server.url, self.server.ca_file, load, loop, pin, str(_OBJECTS))
        environ = {name: of for name, of in os.environ.items() if name != _UNCOMPILED}
        environ["PYTHONPATH"] = str(place)
        command = [sys.executable, "-c", _PROBE, *what]
        try:
            run_child(command, environ=environ)  # compiles the files if that was not done before
            found = [run_child(command, environ=environ) for _ in range(self.repeats)]
        except (subprocess.SubprocessError, msgspec.DecodeError) as error:
            return Measurement(peer=peer, error=f"{type(error).__name__}: {error}")
        medians = {name: statistics.median(one[name] for one in found) for name in found[0]}
        return Measurement(peer=peer, extra=medians)


@contextlib.contextmanager
def _opened(setting: Setting, places: Mapping[str, Path]) -> Iterator[Bench]:
    repeats = _REPEATS[setting.size]
    known: Known = {"objects": _OBJECTS, "repeats": repeats, "CPU": f"{setting.client_cpu}"}
    with tls_config_map_server(_OBJECTS, cpu=setting.server_cpu) as server:
        yield _ColdBench(known, server, repeats, setting.client_cpu, places)


@contextlib.contextmanager
def _open_against(setting: Setting) -> Iterator[Bench]:
    against = setting.against or (str(ROOT) if setting.size is Size.SMOKE else "HEAD")
    with trees(against) as places:
        now, then = places
        with _opened(setting, {NOW: places[now], THEN: places[then]}) as bench:
            bench.known["compared"] = f"{now} and {then}"
            yield bench


def _specs(ratios: tuple[tuple[str, str], ...] = ()) -> tuple[Spec, ...]:
    return (
        Spec("connect() to synced: wall time", "ms", extra("sync_wall_ms"), {}, ratios),
        Spec("connect() to synced: CPU time", "ms", extra("sync_cpu_ms"), {}, ratios),
        Spec("import: wall time", "ms", extra("import_wall_ms"), {}, ratios),
        Spec("import to synced: wall time", "ms", extra("wall_ms"), {}, ratios),
        Spec("import to synced: CPU time", "ms", extra("cpu_ms"), {}, ratios),
        Spec("modules", "", extra("modules"), {}),
    )


COLD_START = Run(
    name="cold-start",
    title="From nothing to a full cache",
    says=(
        "A fresh process imports the library, connects over TLS with a CA file, and waits until the"
        " informer of ten ConfigMaps has synced, by a watch-list and by a paged list. The figures"
        " for uvloop have its import, too."
    ),
    peers={Size.SMOKE: _PEERS, Size.BENCH: _PEERS, Size.FULL: _PEERS},
    rounds={Size.SMOKE: 1, Size.BENCH: 5, Size.FULL: 7},
    open=lambda setting: _opened(setting, {}),
    specs=lambda _: _specs(),
)

COLD_START_AGAINST = Run(
    name="cold-start-against",
    title="From nothing to a full cache, against an earlier self",
    says="The same on the package as it is and as it was, one right after the other.",
    peers=dict.fromkeys(Size, tuple(names(_COMPARED))),
    rounds={Size.SMOKE: 1, Size.BENCH: 5, Size.FULL: 7},
    open=_open_against,
    specs=lambda _: _specs(tuple((named(peer, NOW), named(peer, THEN)) for peer in _COMPARED)),
    on_request=True,
)
