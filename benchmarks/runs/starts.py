"""What the start of a program's informers costs: 1, 10 and 50, each of a small collection.

The connection was used before; what is measured ends when all caches are full.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from benchmarks.harness.measure import ServerOptions
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import JSON, OWN, PROTOBUF, UVLOOP, against, extra
from benchmarks.runs.run import Bench, Replay, Run, Setting, Size, replayed
from benchmarks.runs.variants import with_protobuf

_COUNTS = (1, 10, 50)
_SMALL = {Size.SMOKE: 5, Size.BENCH: 100, Size.FULL: 100}


def _open(setting: Setting) -> AbstractContextManager[Bench]:
    small = _SMALL[setting.size]
    # The versions of a small collection's objects are among those of the large one.
    options = with_protobuf(ServerOptions(objects=2 * small, small=small), setting)
    return replayed(Replay(options, {"work": "starts"}), setting)


def _specs(_: object) -> tuple[Spec, ...]:
    ratios = against(OWN, (JSON, PROTOBUF))
    names = {1: "1 informer"} | {count: f"{count} informers" for count in _COUNTS[1:]}
    return (
        *(
            Spec(f"start of {name}: CPU", "ms", extra(f"start_{count}_cpu_ms"), {}, ratios)
            for count, name in names.items()
        ),
        *(
            Spec(f"start of {name}: wall time", "ms", extra(f"start_{count}_wall_ms"), {})
            for count, name in names.items()
        ),
    )


STARTS = Run(
    name="starts",
    title="Start of informers",
    says=(
        "One program that starts 1, 10 or 50 informers on a connection that was used before, each"
        " of a hundred pods in a namespace of its own, until all have synced."
    ),
    peers={
        Size.SMOKE: (OWN, UVLOOP),
        Size.BENCH: (JSON, PROTOBUF, OWN, UVLOOP),
        Size.FULL: (JSON, PROTOBUF, OWN, UVLOOP),
    },
    rounds={Size.SMOKE: 1, Size.BENCH: 2, Size.FULL: 5},
    open=_open,
    specs=_specs,
)
