"""What a set of children costs while nothing changes, beside a loop of single applies.

Only pyinformer is measured: no peer has such sets. Every figure comes from a process of its own.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import extra
from benchmarks.runs.queues import run_child
from benchmarks.runs.run import Bench, Known, Run, Setting, Size

CHILDREN_PEER = "pyinformer-children"
LOOP_PEER = "pyinformer-loop"
UNCHANGED = "CPU per reconcile, ten unchanged children"
_KINDS = {CHILDREN_PEER: "children", LOOP_PEER: "loop"}
_CALLS = {Size.SMOKE: 5, Size.BENCH: 1_000, Size.FULL: 3_000}


@dataclass(frozen=True, slots=True)
class _ChildrenBench:
    known: Known
    calls: int
    cpu: int | None

    def measure(self, peer: str) -> Measurement:
        found = Measurement(peer=peer, objects=self.calls)
        pin = [] if self.cpu is None else [f"--cpu={self.cpu}"]
        own = [sys.executable, "-m", "benchmarks.peers.own_children", f"--kind={_KINDS[peer]}"]
        try:
            found.extra |= run_child([*own, f"--calls={self.calls}", *pin])
        except (subprocess.SubprocessError, msgspec.DecodeError) as error:
            found.error = f"{type(error).__name__}: {error}"
        return found


@contextlib.contextmanager
def _open(setting: Setting) -> Iterator[Bench]:
    calls = _CALLS[setting.size]
    known: Known = {"children": 10, "calls": calls, "CPU": f"{setting.client_cpu}"}
    yield _ChildrenBench(known, calls, setting.client_cpu)


def _specs() -> tuple[Spec, ...]:
    ratio = ((CHILDREN_PEER, LOOP_PEER),)
    return (
        Spec(
            UNCHANGED,
            "ms",
            extra("reconcile_ms"),
            {CHILDREN_PEER: "<= 1.5"},
            ratio,
        ),
        Spec("writes of all these reconciles", "", extra("unchanged_writes"), {}),
        Spec("writes of children when one of them changes", "", extra("changed_writes"), {}),
    )


CHILDREN = Run(
    name="children",
    title="Sets of children",
    says=(
        "A reconcile of an object with ten ConfigMaps of 0.6 KB that are as they shall be: by"
        " `children.apply` and `children.status`, and by a loop of `cluster.apply_if_changed` with"
        " a status. A World answers in memory; there is nothing to write."
    ),
    peers=dict.fromkeys(_CALLS, (CHILDREN_PEER, LOOP_PEER)),
    rounds={Size.SMOKE: 1, Size.BENCH: 5, Size.FULL: 9},
    open=_open,
    specs=lambda _: _specs(),
)
