"""How long a comparison of the whole cache with the server keeps the event loop.

Only pyinformer is measured: no peer compares a cache with its server.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from benchmarks.harness.measure import ServerOptions
from benchmarks.peers import own_audits
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import extra
from benchmarks.runs.run import Bench, Replay, Run, Setting, Size, replayed

_OBJECTS = {Size.SMOKE: 40, Size.FULL: 100_000}


def _open(setting: Setting) -> AbstractContextManager[Bench]:
    return replayed(Replay(ServerOptions(objects=_OBJECTS[setting.size])), setting)


def _specs() -> tuple[Spec, ...]:
    """List the rows of the audits."""
    cases = {
        own_audits.BLOCK: "longest block of the event loop, nothing differs",
        own_audits.WRONG_BLOCK: "longest block of the event loop, everything differs",
        own_audits.STEP: "longest step by its own CPU time, nothing differs",
        own_audits.WRONG_STEP: "longest step by its own CPU time, everything differs",
    }
    target = {"pyinformer-audit": "<= 25"}
    return (
        Spec("audit: wall time", "s", extra(own_audits.WALL), {}),
        Spec("audit: CPU time", "s", extra(own_audits.CPU), {}),
        *(Spec(f"audit: {case}", "ms", extra(name), target) for name, case in cases.items()),
        Spec(
            "proof of the history: longest block of the event loop",
            "ms",
            extra(own_audits.PROOF_BLOCK),
            target,
        ),
        Spec(
            "proof of the history: longest step by its own CPU time",
            "ms",
            extra(own_audits.PROOF_STEP),
            target,
        ),
    )


AUDITS = Run(
    name="audits",
    title="Audits of the cache",
    says=(
        "The cache is compared with the server by metadata alone: once unchanged, once with every"
        " object different. The search for the samples of a history check reads the same cache."
    ),
    peers=dict.fromkeys(_OBJECTS, ("pyinformer-audit",)),
    rounds={Size.SMOKE: 1, Size.FULL: 3},
    open=_open,
    specs=lambda _: _specs(),
)
