"""How long a comparison of the whole cache with the server keeps the event loop.

Enters: a setting. Leaves: the run `audits`.
Invariant: ours alone; nobody else compares a cache with its server.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from benchmarks.harness.measure import ServerOptions
from benchmarks.report.rows import audit_specs
from benchmarks.runs.run import Bench, Replay, Run, Setting, Size, replayed

_OBJECTS = {Size.SMOKE: 40, Size.FULL: 100_000}


def _open(setting: Setting) -> AbstractContextManager[Bench]:
    return replayed(Replay(ServerOptions(objects=_OBJECTS[setting.size])), setting)


AUDITS = Run(
    name="audits",
    title="Audits of the cache",
    says=(
        "The cache is compared with the server by metadata alone: once as it is, once with every"
        " object another. The search for the witnesses of a proof goes over the same cache."
    ),
    peers=dict.fromkeys(_OBJECTS, ("pyinformer-audit",)),
    rounds={Size.SMOKE: 1, Size.FULL: 3},
    open=_open,
    specs=lambda _: audit_specs(),
)
