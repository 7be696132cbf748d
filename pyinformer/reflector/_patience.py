"""How long to wait before the next attempt: backoff, what the server asks for, what is hopeless."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, final

from pyinformer.apimachinery import (
    APIStatusError,
    ExponentialBackoff,
    ForbiddenError,
    TransportError,
)
from pyinformer.reflector._outage import Ending

if TYPE_CHECKING:
    import random

    from pyinformer.apimachinery import InformerError

_MAX_RETRY_AFTER_SECONDS = 3600.0  # beyond it somebody's clock is wrong, and we would never know
_FORBIDDEN_PATIENCE_SECONDS = 30.0  # rights are often granted a moment after a program's start
_FORBIDDEN_SECONDS = 60.0  # what is refused for good needs no more than that
_NO_SERVER_BEHIND = frozenset({502, 503, 504})  # said by a load balancer, or by an API of its own

_WORTHWHILE_SECONDS = 30.0  # a load that served for as long as the longest delay was worth it


@final
class Patience:
    """Decides the delays of one reflector.

    Failures and loads have a backoff each. The delays after failures grow until something works,
    however little. If the server was not reached, its answer to a probe ends them, once; until
    something works, only a server that was seen to be away and answers again ends them after that.
    The delays before further loads grow until a load has served for 30 s: a list of everything is
    expensive, and neither its own success nor an event behind it shows that the next one will last
    longer.

    Args:
        rng: the source of chance.
    """

    __slots__ = ("_failures", "_forbidden_since", "_loaded_at", "_relists", "_was_woken")

    def __init__(self, rng: random.Random) -> None:
        self._failures = ExponentialBackoff(rng=rng)
        self._relists = ExponentialBackoff(rng=rng, reset_after_seconds=math.inf)
        self._was_woken = False
        self._forbidden_since: float | None = None
        self._loaded_at: float | None = None

    def recovered(self) -> None:
        """Record that the server granted and delivered something: failures begin anew."""
        self._forbidden_since = None
        self._failures.reset()
        self._was_woken = False

    def answered(self, *, was_away: bool) -> None:
        """Record that the server answers a probe: the outage's delays are over.

        Args:
            was_away: a probe was not answered before. A server that starts again has no history, so
                that the last load could not serve for long.
        """
        self._failures.reset()
        self._was_woken = True
        if was_away:
            self._relists.reset()

    def ended_by(self, error: InformerError | None) -> Ending:
        """Return what ends the delay before its time.

        A load balancer answers 502, 503 or 504 for an absent server, and a kube-apiserver that is
        well for an absent aggregated API. Only in the first case are probes unanswered, so only a
        server that was seen to be away and answers again ends that delay.
        """
        if isinstance(error, TransportError):
            return Ending.RETURN if self._was_woken else Ending.ANSWER
        if not isinstance(error, APIStatusError) or error.retry_after_seconds is not None:
            return Ending.NOTHING
        return Ending.RETURN if error.status in _NO_SERVER_BEHIND else Ending.NOTHING

    def loaded(self, now: float) -> None:
        """Record a complete load."""
        self._loaded_at = now
        self.recovered()

    def has_served(self, now: float) -> bool:
        """Tell whether the last load served for so long that the next one need not wait."""
        return self._loaded_at is None or now - self._loaded_at >= _WORTHWHILE_SECONDS

    def seconds(
        self, error: InformerError | None, now: float, *, loads: bool, was_useful: bool
    ) -> float:
        """Return the delay after a failure, or after a success that came too soon.

        Args:
            error: the failure, if it was one.
            now: its time.
            loads: everything is loaded next.
            was_useful: it did some good before; no delays pile up for that.
        """
        if loads and self._loaded_at is not None:
            delay = self._relist_seconds(now - self._loaded_at, now)
        else:
            delay = self._failures.first() if was_useful else self._failures.next(now)
        return max(delay, self._asked_seconds(error, now))

    def _relist_seconds(self, served_seconds: float, now: float) -> float:
        self._loaded_at = None  # a load that fails is a failure, until one succeeds
        if served_seconds >= _WORTHWHILE_SECONDS:
            self._relists.reset()
        return self._relists.next(now)

    def _asked_seconds(self, error: InformerError | None, now: float) -> float:
        asked = error.retry_after_seconds if isinstance(error, APIStatusError) else None
        seconds = min(asked or 0.0, _MAX_RETRY_AFTER_SECONDS)
        if isinstance(error, ForbiddenError):
            if self._forbidden_since is None:
                self._forbidden_since = now
            if now - self._forbidden_since >= _FORBIDDEN_PATIENCE_SECONDS:
                return max(seconds, _FORBIDDEN_SECONDS)
        return seconds
