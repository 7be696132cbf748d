"""From the findings of a moment to a verdict that does not flap.

A finding counts once it has lasted for its grace period, and until it has been gone for its
recovery time. Present and recent findings are remembered. It needs no clock and no event loop.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, final


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """A problem at one moment."""

    id: str
    """The same for the same problem, whatever its numbers."""
    text: str
    grace_seconds: float = 0.0
    """How long it has to last before it counts."""
    recovery_seconds: float = 0.0
    """How long it has to be gone before it no longer counts."""


@final
class Judged(NamedTuple):
    """The findings that count, and the others."""

    reasons: tuple[str, ...]
    """The findings that count."""
    notes: tuple[str, ...]
    """The findings that do not count yet."""


class _Known:
    __slots__ = ("counts", "finding", "first_at", "last_at")

    def __init__(self, finding: Finding, now: float) -> None:
        self.finding = finding
        self.first_at = self.last_at = now
        self.counts = False


@final
class HealthDebounce:
    """The findings for one question: alive, or ready."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def judge(self, findings: Iterable[Finding], now: float) -> Judged:
        """Take the present findings, and return those that count.

        Args:
            findings: each with a unique id.
            now: monotonic seconds.
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
            tuple(_counting(one, now) for one in self._known.values() if one.counts),
            tuple(_pending(one, now) for one in self._known.values() if not one.counts),
        )


def _counting(known: _Known, now: float) -> str:
    gone_seconds = now - known.last_at
    if not gone_seconds:
        return known.finding.text
    needed = known.finding.recovery_seconds
    return f"{known.finding.text} (gone for {gone_seconds:.0f} s; counts no more after {needed:g})"


def _pending(known: _Known, now: float) -> str:
    lasted, grace = now - known.first_at, known.finding.grace_seconds
    return f"{known.finding.text} (for {lasted:.0f} s; counts after {grace:g})"
