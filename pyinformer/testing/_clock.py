"""The clocks of the test servers; the only place here that reads the time.

Monotonic time drives leases and page tokens, wall time only stamps objects. Both are passed to
deciding code as values or as a callable, so that tests can choose them.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def monotonic() -> float:
    """Return monotonic seconds; only differences mean anything."""
    return time.monotonic()


def timestamp() -> str:
    """Return the wall time as Kubernetes writes it: `2026-01-02T03:04:05Z`."""
    return datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
