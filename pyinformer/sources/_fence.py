"""The fence around functions of the user's that a source calls: predicates, mappings, key lists.

A function that raises gives None. Each failure is counted; of each kind of error one per minute is
logged, with the object's key and the place. Nothing else is delayed by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar, final

from pyinformer._clock import monotonic
from pyinformer._logging import get_logger
from pyinformer._printable import Lines
from pyinformer.tasks import (
    FailureLog,
    LogExceptions,
    error_text,
    name_of,
    place_of,
    repeats_text,
    trace_text,
)

if TYPE_CHECKING:
    from pyinformer.metrics import Metrics

_log = get_logger("pyinformer.controller")

_P = ParamSpec("_P")
_T = TypeVar("_T")


@final
class SourceFence:
    """Calls one function of the user's.

    Args:
        source: names the source.
        role: what the function is: `mapping`.
        function: the function, for its name.
        consequence: what happens after a failure, for the log.
        metrics: where failures are counted.
        controller: whose source it is; empty for nobody's.
        log_exceptions: whether logs show the texts of the errors that it raises.
    """

    def __init__(
        self,
        source: str,
        role: str,
        function: object,
        *,
        consequence: str,
        metrics: Metrics,
        controller: str = "",
        log_exceptions: LogExceptions = "classes",
    ) -> None:
        self._name = name_of(function)
        self._consequence = consequence
        self._source = source
        self._controller = controller
        self._role = role
        self._metrics = metrics
        self._log_exceptions: LogExceptions = log_exceptions
        self._failures = FailureLog()
        self.failures: int = 0
        """How often it raised."""
        self.last_failure: str | None = None
        """The function, the type of the last error and its place."""

    def call(
        self, key: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T | None:
        """Call a function that calls the user's, and return its result; None if it raised.

        Args:
            key: the object that it is called for; empty if there is none.
            function: calls the user's.
            args: are handed on.
            kwargs: are handed on.
        """
        try:
            return function(*args, **kwargs)
        except (GeneratorExit, KeyboardInterrupt, SystemExit):
            raise  # not the function's alone
        except BaseException as error:  # noqa: BLE001 - the fence; test tools raise these
            self._failed(key, error)
            return None

    def _failed(self, key: str, error: BaseException) -> None:
        self.failures += 1
        self.last_failure = f"{self._role} {self._name}: {type(error).__name__} {place_of(error)}"
        labels = {
            "controller": self._controller,
            "source": self._source,
            "function": self._role,
        }
        self._metrics.increment("controller_source_failures_total", labels)
        unlogged = self._failures.due(error, monotonic())
        if unlogged is None:
            return
        shown = self._log_exceptions
        _log.error(
            "%s%s: %s %s failed on %s: %s; %s; failure %d%s%s",
            f"controller {self._controller}: " if self._controller else "",
            self._source,
            self._role,
            self._name,
            key or "no object in particular",
            error_text(error, shown),
            self._consequence,
            self.failures,
            repeats_text(unlogged),
            Lines(f"\n{trace_text(error)}" if shown == "full" else ""),
        )
