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
import threading
import time
from typing import TYPE_CHECKING, Final, final

from pyinformer._runtime.clock import monotonic

if TYPE_CHECKING:
    import selectors
    from collections.abc import Callable

_NANO: Final = 1_000_000_000
_AT_ONCE: Final = 1 / _NANO
_WAITS: Final = float("inf")
_FIRST_SECONDS: Final = 0.1  # steps so soon after a rest are taken for the last before another
_COUNTER_BYTES: Final = 8
_MOST_SECONDS: Final = 1e9  # what is infinite for a timer


@final
class StepTimer:
    """Lets one thread wait for a step that lasts.

    The selector's `select` and `close` are replaced until `release`.

    Args:
        selector: what the loop waits with.
        limit_seconds: how long a step may last.

    Raises:
        OSError: the system has no such timer.
        TypeError: the selector's methods cannot be replaced.
        ValueError: the limit is not a number.
    """

    __slots__ = (
        "_before",
        "_close",
        "_descriptor",
        "_ends_rest",
        "_is_set",
        "_limit_seconds",
        "_lock",
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
        self._limit_seconds = max(_AT_ONCE, limit_seconds)
        self._rest_ended_at = -_WAITS
        self._ends_rest = False
        self._selector = selector
        replaced = vars(selector)
        self._before = replaced.get("select"), replaced.get("close")
        self._select: Callable[[float | None], object] = selector.select
        self._close: Callable[[], None] = selector.close
        self._lock = threading.Lock()  # of what sets the timer, from both threads
        self._descriptor, self._set = _kernel_timer()
        try:
            self._set(self._limit_seconds)
        except ValueError:
            os.close(self._descriptor)
            raise
        self._is_set = True
        replaced.update(select=self._wait, close=self._close_both)

    def _close_both(self) -> None:
        self.end()
        self._close()

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
            self.set_again(self._limit_seconds)
        return ready

    def _stop_after_rest(self, step_began_at: float) -> None:
        """Stop the timer behind the first steps after a rest, taken for the last before another.

        In a row of steps, to wake the thread once a second for nothing costs less than to set the
        timer for each of them.
        """
        if step_began_at - self._rest_ended_at >= _FIRST_SECONDS:
            self._ends_rest = False
            return
        with self._lock:
            if not self.is_over:
                self._is_set = False
                self._set(0.0)

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
        with self._lock:
            if self.is_over:
                self._set(_AT_ONCE)
                return
            self._is_set = self.began_at != _WAITS
            # A step that begins in between may have taken it as set.
            if self._is_set or self.began_at != _WAITS:
                self._is_set = True
                self._set(max(_AT_ONCE, min(seconds, self._limit_seconds)))

    def end(self) -> None:
        """End the wait of the thread, for good."""
        with self._lock:
            self.is_over = True
            self._set(_AT_ONCE)

    def release(self) -> None:
        """Give the selector its methods back; the thread waits no longer."""
        with self._lock:
            self.is_over = self._is_set = True
            self._set = _ignore
            os.close(self._descriptor)
        replaced = vars(self._selector)
        if replaced.get("select") == self._wait:
            for name, before in zip(("select", "close"), self._before, strict=True):
                if before is None:
                    del replaced[name]
                else:
                    replaced[name] = before
            return
        above = replaced.get("select")  # another tool, or the timer of another limit
        while isinstance(owner := getattr(above, "__self__", None), StepTimer):
            above = owner.skip(self._wait, self._before, self._select, self._close)

    def skip(
        self,
        below: Callable[..., object],
        before: tuple[object, object],
        select: Callable[[float | None], object],
        close: Callable[[], None],
    ) -> Callable[..., object] | None:
        """Call no longer what is below, if that is the one; else return what it is."""
        if self._select != below:
            return self._select
        self._before, self._select, self._close = before, select, close
        return None


def _ignore(_seconds: float) -> None:
    """Set nothing: the timer is closed."""


def _kernel_timer() -> tuple[int, Callable[[float], None]]:
    """Return a timer's descriptor, and what sets it; 0 stops it.

    Raises:
        OSError: the C library has no such timer.
    """
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "only Linux has timers with a descriptor")
    import ctypes  # takes milliseconds; `os` has these timers from Python 3.13 on

    try:
        library = ctypes.PyDLL(None, use_errno=True)
        create, set_time = library.timerfd_create, library.timerfd_settime
    except AttributeError as error:
        raise OSError(errno.ENOSYS, str(error)) from error
    descriptor: int = create(time.CLOCK_MONOTONIC, os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create failed")
    kind = ctypes.c_long * 4  # the interval and the value, each in seconds and nanoseconds

    def set_timer(seconds: float) -> None:
        bounded = min(seconds, _MOST_SECONDS)
        whole = int(bounded)
        nanos = int((bounded - whole) * _NANO)
        set_time(descriptor, 0, kind(0, 0, whole, nanos), None)  # without an interval: once

    return descriptor, set_timer
