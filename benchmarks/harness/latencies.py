"""How long an update was on its way, from the server's send to the start of a peer's handler.

Noting costs a handler one clock read and one append; all else happens after the run. Both sides
read CLOCK_MONOTONIC, which is one clock for all processes of a machine. An update that was merged
into a later one is not counted: `latency_counted` says how many were.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import msgspec

from benchmarks.harness.phases import Control, Workload

P50 = "latency_p50_us"
P90 = "latency_p90_us"
P99 = "latency_p99_us"
MAX = "latency_max_us"
COUNTED = "latency_counted"

_SEND_TIMES = "/benchmark/send-times"


class Latencies:
    """What one handler saw, and when."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._seen: list[tuple[str, int]] = []

    def note(self, resource_version: str) -> None:
        """Remember that the handler was called with this version just now."""
        self._seen.append((resource_version, time.monotonic_ns()))

    def figures(self, workload: Workload) -> dict[str, float]:
        """Ask the server when it sent, and compare; blocks, so call it when all is measured."""
        return latency_figures(
            self._seen,
            msgspec.json.decode(Control(workload).get(_SEND_TIMES), type=list[int]),
            first_resource_version=int(workload.last_resource_version) - workload.updates + 1,
        )


def latency_figures(
    seen: Sequence[tuple[str, int]], sent: Sequence[int], *, first_resource_version: int
) -> dict[str, float]:
    """Compute the percentiles.

    Args:
        seen: resource versions, and when each was seen (ns); of a version that was seen twice, the
            first time counts; versions that were not sent as updates are left out.
        sent: when the updates were sent (ns), in their order.
        first_resource_version: that of the first update; each later one is one higher.

    Returns:
        The figures by their names; empty if no update was seen.
    """
    first_seen: dict[int, int] = {}
    for resource_version, seen_at in seen:
        first_seen.setdefault(int(resource_version) - first_resource_version, seen_at)
    micros = sorted(
        (seen_at - sent[number]) / 1000
        for number, seen_at in first_seen.items()
        if 0 <= number < len(sent)
    )
    if not micros:
        return {}
    return {
        P50: percentile(micros, 50),
        P90: percentile(micros, 90),
        P99: percentile(micros, 99),
        MAX: micros[-1],
        COUNTED: float(len(micros)),
    }


def percentile(ascending: Sequence[float], percent: float) -> float:
    """Return the smallest value that `percent` of all values do not exceed (nearest rank)."""
    rank = math.ceil(len(ascending) * percent / 100)
    return ascending[max(rank, 1) - 1]
