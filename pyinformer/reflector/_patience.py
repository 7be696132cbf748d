"""How long to wait before the next attempt: backoff, what the server asks for, what is hopeless."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pyinformer.apimachinery import APIStatusError, ForbiddenError

if TYPE_CHECKING:
    from pyinformer.apimachinery import ExponentialBackoff, InformerError

_MAX_RETRY_AFTER_SECONDS = 3600.0  # beyond it somebody's clock is wrong, and we would never know
_FORBIDDEN_PATIENCE_SECONDS = 30.0  # rights are often granted a moment after a program's start
_FORBIDDEN_SECONDS = 60.0  # what is refused for good needs no more than that


@final
class Patience:
    """Decides the delays of one reflector."""

    __slots__ = ("_backoff", "_forbidden_since")

    def __init__(self, backoff: ExponentialBackoff) -> None:
        self._backoff = backoff
        self._forbidden_since: float | None = None

    def recovered(self) -> None:
        """Take note that what is asked for is granted."""
        self._forbidden_since = None

    def seconds(self, error: InformerError | None, now: float, *, was_useful: bool) -> float:
        """Return the delay after a failure, or after a success that came too soon.

        Args:
            error: the failure, if it was one.
            now: its time.
            was_useful: it did some good before; no delays pile up for that.
        """
        delay = self._backoff.first() if was_useful else self._backoff.next(now)
        return max(delay, self._asked_seconds(error, now))

    def _asked_seconds(self, error: InformerError | None, now: float) -> float:
        asked = error.retry_after_seconds if isinstance(error, APIStatusError) else None
        seconds = min(asked or 0.0, _MAX_RETRY_AFTER_SECONDS)
        if isinstance(error, ForbiddenError):
            if self._forbidden_since is None:
                self._forbidden_since = now
            if now - self._forbidden_since >= _FORBIDDEN_PATIENCE_SECONDS:
                return max(seconds, _FORBIDDEN_SECONDS)
        return seconds
