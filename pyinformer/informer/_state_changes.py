"""In what state an informer is: said once at each change, in the log and to whoever asked for it.

What enters is the reflector's state; what leaves is one log line for each change, a journal entry,
and a call of every callback, each behind a fence.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from pyinformer.reflector import ReflectorState
from pyinformer.tasks import check_callable, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("pyinformer.informer")

_LOUD = frozenset({ReflectorState.FORBIDDEN, ReflectorState.ABSENT, ReflectorState.FAILED})


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
class StateChanges:
    """Tells of the states of one informer.

    Args:
        informer: what it follows.
    """

    def __init__(self, informer: str) -> None:
        self._informer = informer
        self._state = ReflectorState.NEW
        self._callbacks: tuple[Callable[[StateChange], object], ...] = ()

    def add(self, callback: Callable[[StateChange], object]) -> Callable[[], None]:
        """Call this at each change from now on; what is returned ends that.

        Raises:
            InvalidHandlerError: it cannot be called.
        """
        check_callable(callback, "callback(change)", 1)
        self._callbacks = (*self._callbacks, callback)
        return lambda: self._remove(callback)

    def _remove(self, callback: Callable[[StateChange], object]) -> None:
        self._callbacks = tuple(one for one in self._callbacks if one is not callback)

    def tell(self, state: ReflectorState, reason: str) -> None:
        """Take note of the state, and say so if it is another one."""
        before, self._state = self._state, state
        if state is before:
            return
        change = StateChange(self._informer, before, state, reason)
        level = logging.WARNING if state in _LOUD else logging.INFO
        why = f": {reason}" if reason else ""
        _log.log(level, "%s: %s, was %s%s", self._informer, state.value, before.value, why)
        for callback in self._callbacks:
            try:
                callback(change)
            except Exception:  # noqa: BLE001 - the user's code
                _log.exception("%s failed on a change of state", name_of(callback))
