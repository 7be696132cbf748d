"""From which number on the state of a program, or of its connection, is a finding.

`pyinformer doctor`, `pyinformer top` and the alerts of the documentation use these numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

_DAY_SECONDS = 86400.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The limits of findings; `warn` is worth a look, `trouble` is worth a call at night."""

    stale_seconds: float = 300.0
    """Trouble if a cache was last confirmed as current longer ago than this; the default of
    `HealthOptions.stale_seconds`, which makes a program not ready."""
    silent_seconds: float = 240.0
    """Warn if a synced cache was last confirmed longer ago than this. While a reader asks for its
    age, a quiet cache is confirmed within that."""
    unsynced_seconds: float = 300.0
    """Trouble if a cache has not synced for this long after its start, warn before. A first list
    of a large resource takes minutes."""
    failed_attempts: int = 3
    """Warn if a cache waits for its next attempt after so many failed ones."""
    relists_per_hour: int = 12
    """Warn if an informer lists everything more often than this."""
    least_relists: int = 5
    """The number of complete lists from which on their rate counts."""
    late_handler_seconds: float = 10.0
    """Warn if the oldest event of a handler has waited for this long, or a call takes so long."""
    stuck_handler_seconds: float = 60.0
    """Trouble for the same."""
    late_queue_seconds: float = 60.0
    """Warn if the oldest key of a controller's queue has waited for this long."""
    stuck_queue_seconds: float = 300.0
    """Trouble for the same."""
    slow_reconcile_seconds: float = 120.0
    """Warn if one reconcile takes this long."""
    long_wait_seconds: float = 600.0
    """Warn if an object has waited for this long for what its reconcile needs, a child that is
    ready for example."""
    blocked_seconds: float = 1.0
    """Trouble while the event loop is blocked for this long; probes and Leases are late then."""
    buckets_without_owner_seconds: float = 60.0
    """Warn if replicas that share keys have left buckets without an owner for this long."""
    slow_step_seconds: float = 1.0
    """Warn if a name lookup, a connection, a TLS handshake or a small request takes this long."""
    slow_list_seconds: float = 5.0
    """Warn if the first page of a list takes this long."""
    clock_warn_seconds: float = 5.0
    """Warn if the clocks of this host and of the server differ by more than this."""
    clock_trouble_seconds: float = 60.0
    """Trouble for the same: new tokens and certificates are then refused as not yet valid."""
    certificate_warn_seconds: float = 14 * _DAY_SECONDS
    """Warn if a certificate expires within this time."""
    certificate_trouble_seconds: float = 2 * _DAY_SECONDS
    """Trouble for the same, and if it has expired."""
    token_warn_seconds: float = 86400.0
    """Warn if a token that is not renewed expires within this time; expired is trouble."""
    renewed_token_warn_seconds: float = 300.0
    """Warn if a token that is renewed expires within this time: its renewal is late. A kubelet
    renews the token of a service account when 80 % of its time, or a day, has passed."""
    memory_warn_bytes: int = 1 << 30
    """Warn if a cache in the default mode would take more than this."""


THRESHOLDS = Thresholds()
"""The limits that are used."""
