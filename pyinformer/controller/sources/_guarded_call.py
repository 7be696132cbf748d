"""Calls of the user's functions by a source: predicates, mappings, key lists.

An exception in such a function is counted and logged, and stops nothing else: the call returns
None. Of each kind of error one per minute is logged, with the object's key and the place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar, final

from pyinformer._printable import Lines
from pyinformer._runtime.clock import monotonic
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import (
    FailureLog,
    error_text,
    name_of,
    place_of,
    repeats_text,
    trace_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.controller.sources._source import SourceOptions

_log = get_logger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")


@final
class GuardedCall:
    """Calls one function of the user's, and survives its exceptions.

    Args:
        source: the name of the source.
        role: the function's role: `mapping`.
        function: the function, for its name.
        consequence: what happens after a failure, for the log.
        options: of the source.
    """

    def __init__(
        self, source: str, role: str, function: object, *, consequence: str, options: SourceOptions
    ) -> None:
        self._name = name_of(function)
        self._consequence = consequence
        self._source = source
        self._role = role
        self._options = options
        self._log_limit = FailureLog()
        self.failures: int = 0
        """The number of exceptions so far."""
        self.last_failure: str | None = None
        """The function, the type of the last error and its place."""

    def call(
        self, key: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T | None:
        """Call a function that calls the user's, and return its result; None after an exception.

        Args:
            key: the object that it is called for; empty if there is none.
            function: calls the user's.
            args: its arguments.
            kwargs: its keyword arguments.
        """
        try:
            return function(*args, **kwargs)
        except ENDS_PROGRAM:
            raise
        except BaseException as error:  # noqa: BLE001 - the guard; test tools raise these
            self._failed(key, error)
            return None

    def _failed(self, key: str, error: BaseException) -> None:
        self.failures += 1
        self.last_failure = f"{self._role} {self._name}: {type(error).__name__} {place_of(error)}"
        controller, shown = self._options.controller, self._options.log_exceptions
        unlogged = self._log_limit.due(error, monotonic())
        if unlogged is None:
            return
        _log.error(
            "%s%s: %s %s failed on %s: %s; %s; failure %d%s%s",
            f"controller {controller}: " if controller else "",
            self._source,
            self._role,
            self._name,
            key or "a call without an object",
            error_text(error, shown),
            self._consequence,
            self.failures,
            repeats_text(unlogged),
            Lines(f"\n{trace_text(error)}" if shown == "full" else ""),
        )
