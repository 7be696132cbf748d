"""How a controller behaves: numbers with their units, meanings and reasons."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import final

from pyinformer.apimachinery import InvalidArgumentError, check_seconds
from pyinformer.tasks import LogExceptions, check_log_exceptions
from pyinformer.workqueue import LOW_PRIORITY

_DURATIONS = (
    "grace_seconds",
    "drain_timeout_seconds",
    "sync_timeout_seconds",
    "max_backoff_seconds",
    "rate_limit_period_seconds",
    "hot_loop_window_seconds",
    "hot_loop_delay_seconds",
    "noop_breaker_probe_seconds",
    "resync_period_seconds",
)
_POSITIVE = (
    "initial_backoff_seconds",
    "rate_limit_period_seconds",
    "hot_loop_window_seconds",
    "noop_breaker_probe_seconds",
)
_MAX_PER_SECOND = 1_000  # the alarm remembers ten seconds of them; no controller writes as fast
_COUNTS = ("max_stuck_workers", "rate_limit", "hot_loop_limit")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """How a controller behaves. The defaults are right for nearly everybody.

    Raises:
        InvalidArgumentError: a number that cannot work.
    """

    reconcile_timeout_seconds: float | None = 300.0
    """A reconcile that takes longer is cancelled, awaited and retried. None for no deadline. Five
    minutes is more than any honest reconcile needs, and less than a person waits for one."""
    grace_seconds: float = 5.0
    """How long a cancelled reconcile may clean up before its worker counts as stuck, and how long
    closing waits for it."""
    drain_timeout_seconds: float = 20.0
    """How long closing lets reconciles in flight finish before it cancels them; 0 cancels at once.
    With the grace it stays below the 30 s that Kubernetes gives a pod."""
    sync_timeout_seconds: float = 120.0
    """How long the start waits for caches and initial keys; controller-runtime's default."""
    initial_backoff_seconds: float = 0.005
    """The delay after a key's first failure; it doubles with each. Upstream's."""
    max_backoff_seconds: float = 1000.0
    """The longest delay after a failure. Upstream's."""
    backoff_jitter_ratio: float = 0.1
    """A share of each delay that chance may take off, so that keys which failed together spread;
    0 for none."""
    max_stuck_workers: int = 10
    """How many workers whose reconcile ignores its cancellation are replaced at a time. Beyond, the
    controller goes on with fewer, so that what leaks is bounded."""
    rate_limit: int = 0
    """How many times per period one key may be reconciled, failures and events included; what
    comes beyond is postponed, never dropped. 0 for no limit."""
    rate_limit_period_seconds: float = 1.0
    """The period of `rate_limit`."""
    hot_loop_limit: int = 200
    """A key that is reconciled more often than this within the window is named and slowed: most
    likely its own writes wake it. 0 notices nothing."""
    hot_loop_window_seconds: float = 10.0
    """The window of `hot_loop_limit`."""
    hot_loop_delay_seconds: float = 1.0
    """The least time between two reconciles of a key that was found hot."""
    noop_write_ratio: float = 0.5
    """An ERROR says so, and the status, when a greater share of the newest writes changed nothing
    (of a hundred, at least twenty, within ten minutes); 1 for never. It ends with half of that."""
    noop_writes_per_second: float = 10.0
    """The same for more of them per second, lasting ten seconds, whatever their share; 0 for
    never."""
    noop_breaker: bool = False
    """Hold back what such a storm is made of, while it lasts: requests with a priority below 0
    (what existed at the start, resyncs, low ones of your own), and timers and requeues of keys that
    only write in vain. Events pass at full speed, and nothing is dropped. Off unless asked for:
    that something waits should be somebody's choice."""
    noop_breaker_probe_seconds: float = 1.0
    """The time between two held requests that try whether the storm is over; three good ones in a
    row end it, and everything that was held goes on."""
    resync_period_seconds: float = 0.0
    """How often every object of the primary is reconciled without a cause, paced over the whole
    period and at low priority; 0 for never, which is right unless something outside of Kubernetes
    has to be looked at again."""
    initial_priority: int = LOW_PRIORITY
    """The priority of what exists at the start; events come before it."""
    resync_priority: int = LOW_PRIORITY
    """The priority of resyncs."""
    log_exceptions: LogExceptions = "classes"
    """What logs show of errors that a reconcile, a mapping or a predicate raises. `classes`: the
    classes of the error, its causes and the members of a group, the places, and the texts of
    pyinformer's own errors; texts of others may quote an object, a Secret for one. `full`: those
    texts and the calls, too."""
    rng: random.Random = field(default_factory=random.Random)
    """The source of chance."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in _DURATIONS:
            check_seconds(name, getattr(self, name))
        for name in _COUNTS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InvalidArgumentError(name, f"{value!r} is no number from 0 on")
        timeout = self.reconcile_timeout_seconds
        if timeout is not None and not 0 < timeout < math.inf:
            raise InvalidArgumentError(
                "reconcile_timeout_seconds", f"{timeout!r} is not positive; None for no deadline"
            )
        if self.max_backoff_seconds < self.initial_backoff_seconds:
            reason = f"{self.max_backoff_seconds} is less than initial_backoff_seconds"
            raise InvalidArgumentError("max_backoff_seconds", reason)
        if not 0 <= self.backoff_jitter_ratio <= 1:
            raise InvalidArgumentError(
                "backoff_jitter_ratio", f"{self.backoff_jitter_ratio} is not in 0..1"
            )
        self._check_noop_writes()
        check_log_exceptions(self.log_exceptions)
        for name in _POSITIVE:
            if not 0 < getattr(self, name) < math.inf:
                raise InvalidArgumentError(name, f"{getattr(self, name)!r} is not positive")

    def _check_noop_writes(self) -> None:
        if not 0 < self.noop_write_ratio <= 1:
            raise InvalidArgumentError(
                "noop_write_ratio", f"{self.noop_write_ratio!r} is not in 0..1; 1 for never"
            )
        if not 0 <= self.noop_writes_per_second <= _MAX_PER_SECOND:
            raise InvalidArgumentError(
                "noop_writes_per_second",
                f"{self.noop_writes_per_second!r} is not in 0..{_MAX_PER_SECOND}; 0 for never",
            )
        if not isinstance(self.noop_breaker, bool):
            reason = f"{self.noop_breaker!r} is neither yes nor no"
            raise InvalidArgumentError("noop_breaker", reason)
        if self.noop_breaker and self.noop_write_ratio == 1 and not self.noop_writes_per_second:
            reason = "both alarms are off (noop_write_ratio, noop_writes_per_second): it never acts"
            raise InvalidArgumentError("noop_breaker", reason)
