"""The delay before the next attempt: backoff, the server's Retry-After, and refused rights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, final

from pyinformer.cache.reflector.machine.steps import WakeCause
from pyinformer.client.transport import NO_SERVER_BEHIND
from pyinformer.errors import (
    APIStatusError,
    ForbiddenError,
    TooManyRequestsError,
    TransportError,
)
from pyinformer.objects import ExponentialBackoff

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from pyinformer.errors import InformerError

_FORBIDDEN_GRACE_SECONDS = 30.0  # rights are often granted a moment after a program's start
_FORBIDDEN_SECONDS = 60.0  # then attempts are this rare, but for those in turn, see `Rights`
_THROTTLED_ATTEMPTS = 10
_SOON_SECONDS = 5.0  # priority and fairness asks for one second, and at most for a few
_WORTHWHILE_SECONDS = 30.0  # a load that served for the longest delay was worth its cost


@final
class RetryDelay:
    """Computes the delays of one reflector.

    Failures and relists have a backoff each. The delays after failures grow until something works.
    If the server was not reached, its answer to a probe ends them, once; until something works,
    only a server that was seen to be away and answers again ends them after that. The delays before
    relists grow until a load has served for 30 s: a list of everything is expensive, and neither
    its own success nor an event after it shows that the next one will last longer. They start over
    after a server that could not be reached: it has restarted and has no history, so the last load
    could not serve for long. A server with too much to do refuses a share of all requests, and
    names a delay of a second or so: the first ten attempts follow that, as those of client-go, and
    do not make later delays longer.

    Args:
        rng: the source of chance.
    """

    def __init__(self, rng: random.Random) -> None:
        self.limit: Callable[[int, InformerError], float] | None = None
        """See `ReflectorOptions.max_retry_seconds`."""
        self._failures = ExponentialBackoff(rng=rng)
        self._relists = ExponentialBackoff(rng=rng, reset_after_seconds=math.inf)
        self._polls = ExponentialBackoff(rng=rng, reset_after_seconds=math.inf)
        self._rng = rng
        self._throttled = 0
        self._was_woken = False
        self._forbidden_since: float | None = None
        self._loaded_at: float | None = None

    def recovered(self) -> None:
        """Record that the server delivered something: the delays after failures start over."""
        self._forbidden_since = None
        self._failures.reset()
        self._throttled = 0
        self._was_woken = False

    def watched(self) -> None:
        """Record that a watch works: the delays between polled lists start over."""
        self._polls.reset()

    def poll_seconds(self, error: InformerError | None, now: float) -> float:
        """Return the delay before the next list of everything while watches are refused.

        Lists are answered, so neither missing rights to watch nor the time since the last list make
        it longer: it grows to 30 s, as client-go's, for as long as no watch is accepted.
        """
        return max(self._polls.next(now), requested_seconds(error))

    def answered(self, *, was_away: bool) -> None:
        """Record that the server answers a probe: the delays of the outage are over.

        Args:
            was_away: an earlier probe was not answered.
        """
        self._failures.reset()
        self._was_woken = True
        if was_away:
            self._relists.reset()

    def wake_on(self, error: InformerError | None) -> WakeCause:
        """Return what ends the delay early.

        A load balancer answers 502, 503 or 504 for an absent server, and a healthy kube-apiserver
        does for an absent aggregated API. Only in the first case do probes stay unanswered, so only
        a server that was seen to be away and answers again ends that delay, with `Retry-After` too:
        the load balancer asked for it, and not the server.
        """
        if isinstance(error, ForbiddenError):
            is_asked_to_wait = error.retry_after_seconds is not None
            return WakeCause.TIME if is_asked_to_wait else WakeCause.RIGHTS
        if isinstance(error, TransportError):
            return WakeCause.RECOVERY if self._was_woken else WakeCause.ANSWER
        is_absent = isinstance(error, APIStatusError) and error.status in NO_SERVER_BEHIND
        return WakeCause.RECOVERY if is_absent else WakeCause.TIME

    def loaded(self, now: float) -> None:
        """Record a complete load."""
        self._loaded_at = now
        self.recovered()

    def has_served(self, now: float) -> bool:
        """Return whether the last load served for so long that the next one need not wait."""
        return self._loaded_at is None or now - self._loaded_at >= _WORTHWHILE_SECONDS

    def seconds(
        self,
        error: InformerError | None,
        now: float,
        *,
        failures: int,
        loads: bool,
        was_useful: bool,
    ) -> float:
        """Return the delay after a failure, or after a success that came too soon.

        Args:
            error: the failure, if there was one.
            now: its time.
            failures: how many attempts in a row have failed.
            loads: everything is loaded next.
            was_useful: the attempt delivered something before it failed, so delays do not grow.
        """
        if is_throttled(error) and self._throttled < _THROTTLED_ATTEMPTS:
            self._throttled += 1
            requested = requested_seconds(error)
            return requested + self._rng.uniform(0.0, requested / 2)
        if isinstance(error, TransportError) and error.is_unreachable:
            self._relists.reset()
        if loads and self._loaded_at is not None:
            delay = self._relist_seconds(now - self._loaded_at, now)
        else:
            delay = self._failures.first() if was_useful else self._failures.next(now)
        delay = max(delay, self._forbidden_seconds(error, now))
        if self.limit is not None and error is not None:
            delay = min(delay, self.limit(failures, error))
        return max(delay, requested_seconds(error))

    def _relist_seconds(self, served_seconds: float, now: float) -> float:
        self._loaded_at = None  # a load that fails counts as a failure, until one succeeds
        if served_seconds >= _WORTHWHILE_SECONDS:
            self._relists.reset()
        return self._relists.next(now)

    def _forbidden_seconds(self, error: InformerError | None, now: float) -> float:
        if not isinstance(error, ForbiddenError):
            return 0.0
        if self._forbidden_since is None:
            self._forbidden_since = now
        is_fresh = now - self._forbidden_since < _FORBIDDEN_GRACE_SECONDS
        return 0.0 if is_fresh else _FORBIDDEN_SECONDS


def is_throttled(error: InformerError | None) -> bool:
    """Return whether the server had too much to do, and asks to be asked again soon.

    Source:
        client-go rest/with_retry.go, which repeats a request ten times then.
    """
    is_refused = isinstance(error, TooManyRequestsError)
    return is_refused and 0.0 < requested_seconds(error) <= _SOON_SECONDS


def requested_seconds(error: InformerError | None) -> float:
    """Return how long the server asks to wait after an error; 0 if it does not."""
    requested = error.retry_after_seconds if isinstance(error, APIStatusError) else None
    return requested or 0.0
