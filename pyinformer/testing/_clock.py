"""The clocks of the test servers; the only place here that reads the time.

Monotonic time drives leases and page tokens, wall time only stamps objects. Both are passed to
deciding code as values or as a callable, so that tests can choose them.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta


def monotonic() -> float:
    """Return monotonic seconds; only differences mean anything."""
    return time.monotonic()


def timestamp(later_seconds: float = 0.0) -> str:
    """Return the wall time, or a later one, as Kubernetes writes it: `2026-01-02T03:04:05Z`."""
    moment = datetime.now(tz=UTC) + timedelta(seconds=later_seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
