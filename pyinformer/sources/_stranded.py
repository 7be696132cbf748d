"""Objects that left a selector with a finalizer of this process, which cannot be deleted then.

The reconcile is called with None for such an object, so it has nothing to remove a finalizer from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from pyinformer._clock import monotonic
from pyinformer._logging import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.apimachinery import KubeObject, View

_log = get_logger("pyinformer.controller")

_PERIOD_SECONDS: Final = 60.0


@final
class StrandedFinalizers:
    """Warns of objects that left with a finalizer: of one per minute, with the number of others.

    Args:
        source: names the source in the log.
        own: returns the finalizers of this process.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        source: str,
        own: Callable[[], frozenset[str]],
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._source = source
        self._own = own
        self._clock = clock
        self._warned_at: float | None = None
        self._others = 0
        self.count: int = 0
        """How many objects left so."""

    def left(self, obj: KubeObject[View | None]) -> None:
        """Record that an object left a selector in this state, or was deleted.

        One that was being deleted has probably gone for good: its last state shows the finalizer
        whose removal ended it.
        """
        names = self._own().intersection(obj.metadata.finalizers)
        if not names or obj.metadata.deletion_timestamp:
            return
        self.count += 1
        now = self._clock()
        if self._warned_at is not None and now - self._warned_at < _PERIOD_SECONDS:
            self._others += 1
            return
        others, self._warned_at, self._others = self._others, now, 0
        _log.warning(
            "%s: %s has left the selector with the finalizer %s, so it cannot be deleted; its"
            " reconcile has to get it from the server and call held.release(), or the finalizer has"
            " to be removed by hand; others since the last warning: %d",
            self._source,
            obj.key,
            ", ".join(sorted(names)),
            others,
        )
