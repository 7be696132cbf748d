"""From findings of a moment to a verdict that does not flap: no loop, no clock.

What enters is what is wrong now; what leaves is what counts. A finding counts once it has lasted
for its grace, and goes on counting until it has been gone for its recovery. Only findings that are
there, or were a moment ago, are remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, final


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong at this moment."""

    id: str
    """The same for the same trouble, whatever its numbers."""
    text: str
    grace_seconds: float = 0.0
    """How long it has to last before it counts."""
    recovery_seconds: float = 0.0
    """How long it has to be gone before it counts no more."""


@final
class Judged(NamedTuple):
    """What to make of the findings."""

    reasons: tuple[str, ...]
    """What counts."""
    notes: tuple[str, ...]
    """What does not count yet."""


class _Known:
    __slots__ = ("counts", "finding", "first_at", "last_at")

    def __init__(self, finding: Finding, now: float) -> None:
        self.finding = finding
        self.first_at = self.last_at = now
        self.counts = False


@final
class Debounce:
    """The findings about one question."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def judge(self, findings: Iterable[Finding], now: float) -> Judged:
        """Take what is wrong now, and return what counts.

        Args:
            findings: each with an id of its own.
            now: monotonic.
        """
        present = {finding.id: finding for finding in findings}
        for finding in present.values():
            known = self._known.setdefault(finding.id, _Known(finding, now))
            known.finding, known.last_at = finding, now
            known.counts = known.counts or now - known.first_at >= finding.grace_seconds
        for name, known in tuple(self._known.items()):
            is_over = now - known.last_at >= known.finding.recovery_seconds or not known.counts
            if name not in present and is_over:
                del self._known[name]
        return Judged(
            tuple(_said(one, now) for one in self._known.values() if one.counts),
            tuple(_awaited(one, now) for one in self._known.values() if not one.counts),
        )


def _said(known: _Known, now: float) -> str:
    gone_seconds = now - known.last_at
    if not gone_seconds:
        return known.finding.text
    needed = known.finding.recovery_seconds
    return f"{known.finding.text} (gone for {gone_seconds:.0f} s; counts no more after {needed:g})"


def _awaited(known: _Known, now: float) -> str:
    lasted, grace = now - known.first_at, known.finding.grace_seconds
    return f"{known.finding.text} (for {lasted:.0f} s; counts after {grace:g})"
