"""Objects that left a selector with a finalizer of this process, and so cannot be deleted.

The reconcile is called with None for such an object: it cannot remove a finalizer from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pyinformer._clock import monotonic
from pyinformer._logging import get_logger
from pyinformer.tasks import FailureLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.apimachinery import KubeObject, View

_log = get_logger(__name__)


@final
class StrandedFinalizers:
    """Warns of such objects: one line per minute, with the number of further objects.

    Args:
        source: the name of the source, for the log.
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
        self._log_limit = FailureLog()
        self.count: int = 0
        """The number of such objects so far."""

    def left(self, obj: KubeObject[View | None]) -> None:
        """Record that an object left a selector in this state, or was deleted.

        An object that was being deleted is probably gone: its last state shows the finalizer whose
        removal ended it.
        """
        names = self._own().intersection(obj.metadata.finalizers)
        if not names or obj.metadata.deletion_timestamp:
            return
        self.count += 1
        others = self._log_limit.due_kind("stranded", self._clock())
        if others is not None:
            _log.warning(
                "%s: %s has left the selector with the finalizer %s and cannot be deleted; its"
                " reconcile must get it from the server and call held.release(), or the finalizer"
                " must be removed by hand; others since the last warning: %d",
                self._source,
                obj.key,
                ", ".join(sorted(names)),
                others,
            )
