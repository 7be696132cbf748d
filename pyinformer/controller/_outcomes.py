"""What follows from the end of a reconcile: no loop, no queue, no clock.

What enters is how a reconcile ended and when; what leaves is what to do with its request, exactly:
success forgets the backoff, a wish to come back is granted after that; an error is retried ever
later; an error that names its time is retried then; a terminal one is not. While a retry is
pending, an event may run the key at once, but its failure neither counts nor comes before the
retry would have: a storm of events cannot turn backoff into hammering.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, final

from pyinformer.apimachinery import RetryAfter, TerminalError
from pyinformer.controller._result import Result

if TYPE_CHECKING:
    from pyinformer.sources._request import Request

OutcomeKind: TypeAlias = Literal["success", "requeue", "error", "retry_after", "terminal"]

_DOUBLINGS = 64  # more would overflow a float before the maximum is looked at


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one reconcile ended, and what follows."""

    request: Request
    """What was reconciled, with the reasons."""
    kind: OutcomeKind
    """`success`, `requeue` (success, and it wants to come back), or one of three failures:
    `error`, `retry_after`, `terminal`."""
    result: Result | None = None
    """What it returned."""
    error: BaseException | None = None
    """What it raised, or what was wrong with what it returned."""
    after_seconds: float | None = None
    """When it comes again by itself; None if only an event brings it back."""
    priority: int | None = None
    """The priority of coming back; None keeps what the request has."""
    failures: int = 0
    """Failures in a row that were counted; 0 after a success."""

    @property
    def is_failure(self) -> bool:
        """Whether the reconcile did not do its work."""
        return self.error is not None


@final
class Outcomes:
    """Remembers the keys that failed, and nothing of any other.

    Args:
        initial_seconds: the delay after the first failure; it doubles with each.
        max_seconds: the longest delay.
        jitter: a share of each delay that chance may take off.
        rng: the source of chance.

    Source:
        controller-runtime pkg/internal/controller/controller.go, reconcileHandler; the rule of a
        pending retry is the Java Operator SDK's.
    """

    __slots__ = ("_failing", "_initial_seconds", "_jitter", "_max_seconds", "_rng")

    def __init__(
        self, *, initial_seconds: float, max_seconds: float, jitter: float, rng: random.Random
    ) -> None:
        self._initial_seconds = initial_seconds
        self._max_seconds = max_seconds
        self._jitter = jitter
        self._rng = rng
        self._failing: dict[Request, tuple[int, float]] = {}  # failures, time of the retry

    def __len__(self) -> int:
        """Count the keys whose retry is pending."""
        return len(self._failing)

    def failures_of(self, request: Request) -> int:
        """Return how many failures in a row were counted."""
        return self._failing.get(request, (0, 0.0))[0]

    def succeeded(self, request: Request, result: Result | None) -> Outcome:
        """Decide after a reconcile that returned.

        Args:
            request: what was reconciled.
            result: what it returned.
        """
        self._failing.pop(request, None)
        if result is None or result.requeue_after_seconds is None:
            return Outcome(request=request, kind="success", result=result)
        return Outcome(
            request=request,
            kind="requeue",
            result=result,
            after_seconds=result.requeue_after_seconds,
            priority=result.priority,
        )

    def failed(self, request: Request, error: BaseException, now: float) -> Outcome:
        """Decide after a reconcile that raised, ran out of time or returned nonsense.

        Args:
            request: what was reconciled.
            error: what went wrong.
            now: when it ended; monotonic.
        """
        cause = only_cause(error)
        if isinstance(cause, TerminalError):
            self._failing.pop(request, None)
            return Outcome(request=request, kind="terminal", error=error)
        failures, retry_at = self._failing.get(request, (0, now))
        kind: OutcomeKind = "error"
        wanted_seconds = _wanted_seconds(cause)
        if wanted_seconds is not None:
            kind = "retry_after"
            retry_at = max(retry_at, now + wanted_seconds)
        elif retry_at <= now:
            retry_at = now + self._delay(failures)
            failures += 1
        self._failing[request] = failures, retry_at
        return Outcome(
            request=request,
            kind=kind,
            error=error,
            after_seconds=retry_at - now,
            failures=failures,
        )

    def _delay(self, failures: int) -> float:
        doubled = self._initial_seconds * 2.0 ** min(failures, _DOUBLINGS)
        return min(doubled, self._max_seconds) * (1.0 - self._jitter * self._rng.random())


def only_cause(error: BaseException) -> BaseException:
    """Look through groups of one: a task group must not hide what its only task meant."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _wanted_seconds(error: BaseException) -> float | None:
    """Return when it is to be retried; a subclass that cannot say so is an error like any."""
    if not isinstance(error, RetryAfter):
        return None
    try:
        seconds = getattr(error, "retry_after_seconds", None)
    except Exception:  # noqa: BLE001 - a fence: a property of the user's
        return None
    is_usable = isinstance(seconds, int | float) and 0 <= seconds < math.inf
    return seconds if is_usable else None
