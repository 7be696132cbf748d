"""For how long a stream has been refused for missing rights, and what follows from that."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pyinformer.errors import ForbiddenError

if TYPE_CHECKING:
    from pyinformer.errors import InformerError


@final
class Refusal:
    """A stream that is refused for missing rights, from the first 403 to the first success."""

    def __init__(self) -> None:
        self.began_at: float | None = None
        """When the first of these 403 came, by the loop's time; None while there is none."""
        self.is_logged: bool = False
        """Whether it was logged."""

    def observe(self, error: InformerError | None, now: float) -> bool:
        """Record the latest error of the stream; return whether a refusal began by that."""
        if not isinstance(error, ForbiddenError):
            if error is None:
                self.began_at, self.is_logged = None, False
            return False
        if self.began_at is not None:
            return False
        self.began_at = now
        return True

    def lasts(self, patience_seconds: float, now: float) -> bool:
        """Return whether it has lasted for longer than kopf repeats a refused request."""
        return self.began_at is not None and now - self.began_at >= patience_seconds
