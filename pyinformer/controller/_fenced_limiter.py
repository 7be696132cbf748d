"""The rate limiter of a controller, which may be the user's own: its faults end no controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import error_text
from pyinformer.errors import InvalidTypeError
from pyinformer.objects import check_seconds
from pyinformer.workqueue import ItemExponentialFailureRateLimiter, RateLimiter

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_log = get_logger(__name__)


def default_rate_limiter() -> RateLimiter:
    """Return the limiter of controllers that name none: client-go's, a tenth of it at random."""
    return ItemExponentialFailureRateLimiter(0.005, 1000.0, jitter_ratio=0.1)


@final
class FencedLimiter:
    """A limiter in whose place the default is taken as soon as it fails.

    Args:
        controller: the controller's name, for the log.
        make: makes the limiter.

    Raises:
        InvalidTypeError: it makes something else, or cannot be called without arguments.
    """

    def __init__(self, controller: str, make: Callable[[], RateLimiter]) -> None:
        self._controller = controller
        try:
            self._limiter = make()
        except ENDS_PROGRAM:
            raise
        except BaseException as error:
            reason = f"must make a limiter without arguments; it raised {error_text(error)}"
            raise InvalidTypeError("rate_limiter", reason) from error
        if not (
            callable(getattr(self._limiter, "when", None)) and hasattr(self._limiter, "forget")
        ):
            reason = f"must make a RateLimiter, with when() and forget(), got {self._limiter!r:.60}"
            raise InvalidTypeError("rate_limiter", reason)

    def when(self, item: Hashable, now: float) -> float:
        """Count a failure of a key and return how many seconds it has to wait."""
        try:
            seconds = self._limiter.when(item, now)
            check_seconds("rate_limiter.when()", seconds)
        except ENDS_PROGRAM:
            raise
        except BaseException as error:  # noqa: BLE001 - the fence of a user's limiter
            self._replace(error)
            return self._limiter.when(item, now)
        return seconds

    def forget(self, item: Hashable) -> None:
        """Forget a key's failures: it succeeded, or was given up."""
        try:
            self._limiter.forget(item)
        except ENDS_PROGRAM:
            raise
        except BaseException as error:  # noqa: BLE001 - as above
            self._replace(error)

    def num_requeues(self, item: Hashable) -> int:
        """Return how many failures of a key are remembered."""
        return self._limiter.num_requeues(item)

    def _replace(self, error: BaseException) -> None:
        text = "controller %s: the default rate limiter takes the place of its own, which raised %s"
        _log.error(text, self._controller, error_text(error))
        self._limiter = default_rate_limiter()
