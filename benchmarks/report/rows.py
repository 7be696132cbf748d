"""Which figures a run reports, and how each is made from the rounds.

A ratio is formed inside a round and then its median taken, never a ratio of medians.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from benchmarks.harness.phases import Measurement

Round: TypeAlias = Mapping[str, Measurement]
Figure: TypeAlias = Callable[[Measurement], "float | None"]


class Row(msgspec.Struct, frozen=True):
    """One line of the report."""

    measures: str
    """What was measured, in words."""
    peer: str
    """Of whom; "a / b" for a ratio."""
    unit: str
    target: str
    """What the project wants to reach; empty where it wants nothing. Never enforced here."""
    median: float | None = None
    min: float | None = None
    max: float | None = None
    note: str = ""
    """Why there is no figure."""


@dataclass(frozen=True, slots=True)
class Least:
    """The best of several, round by round: who has the smallest figure is compared with."""

    name: str
    """What the report calls them."""
    peers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spec:
    """How to make one kind of row."""

    measures: str
    unit: str
    figure: Figure
    targets: Mapping[str, str]
    """Target by peer, or by "a / b"."""
    ratios: tuple[tuple[str, str | Least], ...] = ()
    """Pairs of peers to be compared by this figure; the second may be the best of several."""
    only: tuple[str, ...] = ()
    """The peers that have this figure; empty for all."""


def make_rows(specs: Sequence[Spec], peers: Sequence[str], rounds: Sequence[Round]) -> list[Row]:
    """Make every row of `specs`; a missing figure becomes a row with the reason.

    Args:
        specs: what to make.
        peers: of whom, in the order of the report.
        rounds: what was measured; not every peer needs to be in each of them.
    """
    rows: list[Row] = []
    for spec in specs:
        rows += [_peer_row(spec, peer, rounds) for peer in spec.only or peers if peer in peers]
        rows += [
            _ratio_row(spec, above, below, rounds)
            for above, below in ((above, _least(below)) for above, below in spec.ratios)
            if above in peers and any(peer in peers for peer in below.peers)
        ]
    return rows


def _peer_row(spec: Spec, peer: str, rounds: Sequence[Round]) -> Row:
    values = [value_of(spec, found[peer]) for found in rounds if peer in found]
    return _row(spec.measures, peer, spec.unit, spec, values, note=_failure(rounds, peer))


def _ratio_row(spec: Spec, above: str, below: Least, rounds: Sequence[Round]) -> Row:
    values: list[float | None] = []
    for found in rounds:
        beside = [found[peer] for peer in below.peers if peer in found]
        if above in found and beside:
            top = value_of(spec, found[above])
            bottom = min((value for one in beside if (value := value_of(spec, one))), default=None)
            values.append(top / bottom if top is not None and bottom else None)
    failures = [_failure(rounds, peer) for peer in below.peers]
    note = _failure(rounds, above) or ("" if "" in failures else failures[0])
    label = f"{above} / {below.name}"
    return _row(f"{spec.measures}, ratio", label, "x", spec, values, note=note)


def _least(below: str | Least) -> Least:
    return below if isinstance(below, Least) else Least(below, (below,))


def _row(
    measures: str, peer: str, unit: str, spec: Spec, values: Sequence[float | None], *, note: str
) -> Row:
    target = spec.targets.get(peer, "")
    known = [value for value in values if value is not None]
    if note or len(known) < len(values) or not known:
        return Row(measures, peer, unit, target, note=note or "not measured")
    return Row(measures, peer, unit, target, statistics.median(known), min(known), max(known))


def value_of(spec: Spec, found: Measurement) -> float | None:
    """Read a figure; None if the peer failed or does not have it."""
    return None if found.error else spec.figure(found)


def _failure(rounds: Sequence[Round], peer: str) -> str:
    return next(
        (
            f"{peer} failed: {found[peer].error}"
            for found in rounds
            if peer in found and found[peer].error
        ),
        "",
    )
