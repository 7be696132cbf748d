"""Exponential backoff: how long to wait before the next attempt.

It decides and does not wait; time and randomness are passed in. A long outage never restarts the
sequence; a long healthy period does.
"""

from __future__ import annotations

import math
import random
from typing import final

from pyinformer.errors import InvalidArgumentError

_FLOOR = 0.25  # of the first delay: full jitter alone could draw 0 repeatedly, a hot loop


@final
class ExponentialBackoff:
    """Random delays that double up to a limit, so that clients do not retry at the same time.

    Each delay is uniform between a quarter of `initial_seconds` and a ceiling: `initial_seconds`
    at first, multiplied by `factor` with each call, never above `max_seconds`.
    """

    __slots__ = (
        "_ceiling",
        "_delay_ends",
        "_factor",
        "_initial_seconds",
        "_max_seconds",
        "_reset_after_seconds",
        "_rng",
    )

    _ceiling: float
    _delay_ends: float

    def __init__(
        self,
        *,
        initial_seconds: float = 0.8,
        factor: float = 2.0,
        max_seconds: float = 30.0,
        reset_after_seconds: float = 120.0,
        rng: random.Random | None = None,
    ) -> None:
        """Start with the shortest delays.

        Args:
            initial_seconds: the first ceiling; positive.
            factor: from one ceiling to the next; at least 1.
            max_seconds: the last ceiling; at least `initial_seconds`.
            reset_after_seconds: this long without a failure counts as healthy. It must be longer
                than an attempt can take to fail, or a server that hangs looks healthy; may be
                infinite.
            rng: the source of randomness.

        Raises:
            InvalidArgumentError: one of the numbers cannot work.
        """
        fits = 0 < initial_seconds < math.inf
        _check("initial_seconds", initial_seconds, fits, "positive and finite")
        _check("factor", factor, 1 <= factor < math.inf, "finite and at least 1")
        fits = initial_seconds <= max_seconds < math.inf
        wanted = f"finite and at least initial_seconds, {initial_seconds!r}"
        _check("max_seconds", max_seconds, fits, wanted)
        _check("reset_after_seconds", reset_after_seconds, reset_after_seconds > 0, "positive")
        self._initial_seconds = initial_seconds
        self._factor = factor
        self._max_seconds = max_seconds
        self._reset_after_seconds = reset_after_seconds
        self._rng = rng if rng is not None else random.Random()
        self.reset()

    def next(self, now: float) -> float:
        """Return how many seconds to wait after a failure.

        Args:
            now: monotonic seconds, the time of the failure.

        Source:
            client-go tools/cache/reflector.go, which from version 1.36 on measures from the last
            reset and so starts over every two minutes of one outage; here the time from the end of
            the last delay counts.
        """
        if now - self._delay_ends > self._reset_after_seconds:
            self.reset()
        delay = self._draw(self._ceiling)
        self._ceiling = min(self._ceiling * self._factor, self._max_seconds)
        self._delay_ends = now + delay
        return delay

    def first(self) -> float:
        """Return a delay as after a first failure, without counting a failure.

        For an attempt that had worked for a while: its retry must be delayed, but it is not an
        outage.
        """
        return self._draw(self._initial_seconds)

    def reset(self) -> None:
        """Start over with the shortest delays."""
        self._ceiling = self._initial_seconds
        self._delay_ends = math.inf

    def _draw(self, ceiling: float) -> float:
        return self._rng.uniform(self._initial_seconds * _FLOOR, ceiling)


def _check(argument: str, value: float, fits: bool, wanted: str) -> None:  # noqa: FBT001
    if not fits:
        raise InvalidArgumentError(argument, f"{value!r} is not {wanted}")
