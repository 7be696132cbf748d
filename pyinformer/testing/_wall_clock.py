"""The wall clock of the test servers; no other module of the kit reads it.

It only stamps objects. Deciding code gets it as a value or a callable, so tests can choose it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def timestamp(later_seconds: float = 0.0) -> str:
    """Return the wall time, or a later one, as Kubernetes writes it: `2026-01-02T03:04:05Z`."""
    moment = datetime.now(tz=UTC) + timedelta(seconds=later_seconds)
    return f"{moment.replace(tzinfo=None).isoformat(timespec='seconds')}Z"
