"""Figures that several runs report, and names of the peers that several runs compare.

A figure is made of one measurement alone; rows compare, figures do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Figure, Least, Spec

MICRO, MILLI, MEGABYTE = 1e6, 1e3, 1e6

OWN = "pyinformer"
OWN_MODES = (OWN, "pyinformer-raw", "pyinformer-compact")
METADATA_ALONE = "pyinformer-metadata"
UVLOOP = "pyinformer-uvloop"
BARE = "bare"
DICTS = "kubernetes-asyncio"
OFFICIAL = "kubernetes"
JSON, PROTOBUF = "client-go-json", "client-go-protobuf"

Ratios = tuple[tuple[str, "str | Least"], ...]


def scaled(value: float | None, scale: float) -> float | None:
    """Return a figure in another unit; None stays None."""
    return None if value is None else value * scale


def per(total: float | None, count: int, scale: float) -> float | None:
    """Return a figure for each of so many; None where there is none."""
    return None if total is None or not count else total / count * scale


def rss_per_object(found: Measurement) -> float | None:
    """Return the bytes of resident memory that each cached object takes, at rest."""
    if found.rss_before_bytes is None or found.rss_after_bytes is None:
        return None
    return per(found.rss_after_bytes - found.rss_before_bytes, found.objects, 1)


def cpu_per_update(found: Measurement) -> float | None:
    """Return microseconds of CPU for each update that the server sent."""
    return per(found.update_cpu_seconds, found.updates, MICRO)


def peak_megabytes(found: Measurement) -> float | None:
    """Return the most that the process ever had in memory."""
    return scaled(found.peak_rss_bytes, 1 / MEGABYTE)


def extra(name: str, scale: float = 1.0) -> Figure:
    """Read a figure that only some peers have, in another unit."""
    return lambda found: scaled(found.extra.get(name), scale)


def against(peer: str, others: Sequence[str | Least]) -> Ratios:
    """Pair a peer with each of the others that it is compared with."""
    return tuple((peer, other) for other in others)


def update_spec(ratios: Ratios, targets: Mapping[str, str]) -> Spec:
    """Make the rows of what an update costs."""
    return Spec("CPU per update", "us", cpu_per_update, targets, ratios)


def follow_specs() -> tuple[Spec, ...]:
    """Make the rows that say how the updates went otherwise."""
    return (
        Spec(
            "wall time per update",
            "us",
            lambda found: per(found.update_wall_seconds, found.updates, MICRO),
            {},
        ),
        Spec(
            "updates seen one by one (the rest was merged)",
            "",
            lambda found: found.updates_seen,
            {},
        ),
    )
