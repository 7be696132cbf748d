"""The log of reconciles: how each ended, with the reasons of its request and no object's content.

A tenant can create any number of failing keys, and an outage makes all of them fail: lines are
limited, and the next line says how many failures were left out.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, final

from msgspec.structs import replace

from pyinformer._printable import Lines
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import TokenBucket, place_of, repeats_text, trace_text
from pyinformer.controller._failure_text import is_expected, level_of, outlook_of, text_of
from pyinformer.controller._outage_log import outage_of, outages
from pyinformer.controller._requeue_policy import only_cause, shown_error

if TYPE_CHECKING:
    from pyinformer._runtime.tasks import LogExceptions
    from pyinformer.controller._requeue_policy import Outcome
    from pyinformer.controller.sources import Request

_log = get_logger(__name__)

_LINES_AT_ONCE: Final = 1_000
_LINES_PER_SECOND: Final = 10.0


@final
class ReconcileLog:
    """Logs the ends of one controller's reconciles.

    Args:
        controller: the controller's name.
        log_exceptions: what lines show of an error.
    """

    def __init__(self, controller: str, log_exceptions: LogExceptions) -> None:
        self.last_error: str | None = None
        """The last failure, as a status shows it."""
        self.unlogged_of_outage: int = 0
        """The failures of an outage that were only counted, and whose end is to be logged."""
        self._controller = controller
        self._log_exceptions = log_exceptions
        self._lines = TokenBucket(per_second=_LINES_PER_SECOND, burst=_LINES_AT_ONCE)
        self._unlogged = 0

    def succeeded(self, outcome: Outcome, now: float) -> None:
        """Log a success, and the end of an outage at most once a minute."""
        if self.unlogged_of_outage:
            self._log_recovery(now)
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug(
                "controller %s: reconciled %s: %s; reasons: %s",
                self._controller,
                outcome.request,
                outcome.kind,
                _reasons(outcome.request),
            )

    def failed(self, outcome: Outcome, error: BaseException, now: float) -> None:
        """Log a failure, or count it."""
        self.last_error = f"{shown_error(only_cause(error))} {place_of(error)}"
        if not _log.isEnabledFor(level_of(error)):
            return
        repeats, outage = "", outage_of(error)
        if outage:
            unlogged_of_all = outages().due_kind(outage, now)
            if unlogged_of_all is None:
                self.unlogged_of_outage += 1
                return
            repeats = f"; further failures like this one are counted{repeats_text(unlogged_of_all)}"
        if self._lines.reserve(now) > 0:
            self._lines.give_back()
            self._unlogged += 1
            return
        unlogged, self._unlogged = self._unlogged, 0
        shown = self._log_exceptions
        _log.log(
            level_of(error),
            "controller %s: the reconcile of %s failed: %s; %s; reasons: %s%s%s%s",
            self._controller,
            outcome.request,
            text_of(error, shown),
            outlook_of(outcome),
            _reasons(outcome.request),
            repeats,
            f"; {unlogged} failures since the last such line are not logged" if unlogged else "",
            Lines(f"\n{trace_text(error)}" if shown == "full" and not is_expected(error) else ""),
        )

    def _log_recovery(self, now: float) -> None:
        if outages().due_kind(f"the end for {self._controller}", now) is not None:
            unlogged, self.unlogged_of_outage = self.unlogged_of_outage, 0
            text = "controller %s: reconciles succeed again; %d failures of the outage were counted"
            _log.info(text, self._controller, unlogged)


def _reasons(request: Request) -> str:
    """Return why a request was made; the line has named its own object already."""
    own = request.key
    reasons = (replace(one, key="") if one.key == own else one for one in request.reasons)
    return "; ".join(map(str, reasons)) or "none"
