"""A machine that is suspended: only one of its clocks counts that time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

SUSPENDED_SECONDS = 1_000_000.0
HAS_CLOCK = pytest.mark.skipif(
    not hasattr(time, "CLOCK_BOOTTIME"), reason="the system has no clock that includes suspends"
)


def suspending(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that makes the system's clocks as they are after a suspend."""
    system = time.clock_gettime
    suspended_seconds = 0.0

    def read(clock: int) -> float:
        """Return a clock; only one of them includes suspends."""
        return system(clock) + (suspended_seconds if clock == time.CLOCK_BOOTTIME else 0.0)

    def suspend() -> None:
        """Suspend the system for long."""
        nonlocal suspended_seconds
        suspended_seconds += SUSPENDED_SECONDS

    monkeypatch.setattr(time, "clock_gettime", read)
    return suspend
