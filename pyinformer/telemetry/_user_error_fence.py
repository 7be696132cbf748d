"""Keeps the errors of a user's metrics or tracing system away from what is measured or traced."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, final
from weakref import WeakKeyDictionary

from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer.errors import InvalidTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyinformer._runtime.escaping_loggers import Logger

_R = TypeVar("_R")


@final
class TelemetryFence:
    """Drops and counts the errors of one metrics or tracing system, and logs the first.

    Args:
        system: the user's.
        log: the logger of the folder that calls it.
        loss: what an error costs, for the log.
    """

    __slots__ = ("_kind", "_log", "_loss", "failures")

    def __init__(self, system: object, *, log: Logger, loss: str) -> None:
        self._kind = type(system).__name__
        self._log = log
        self._loss = loss
        self.failures: int = 0
        """How often the system raised."""

    def call(self, what: str, function: Callable[[], _R], otherwise: _R) -> _R:
        """Return what a function of the system returns, or `otherwise` if it raises.

        Args:
            what: the method or the metric, for the log.
            function: calls the system.
            otherwise: what to return after an error.
        """
        try:
            return function()
        except ENDS_PROGRAM:
            raise
        except BaseException as error:  # noqa: BLE001 - a user's metrics or tracing system
            self.failed(what, error)
            return otherwise

    def failed(self, what: str, error: BaseException) -> None:
        """Count an error, and log the first."""
        self.failures += 1
        if self.failures == 1:
            self._log.error(
                "%s raised %s in %s: %s; later errors are not logged",
                self._kind,
                type(error).__name__,  # its text may quote a label or an attribute
                what,
                self._loss,
            )


@final
class TelemetryFences:
    """The fences of all metrics systems, or of all tracing systems.

    Args:
        log: the logger of the folder that calls them.
        loss: what an error costs, for the log.
    """

    def __init__(self, log: Logger, *, loss: str) -> None:
        self._log = log
        self._loss = loss
        self._fences: WeakKeyDictionary[object, TelemetryFence] = WeakKeyDictionary()

    def of(self, system: object) -> TelemetryFence:
        """Return the fence of a system: all its owners share it, so an error is logged once."""
        fence = TelemetryFence(system, log=self._log, loss=self._loss)
        try:
            return self._fences.setdefault(system, fence)
        except TypeError:  # not hashable, or without weak references
            return fence


def check_methods(argument: str, system: object, methods: Sequence[str]) -> None:
    """Check that a user's metrics or tracing system has its methods.

    Raises:
        InvalidTypeError: it lacks one.
    """
    if not all(_has(system, name) for name in methods):
        *most, last = methods
        reason = f"must have {', '.join(most)} and {last}, and {type(system).__name__} has not"
        raise InvalidTypeError(argument, reason)


def _has(system: object, name: str) -> bool:
    """Return whether there is a method; an attribute that raises is fenced when it is used."""
    try:
        return callable(getattr(system, name, None))
    except ENDS_PROGRAM:
        raise
    except BaseException:  # noqa: BLE001 - as above
        return True
