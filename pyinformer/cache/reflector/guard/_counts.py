"""The counts of a guard and of what happens around it, kept for status records and metrics.

They are plain numbers that only grow. Metrics read them when they are collected, on any thread, so
an occurrence costs one addition whether anything collects or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from pyinformer.cache.reflector.guard._version_order_rules import Order


@final
@dataclass(frozen=True, slots=True)
class GuardStatistics:
    """The position of a guard, and the counts of what it met."""

    position: str
    epoch: int
    tombstones: int
    counts: Mapping[str, int]
    """Occurrences by what happened and its last detail, such as `rv_regressions:ignored`."""
    order: Order = "global"
    """What resource versions are taken to prove."""


@final
class Counts:
    """Counts what happens to one guard, and around it."""

    __slots__ = ("_counts", "event_type")

    def __init__(self) -> None:
        self.event_type: str = "MODIFIED"
        """The type of the event that is judged now; a detail, no decision depends on it."""
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, *what: str, amount: int = 1) -> None:
        """Count an occurrence.

        Args:
            what: its name, then its details, all of them from fixed vocabularies.
            amount: how many there were.
        """
        self._counts[what] = self._counts.get(what, 0) + amount

    def regressed(self, action: str, *, source: str = "event") -> None:
        """Count an occurrence that is behind the position, or behind what is cached."""
        event_type = {"event": self.event_type, "bookmark": "BOOKMARK"}.get(source, "")
        self.add("rv_regressions", event_type, source, action)

    def detailed(self) -> dict[tuple[str, ...], int]:
        """Return the sums by name and all details; from any thread."""
        return self._counts.copy()

    def by_name(self) -> dict[str, int]:
        """Return the sums by name and last detail, such as `rv_regressions:ignored`."""
        sums: Counter[str] = Counter()
        for (name, *details), count in self._counts.copy().items():
            sums[f"{name}:{details[-1]}" if details else name] += count
        return dict(sums)
