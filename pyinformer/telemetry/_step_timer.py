"""A timer of the kernel that fires only when one step of an event loop lasts.

A step is what asyncio does between two waits for its sockets. A loop that waits costs nothing, and
one that is busy sets the timer about once a second. Linux has such timers; loops that do not wait
in a selector of Python, such as uvloop's, show no steps.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import errno
import os
import sys
import time
from typing import TYPE_CHECKING, Final, final

from pyinformer._runtime.clock import monotonic

if TYPE_CHECKING:
    import selectors
    from collections.abc import Callable

_NANO: Final = 1_000_000_000
_AT_ONCE: Final = 1 / _NANO
_WAITS: Final = float("inf")
_FIRST_SECONDS: Final = (
    0.1  # after a rest, in which steps are taken for the last ones before another
)
_COUNTER_BYTES: Final = 8


@final
class StepTimer:
    """Lets one thread wait for a step that lasts.

    The selector's `select` and `close` are replaced until `release`.

    Args:
        selector: what the loop waits with.
        limit_seconds: how long a step may last.

    Raises:
        OSError: the system has no such timer.
        AttributeError: the selector's methods cannot be replaced.
    """

    __slots__ = (
        "_descriptor",
        "_ends_rest",
        "_is_set",
        "_limit_seconds",
        "_rest_ended_at",
        "_select",
        "_selector",
        "_set",
        "began_at",
        "is_over",
    )

    def __init__(self, selector: selectors.BaseSelector, limit_seconds: float) -> None:
        self.began_at: float = monotonic()
        """When the current step began; infinite while the loop waits."""
        self.is_over: bool = False
        """Whether `end` was called, or the loop was closed."""
        self._rest_ended_at = -_WAITS
        self._ends_rest = False
        self._limit_seconds = limit_seconds
        self._selector = selector
        self._select = selector.select
        self._descriptor, self._set = _kernel_timer()
        self._is_set = True
        close = selector.close

        def close_both() -> None:
            self.end()
            close()

        try:
            vars(selector).update(select=self._wait, close=close_both)
        except TypeError as error:
            os.close(self._descriptor)
            raise AttributeError("select") from error
        self._set(limit_seconds)

    def _wait(self, timeout: float | None = None) -> object:
        before = self.began_at
        if self._ends_rest:
            self._stop_after_rest(before)
        self.began_at = _WAITS
        ready = self._select(timeout)
        self.began_at = now = monotonic()
        if now - before > self._limit_seconds:
            self._ends_rest, self._rest_ended_at = True, now
        if not self._is_set:
            self._is_set = True
            self._set(self._limit_seconds)
        return ready

    def _stop_after_rest(self, step_began_at: float) -> None:
        """Stop the timer behind the first steps after a rest, taken for the last before another.

        In a row of steps, to wake the thread once a second for nothing costs less than to set the
        timer for each of them.
        """
        if step_began_at - self._rest_ended_at < _FIRST_SECONDS:
            self._is_set = False
            self._set(0.0)
        else:
            self._ends_rest = False

    def until_long_step(self) -> float | None:
        """Block this thread until a step lasts.

        Returns:
            When it began; None once this is over.
        """
        while True:
            os.read(self._descriptor, _COUNTER_BYTES)
            if self.is_over:
                return None
            began_at = self.began_at
            left_seconds = began_at + self._limit_seconds - monotonic()
            if left_seconds <= 0.0:
                return began_at
            self.set_again(left_seconds)

    def set_again(self, seconds: float) -> None:
        """Have the timer fire for the current step after a time, or for the next one that lasts."""
        self._is_set = self.began_at != _WAITS
        if self._is_set or self.began_at != _WAITS:  # the step of this moment may have seen it set
            self._is_set = True
            self._set(max(_AT_ONCE, min(seconds, self._limit_seconds)))

    def end(self) -> None:
        """End the wait of the thread, for good."""
        self.is_over = True
        self._set(_AT_ONCE)

    def release(self) -> None:
        """Give the selector its methods back; the thread has ended."""
        replaced = vars(self._selector)
        if replaced.get("select") == self._wait:  # else another tool has replaced it since
            del replaced["select"], replaced["close"]
        self._set = _ignore
        self._is_set = True
        os.close(self._descriptor)


def _ignore(_seconds: float) -> None:
    """Set nothing: the timer is closed."""


def _kernel_timer() -> tuple[int, Callable[[float], None]]:
    """Return a timer's descriptor, and what sets it; 0 stops it.

    Raises:
        OSError: the C library has no such timer.
    """
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "only Linux has timers with a descriptor")
    import ctypes  # takes milliseconds; Python has these timers itself from 3.13 on

    try:
        library = ctypes.PyDLL(None, use_errno=True)
        create, set_time = library.timerfd_create, library.timerfd_settime
    except AttributeError as error:
        raise OSError(errno.ENOSYS, str(error)) from error
    descriptor: int = create(time.CLOCK_MONOTONIC, os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create failed")
    interval_and_value = (ctypes.c_long * 4)()  # each in seconds and nanoseconds; it fires once

    def set_timer(seconds: float) -> None:
        whole = int(seconds)
        interval_and_value[2] = whole
        interval_and_value[3] = int((seconds - whole) * _NANO)
        set_time(descriptor, 0, interval_and_value, None)

    return descriptor, set_timer
