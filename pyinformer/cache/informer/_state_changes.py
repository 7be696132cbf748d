"""The state of an informer, reported once per change: to callbacks and as one log line.

A change that needs attention is logged at INFO or WARNING: a cache is followed, is loaded again, or
has a trouble that lasts. A trouble that the next attempt ends, such as a reconnect, is logged at
DEBUG, because a thousand informers have one every second.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from pyinformer._runtime.clock import monotonic
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import (
    FailureLog,
    check_plain,
    error_text,
    name_of,
    refuse_awaitable,
    repeats_text,
)
from pyinformer.cache.reflector import ReflectorState

if TYPE_CHECKING:
    from collections.abc import Callable

_log = get_logger(__name__)

_LOUD = frozenset({ReflectorState.POLLING, ReflectorState.FORBIDDEN, ReflectorState.FAILED})
_LASTING_ATTEMPTS = 2  # one failed attempt is a reconnect; from the second on it is an outage


@final
@dataclass(frozen=True, slots=True)
class StateChange:
    """An informer's step from one state to another."""

    informer: str
    """What it follows."""
    before: ReflectorState
    now: ReflectorState
    reason: str
    """Why; empty if all is well."""


@final
class StateCallbacks:
    """The callbacks of one informer, shared by all of its namespaces."""

    def __init__(self) -> None:
        self.all: tuple[Callable[[StateChange], object], ...] = ()
        """Never changed, only replaced."""
        self.failures: FailureLog = FailureLog()

    def add(self, callback: Callable[[StateChange], object]) -> Callable[[], None]:
        """Call a function at each change from now on; return a function that ends it.

        Raises:
            InvalidTypeError: it cannot be called, or is asynchronous.
        """
        check_plain(callback, "callback(change)", 1)
        self.all = (*self.all, callback)
        return lambda: self._remove(callback)

    def _remove(self, callback: Callable[[StateChange], object]) -> None:
        self.all = tuple(one for one in self.all if one is not callback)


@final
class StateChangeReporter:
    """Reports the state of one informer, or of one of its namespaces.

    Args:
        informer: what it follows.
        callbacks: called at each change; None for no callbacks.
    """

    def __init__(
        self,
        informer: str,
        *,
        callbacks: StateCallbacks | None = None,
    ) -> None:
        self._informer = informer
        self._callbacks = callbacks or StateCallbacks()
        self._state = ReflectorState.NEW
        self._logged = ReflectorState.NEW
        self._troubles: set[ReflectorState] = set()
        """The troubles logged since all was well: each is logged once, even if they alternate."""

    def report(self, state: ReflectorState, reason: str, *, attempts: int = 0) -> None:
        """Record the state, and report it if it has changed.

        Args:
            state: the state of the reflector.
            reason: why; a watch with a reason was not accepted yet.
            attempts: how many have failed since the last success.
        """
        before, self._state = self._state, state
        self._log_change(before, reason, attempts)
        if state is before:
            return
        change = StateChange(self._informer, before, state, reason)
        for callback in self._callbacks.all:
            try:
                refuse_awaitable(callback(change), "callback")
            except ENDS_PROGRAM:
                raise
            except BaseException as error:  # noqa: BLE001 - the user's code
                unlogged = self._callbacks.failures.due(error, monotonic())
                if unlogged is not None:
                    _log.error(
                        "%s failed on a change of state of %s: %s%s",
                        name_of(callback),
                        self._informer,
                        error_text(error),
                        repeats_text(unlogged),
                    )

    def _log_change(self, before: ReflectorState, reason: str, attempts: int) -> None:
        state, level = self._state, logging.DEBUG
        if state is not self._logged and self._lasts(reason, attempts):
            before, self._logged = self._logged, state
            # The reflector has logged an absence.
            if state not in self._troubles and state is not ReflectorState.ABSENT:
                # The refused right that causes polling has been logged.
                is_known = state is ReflectorState.POLLING and (
                    ReflectorState.FORBIDDEN in self._troubles
                )
                is_loud = state in _LOUD and not is_known
                level = logging.WARNING if is_loud else logging.INFO
            if state is ReflectorState.WATCHING:
                self._troubles.clear()
            else:
                self._troubles.add(state)
        elif state is before:
            return
        why = f": {reason}" if reason else ""
        _log.log(level, "%s: %s, was %s%s", self._informer, state.value, before.value, why)

    def _lasts(self, reason: str, attempts: int) -> bool:
        match self._state:
            case ReflectorState.WATCHING:
                return not reason
            case ReflectorState.WAITING:
                return attempts >= _LASTING_ATTEMPTS
            case ReflectorState.LOADING:
                return self._logged is ReflectorState.WATCHING  # it had everything
            case ReflectorState.PROVING:
                return False
        return True
