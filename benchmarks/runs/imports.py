"""What importing a library costs a program before it has done anything: time and memory.

Each import happens in a fresh interpreter whose files have been read before; figures are what it
adds to an interpreter that has only started, medians over repeats.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.harness.environments import interpreter
from benchmarks.harness.measure import PEERS
from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import OWN, extra
from benchmarks.runs.queues import run_child
from benchmarks.runs.run import Bench, Known, Run, Setting, Size

_MODULES = {
    OWN: "pyinformer",
    "kubernetes-asyncio": "kubernetes_asyncio",
    "kubernetes": "kubernetes",
}
_REPEATS = {Size.SMOKE: 1, Size.BENCH: 5, Size.FULL: 9}

_UNCOMPILED = "PYTHONDONTWRITEBYTECODE"

# Without the harness, whose own imports would come for nothing. VmRSS is in KiB.
_PROBE = """\
import os, sys, time
cpus = sys.argv[2]
if cpus: os.sched_setaffinity(0, {int(cpus)})
def rss():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
known, before, wall, cpu = len(sys.modules), rss(), time.perf_counter(), time.process_time()
__import__(sys.argv[1])
cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
print('{"import_cpu_ms": %f, "import_wall_ms": %f, "import_mb": %f, "modules": %d}'
      % (cpu * 1e3, wall * 1e3, (rss() - before) / 1024, len(sys.modules) - known))
"""


@dataclass(frozen=True, slots=True)
class _ImportBench:
    known: Known
    repeats: int
    cpu: int | None

    def measure(self, peer: str) -> Measurement:
        environment = PEERS[peer].environment
        python = Path(sys.executable) if environment is None else interpreter(environment)
        if isinstance(python, str):
            return Measurement(peer=peer, error=python)
        pin = "" if self.cpu is None else str(self.cpu)
        command = [str(python), "-c", _PROBE, _MODULES[peer], pin]
        # Where this is set, a checkout would be compiled at each import, and installed peers not.
        environ = {name: of for name, of in os.environ.items() if name != _UNCOMPILED}
        try:
            # Reads the files, and compiles them if that was not done before.
            run_child(command, environ=environ)
            found = [run_child(command, environ=environ) for _ in range(self.repeats)]
        except (subprocess.SubprocessError, msgspec.DecodeError) as error:
            return Measurement(peer=peer, error=f"{type(error).__name__}: {error}")
        medians = {name: statistics.median(one[name] for one in found) for name in found[0]}
        return Measurement(peer=peer, extra=medians)


@contextlib.contextmanager
def _open(setting: Setting) -> Iterator[Bench]:
    repeats = _REPEATS[setting.size]
    known: Known = {"repeats": repeats, "CPU": f"{setting.client_cpu}"}
    yield _ImportBench(known, repeats, setting.client_cpu)


def _specs() -> tuple[Spec, ...]:
    """List the rows of the imports."""
    ratios = ((OWN, "kubernetes-asyncio"), (OWN, "kubernetes"))
    return (
        Spec("import: CPU time", "ms", extra("import_cpu_ms"), {}, ratios),
        Spec("import: wall time", "ms", extra("import_wall_ms"), {}),
        Spec("import: memory", "MB", extra("import_mb"), {}, ratios),
        Spec("import: modules", "", extra("modules"), {}),
    )


IMPORTS = Run(
    name="imports",
    title="Import",
    says=(
        "What `import` of the library adds to a fresh interpreter, its files being in the page"
        " cache. Ours loads neither aiohttp nor kubernetes_asyncio before `connect()` needs them;"
        " what a connection loads afterwards is not in these figures."
    ),
    peers={
        Size.SMOKE: (OWN, "kubernetes-asyncio"),
        Size.BENCH: tuple(_MODULES),
        Size.FULL: tuple(_MODULES),
    },
    rounds={Size.SMOKE: 1, Size.BENCH: 3, Size.FULL: 5},
    open=_open,
    specs=lambda _: _specs(),
)
