"""The settings of a controller, with the reasons of their defaults."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from pyinformer._runtime.tasks import LogExceptions, check_log_exceptions
from pyinformer.controller._fenced_limiter import default_rate_limiter
from pyinformer.errors import InvalidTypeError
from pyinformer.objects import check_flag, check_seconds
from pyinformer.workqueue import RateLimiter

_DURATIONS = (
    "grace_seconds",
    "drain_timeout_seconds",
    "sync_timeout_seconds",
    "resync_period_seconds",
    "debounce_seconds",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """How a controller behaves. The defaults suit nearly all controllers.

    Raises:
        InvalidArgumentError: a value is invalid.
    """

    reconcile_timeout_seconds: float | None = 300.0
    """A reconcile that takes longer is cancelled, awaited and retried. None for no deadline. Five
    minutes are more than a working reconcile needs, and less than a person waits for one."""
    grace_seconds: float = 5.0
    """How long a cancelled reconcile may clean up before its worker counts as stuck, and how long
    closing waits for it."""
    drain_timeout_seconds: float = 20.0
    """How long closing lets reconciles in flight finish before it cancels them; 0 cancels at once.
    With the grace it stays below the 30 s that Kubernetes gives a pod."""
    sync_timeout_seconds: float = 120.0
    """How long the start waits for caches and initial keys; controller-runtime's default."""
    rate_limiter: Callable[[], RateLimiter] = default_rate_limiter
    """Makes the limiter that says how long a key waits after a failure, one for each controller.
    The default doubles 5 ms up to 1,000 s, as client-go's, and spreads a tenth of it at random.
    If one of your own raises, that is logged, and the default takes its place."""
    noop_breaker: bool = False
    """Whether requests that no change asks for are held during a storm of no-op writes, which the
    log and the status report in any case: more than half of the newest hundred, or ten per second.
    They are those with a priority below 0 (initial objects, resyncs, your own), and timers and
    requeues of keys that make only no-op writes. Events pass at full speed, and nothing is dropped.
    Off by default: the program should choose what may wait. One held request per second starts as a
    probe; three good ones in a row close the breaker and release all held requests."""
    resync_period_seconds: float = 0.0
    """How often every primary object is reconciled without an event, spread over the whole period
    at low priority; 0 for never, which is right unless the reconcile depends on a state outside
    Kubernetes."""
    debounce_seconds: float = 0.0
    """How long no other request must have come for an object before it is reconciled, so that many
    changes in a row are one reconcile; 0, the default, reconciles at once. An object that changes
    all the time is reconciled ten such times after the first change: without this bound it would
    never be. Retries, `requeue_after_seconds` and `enqueue(after_seconds=...)` keep their times."""
    log_exceptions: LogExceptions = "classes"
    """What logs show of errors that a reconcile, a mapping or a predicate raises. `classes`: the
    classes of the error, its causes and the members of a group, the places, and the texts of
    pyinformer's own errors; other texts may quote an object, such as a Secret. `full`: these texts
    and the stack, too."""
    rng: random.Random = field(default_factory=random.Random)
    """Spreads the resyncs."""

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        for name in _DURATIONS:
            check_seconds(name, getattr(self, name))
        timeout_seconds = self.reconcile_timeout_seconds
        if timeout_seconds is not None:
            check_seconds("reconcile_timeout_seconds", timeout_seconds, is_positive=True)
        if not callable(self.rate_limiter):
            reason = f"must be a function that makes one, got {type(self.rate_limiter).__name__}"
            raise InvalidTypeError("rate_limiter", reason)
        check_flag("noop_breaker", self.noop_breaker)
        check_log_exceptions(self.log_exceptions)
