"""What follows from the end of a reconcile: when its request comes again.

A success ends the backoff; an error is retried after a growing delay, an error that names a time
is retried then, and a terminal one is not retried. While a retry is pending, an event may run the
key at once, but a failure of that run that names no time neither counts nor comes before the
pending retry: a storm of events cannot defeat the backoff. A time that an error named is not
waited for then: it was for another state, and may be far off. Nothing here needs a queue, a clock
or an event loop.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import heapq
import math
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, final

from msgspec import Struct

from pyinformer._printable import printable, shortened
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import refusal_text
from pyinformer.controller._result import Result
from pyinformer.controller.sources import Request
from pyinformer.errors import (
    APIStatusError,
    FencedError,
    ModelMismatchError,
    RetryAfter,
    TerminalError,
)

if TYPE_CHECKING:
    from pyinformer.controller.sources import RequestId
    from pyinformer.workqueue import RateLimiter

OutcomeKind: TypeAlias = Literal["success", "requeue", "error", "retry_after", "terminal"]

_COMPARED: Final = 1_000  # failing keys among which the worst are looked for, in 0.1 ms
_MAX_SHOWN_CHARS: Final = 300  # of a refusal; one is kept for each failing key


@final
class Outcome(Struct, frozen=True, kw_only=True):
    """How one reconcile ended, and what follows."""

    request: Request
    """What was reconciled, with its reasons."""
    kind: OutcomeKind
    """`success`, `requeue` (a success that asked to be reconciled again), or one of three failures:
    `error`, `retry_after`, `terminal`."""
    result: Result | None = None
    """What it returned."""
    error: BaseException | None = None
    """What it raised, or what was wrong with what it returned."""
    after_seconds: float | None = None
    """The delay after which it comes again; None if only an event brings it back."""
    priority: int | None = None
    """The priority with which it comes again; None keeps that of the request."""
    failures: int = 0
    """Counted failures in a row; 0 after a success."""

    @property
    def is_failure(self) -> bool:
        """Whether the reconcile failed."""
        return self.error is not None


@final
class Failing(NamedTuple):
    """The retry state of a key whose last reconcile failed."""

    failures: int
    """Counted failures in a row."""
    retry_at: float
    """The time of the retry, monotonic seconds."""
    error: str
    """The last error, as `shown_error` has it."""
    is_wanted: bool
    """Whether a RetryAfter named the time."""


@final
class RequeuePolicy:
    """Decides what follows from each end, and remembers only the keys that failed.

    Args:
        limiter: how long a key waits after a failure that counts.

    Source:
        controller-runtime pkg/internal/controller/controller.go, reconcileHandler; the rule for a
        pending retry is the Java Operator SDK's.
    """

    __slots__ = ("_limiter", "failing")

    def __init__(self, limiter: RateLimiter) -> None:
        self._limiter = limiter
        self.failing: dict[RequestId, Failing] = {}
        """The keys whose retry is pending."""

    def __len__(self) -> int:
        """Count the keys whose retry is pending."""
        return len(self.failing)

    def failures_of(self, request: Request) -> int:
        """Return how many failures in a row were counted."""
        found = self.failing.get(request._id)
        return 0 if found is None else found.failures

    def worst(self, number: int) -> list[tuple[RequestId, Failing]]:
        """Return the keys with the most failures in a row; from any thread.

        They are chosen from the thousand keys that have failed for longest: there may be any
        number, and a key that began to fail later has hardly failed more often.

        Args:
            number: how many at most.
        """
        oldest = list(islice(self.failing.items(), _COMPARED))
        return heapq.nlargest(number, oldest, key=_badness)

    def succeeded(self, request: Request, result: Result | None) -> Outcome:
        """Decide after a reconcile that returned.

        Args:
            request: what was reconciled.
            result: what it returned.
        """
        self.forget(request._id)
        if result is None or result.requeue_after_seconds is None:
            return Outcome(request=request, kind="success", result=result)
        return Outcome(
            request=request,
            kind="requeue",
            result=result,
            after_seconds=result.requeue_after_seconds,
            priority=result.priority,
        )

    def undecided(self, request: Request, now: float) -> Outcome:
        """Decide after a reconcile that returned UNDECIDED: a pending retry stays pending.

        Args:
            request: what was reconciled; its failures stay counted.
            now: when it ended; monotonic seconds.
        """
        found = self.failing.get(request._id)
        after_seconds = None if found is None or found.retry_at <= now else found.retry_at - now
        return Outcome(request=request, kind="success", after_seconds=after_seconds)

    def failed(self, request: Request, error: BaseException, now: float) -> Outcome:
        """Decide after a reconcile that raised, timed out, or returned an invalid value.

        Args:
            request: what was reconciled.
            error: why it failed.
            now: when it ended; monotonic seconds.
        """
        cause = only_cause(error)
        is_shut_for_now = isinstance(cause, FencedError) and not cause.has_ended
        if isinstance(cause, TerminalError) and not is_shut_for_now:
            self.forget(request._id)
            return Outcome(request=request, kind="terminal", error=error)
        failures, retry_at, _, was_wanted = self.failing.get(request._id, (0, now, "", False))
        kind: OutcomeKind = "error"
        wanted_seconds = _wanted_seconds(cause)
        if wanted_seconds is not None:
            kind = "retry_after"
            retry_at = now + wanted_seconds
        elif retry_at <= now or was_wanted:  # such a time was for another state, and may be far off
            retry_at = now + self._limiter.when(request._id, now)
            failures += 1
        is_wanted = wanted_seconds is not None
        self.failing[request._id] = Failing(failures, retry_at, shown_error(cause), is_wanted)
        return Outcome(
            request=request,
            kind=kind,
            error=error,
            after_seconds=retry_at - now,
            failures=failures,
        )

    def forget(self, request_id: RequestId) -> None:
        """Forget the failures of a key."""
        if self.failing.pop(request_id, None) is not None:
            self._limiter.forget(request_id)


def _badness(entry: tuple[RequestId, Failing]) -> tuple[int, float]:
    return entry[1].failures, entry[1].retry_at


def only_cause(error: BaseException) -> BaseException:
    """Return the only error in a group of one: a task group must not hide what its task raised."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def given_up_reason(error: BaseException) -> str | None:
    """Return why a reconcile gave its object up until it changes; None if it did not.

    It is the name of the error's class if a user's class has another reason than a text.
    """
    cause = only_cause(error)
    if not isinstance(cause, TerminalError) or isinstance(cause, FencedError):
        return None  # of a fenced one another replica has the object
    name = "shown" if isinstance(cause, ModelMismatchError) else "reason"
    try:
        reason = getattr(cause, name, None)
    except ENDS_PROGRAM:
        raise
    except BaseException:  # noqa: BLE001 - the guard of a user's property
        reason = None
    return reason if isinstance(reason, str) else type(cause).__name__


def given_up_text(error: BaseException) -> str:
    """Return what an object waits for that was given up; empty if it was not."""
    reason = given_up_reason(error)
    if reason is None:
        return ""
    return f"a change; it was given up: {shortened(reason, _MAX_SHOWN_CHARS)}"


def shown_error(error: BaseException) -> str:
    """Return what a status shows of an error: its type, and why a server refused a request.

    Other texts may quote an object.
    """
    name = type(error).__name__
    why = refusal_text(error) if isinstance(error, APIStatusError) else ""
    return printable(f"{name} ({shortened(why, _MAX_SHOWN_CHARS)})") if why else name


def _wanted_seconds(error: BaseException) -> float | None:
    """Return the delay that a RetryAfter asks for; None if it is not a usable one."""
    if not isinstance(error, RetryAfter):
        return None
    try:
        seconds = getattr(error, "retry_after_seconds", None)
    except ENDS_PROGRAM:
        raise
    except BaseException:  # noqa: BLE001 - the guard of a user's property
        return None
    is_usable = isinstance(seconds, int | float) and 0 <= seconds < math.inf
    return seconds if is_usable else None
