"""For how long a stream has been refused for missing rights, and what follows from that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from pyinformer.errors import ForbiddenError

if TYPE_CHECKING:
    from pyinformer.errors import InformerError

_WARNING_PERIOD_SECONDS: Final = 300.0  # each attempt would be a line a minute


@final
class Refusal:
    """A stream that is refused for missing rights, from the first 403 to the first success."""

    def __init__(self) -> None:
        self.began_at: float | None = None
        """When the first of these 403 came, by the loop's time; None while there is none."""
        self._warned_at: float | None = None

    def observe(self, error: InformerError | None, now: float) -> bool:
        """Record the latest error of the stream; return whether a refusal began by that."""
        if not isinstance(error, ForbiddenError):
            if error is None:
                self.began_at = self._warned_at = None
            return False
        if self.began_at is not None:
            return False
        self.began_at = now
        return True

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
