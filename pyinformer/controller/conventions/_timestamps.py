"""Times as Kubernetes writes them: RFC 3339 in UTC, with seconds or microseconds.

A time beyond the calendar is moved into it, never raised: a broken clock must not stop a reconcile.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

_LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def timestamp(happened_at: float) -> str:
    """Return an instant to the second, as conditions carry it: `2026-01-02T03:04:05Z`."""
    return _moment(happened_at).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(happened_at: float) -> str:
    """Return an instant to the microsecond, as events carry it: `2026-01-02T03:04:05.000006Z`."""
    return _moment(happened_at).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(happened_at: float) -> datetime:
    bounded = 0.0 if math.isnan(happened_at) else min(max(happened_at, 0.0), _LAST)
    return datetime.fromtimestamp(bounded, tz=UTC)
