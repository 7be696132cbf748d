"""For how long streams and other requests have been refused, and what follows from that."""

# Pure: it knows no event loop.

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, final

from pyinformer.errors import ForbiddenError

if TYPE_CHECKING:
    from pyinformer.errors import InformerError

_WARNING_PERIOD_SECONDS: Final = 300.0  # one for each attempt would be one a minute
_INTERRUPTED_SECONDS: Final = 5.0  # a 403 inside of a watch that was accepted comes at once


@final
class Refusal:
    """A stream that is refused for missing rights, from the first 403 to the first success."""

    def __init__(self) -> None:
        self.began_at: float | None = None
        """When the first of these 403 came, by the loop's time; None while there is none."""
        self._warned_at: float | None = None
        self._ended_at: float = -math.inf
        self._ended: tuple[float | None, float | None] = None, None

    def observe(self, error: InformerError | None, now: float) -> bool:
        """Record the latest error of the stream, None while it is followed.

        A refusal within seconds after the last one ended is the same one.

        Returns:
            Whether a refusal began by that.
        """
        if not isinstance(error, ForbiddenError):
            if error is None:
                self._end(now)
            return False
        if self.began_at is None and now - self._ended_at < _INTERRUPTED_SECONDS:
            self.began_at, self._warned_at = self._ended
        if self.began_at is not None:
            return False
        self.began_at = now
        return True

    def _end(self, now: float) -> None:
        if self.began_at is not None:
            self._ended_at, self._ended = now, (self.began_at, self._warned_at)
        self.began_at = self._warned_at = None

    def seconds(self, now: float) -> float:
        """Return for how long it has lasted; 0 while there is none."""
        return 0.0 if self.began_at is None else now - self.began_at

    def lasts(self, patience_seconds: float, now: float) -> bool:
        """Return whether it has lasted for longer than kopf repeats a refused request."""
        return self.began_at is not None and now - self.began_at >= patience_seconds

    def warns(self, patience_seconds: float, now: float) -> bool:
        """Return whether to log that it lasts, at first and then every five minutes.

        The caller logs it then.
        """
        warned_at = self._warned_at
        is_recent = warned_at is not None and now - warned_at < _WARNING_PERIOD_SECONDS
        if is_recent or not self.lasts(patience_seconds, now):
            return False
        self._warned_at = now
        return True


@final
class RefusedRequests:
    """The requests of one operator, outside of its streams, that are refused and repeated."""

    def __init__(self) -> None:
        self._refused: dict[object, tuple[float, str]] = {}

    def add(self, request: object, text: str, lasts_at: float) -> None:
        """Record that a request was refused.

        Args:
            request: its identity; an earlier refusal of the same request counts.
            text: the request and the refusal, for people.
            lasts_at: when the refusal has lasted for too long, if it is the first one.
        """
        lasts_at, _ = self._refused.get(request, (lasts_at, ""))
        self._refused[request] = lasts_at, text

    def remove(self, request: object) -> None:
        """Record that a request is not refused, or is not sent any more."""
        self._refused.pop(request, None)

    def lasting(self, now: float) -> list[str]:
        """Return the texts of those that have lasted for too long."""
        return [text for lasts_at, text in self._refused.values() if now >= lasts_at]
