"""Objects that left a selector with a finalizer of this process, and so cannot be deleted.

The reconcile is called with None for such an object: it cannot remove a finalizer from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import FailureLog, loop_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.objects import KubeObject

_log = get_logger(__name__)


@final
class StrandedFinalizers:
    """Warns of such objects: one line per minute, with the number of further objects.

    Args:
        source: the name of the source, for the log.
        own: returns the finalizers of this process.
    """

    def __init__(self, source: str, own: Callable[[], frozenset[str]]) -> None:
        self._source = source
        self._own = own
        self._log_limit = FailureLog()

    def left(self, obj: KubeObject[object]) -> None:
        """Record, on the loop, that an object left a selector in this state, or was deleted.

        An object that was being deleted is probably gone: its last state shows the finalizer whose
        removal ended it.
        """
        names = self._own().intersection(obj.metadata.finalizers)
        if not names or obj.metadata.deletion_timestamp:
            return
        others = self._log_limit.due_kind("stranded", loop_time())
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
