"""What further handlers cost: the same updates for 1, 4 and 16 of them.

All handlers do the same, and the clock stops when all of them have seen the last update; what one
more costs is formed within a round.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from benchmarks.harness.measure import ServerOptions
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import JSON, OWN, PROTOBUF, update_spec
from benchmarks.runs.run import Bench, Replay, Run, Setting, Size
from benchmarks.runs.variants import Variant, varied, with_protobuf

_COUNTS = (1, 4, 16)
_OBJECTS = {Size.SMOKE: (40, 120), Size.BENCH: (5_000, 20_000), Size.FULL: (5_000, 20_000)}


def _named(peer: str, count: int) -> str:
    return f"{peer}, {count} handler{'s' if count > 1 else ''}"


def _variants(*peers: str) -> dict[str, Variant]:
    return {
        _named(peer, count): Variant(peer, {"handlers": count})
        for peer in peers
        for count in _COUNTS
    }


def _open(setting: Setting) -> AbstractContextManager[Bench]:
    objects, updates = _OBJECTS[setting.size]
    options = ServerOptions(objects=objects, updates=updates)
    if setting.size is Size.FULL:
        options = with_protobuf(options, setting)
    return varied(Replay(options), _variants(OWN, JSON, PROTOBUF), setting)


def _specs(_: object) -> tuple[Spec, ...]:
    pairs = tuple(
        (_named(peer, count), _named(peer, 1))
        for peer in (OWN, JSON, PROTOBUF)
        for count in _COUNTS[1:]
    )
    # one handler and 3 % for each further one
    targets = {
        f"{_named(OWN, count)} / {_named(OWN, 1)}": f"<= {1 + 0.03 * (count - 1):.2f}"
        for count in _COUNTS[1:]
    }
    return (update_spec(pairs, targets),)


FAN_OUT = Run(
    name="fan-out",
    title="Updates delivered to 1, 4 and 16 handlers",
    says=(
        "CPU for each update until all handlers have read its metadata; the goal is 3 % of an"
        " update for each further handler: 1.09 for four, 1.45 for sixteen."
    ),
    peers={
        Size.SMOKE: tuple(_variants(OWN)),
        Size.BENCH: tuple(_variants(OWN)),
        Size.FULL: tuple(_variants(OWN, JSON, PROTOBUF)),
    },
    rounds={Size.SMOKE: 1, Size.BENCH: 5, Size.FULL: 5},
    open=_open,
    specs=_specs,
)
