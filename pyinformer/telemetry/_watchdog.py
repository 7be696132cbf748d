"""A thread that detects a blocked event loop.

It sleeps until a step of the loop has lasted for a second: a timer of the kernel wakes it. If steps
cannot be seen, it looks at the loop from time to time, less often while the loop does nothing,
and pings it if it does not wait for its sockets. It logs the task that is running (a handler's task
has the handler's name) and the innermost frames of the loop's thread: files, lines and functions,
never values. It logs again when the loop continues.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Final, final

from pyinformer._printable import printable
from pyinformer._runtime.clock import monotonic
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.thread_frames import frame_of
from pyinformer.telemetry._step_timer import StepTimer
from pyinformer.telemetry.metrics import NO_METRICS, Metrics, fenced

_log = get_logger(__name__)

_FRAMES: Final = 4  # the blocking call and its callers
_QUIET_SECONDS: Final = 2.0  # between two looks at a loop that does nothing
_PING_EVERY: Final = 5  # rare looks: C code may block a loop that seems to wait
_QUIET_SHARE: Final = 0.001  # of the time, in which such a loop at most runs
_SELECT: Final = selectors.DefaultSelector.select.__code__
_RUN_ONCE: Final = asyncio.BaseEventLoop._run_once.__code__  # type: ignore[attr-defined]  # noqa: SLF001 - no public name says that a loop waits

_threads: dict[tuple[int, float], _WatchingThread] = {}
"""The threads that run, by the id of the loop and the limit: a loop may have several watchdogs."""
_threads_lock: Final = threading.Lock()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogStatistics:
    """How often and how long the loop was blocked."""

    blocked: int
    """How many times it was blocked for longer than the limit."""
    longest_seconds: float
    """The longest of these; a current block counts up to now."""
    last_culprit: str | None
    """The task that was running during the last one."""
    blocked_seconds: float = 0.0
    """How long the current block has lasted; 0 if the loop is not blocked."""

    def __str__(self) -> str:
        if not self.blocked:
            return "the event loop was never blocked"
        times = "once" if self.blocked == 1 else f"{self.blocked} times"
        now = f", now for {self.blocked_seconds:.1f} s" if self.blocked_seconds else ""
        longest = max(self.longest_seconds, self.blocked_seconds)
        worst = f"{longest:.1f} s at most, last by {self.last_culprit}"
        return printable(f"the event loop was blocked {times}{now}: {worst}")


@final
class Watchdog:
    """Watches one loop from a separate thread, which it shares. Constructing it starts nothing.

    Args:
        limit_seconds: how long a step of the loop may take; after about a second liveness probes
            and lease renewals are affected. client-go has no such check.
        ping_seconds: the interval at which it looks at a blocked loop, and at one whose steps it
            cannot see; at such a loop at growing intervals while it does nothing, up to 2 s.
        metrics: where blocks are counted, while it watches.
    """

    def __init__(
        self,
        *,
        limit_seconds: float = 1.0,
        ping_seconds: float = 0.25,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        self._limit_seconds = limit_seconds
        self._ping_seconds = ping_seconds
        self._thread: _WatchingThread | None = None
        self._has_started = False
        self._blocked = 0
        self._longest_seconds = 0.0
        self._last_culprit: str | None = None
        self._blocked_since: float | None = None
        self.metrics: Metrics = metrics
        """Where blocks are counted."""
        self._measure(NO_METRICS)

    def _measure(self, metrics: Metrics) -> None:
        self._scope = scope = fenced(metrics).scope()
        self._blocks = scope.counter("informer_loop_blocks_total", {})
        self._seconds = scope.counter("informer_loop_blocked_seconds_total", {})

    def measure(self, metrics: Metrics) -> None:
        """Count blocks in these metrics from now on."""
        self.metrics = metrics
        if self._thread is not None:
            self._scope.close()
            self._measure(metrics)

    def start_nowait(self) -> None:
        """Begin to watch the running loop. A second call does nothing."""
        if self._has_started:
            return
        loop, limit_seconds = asyncio.get_running_loop(), self._limit_seconds
        key = id(loop), limit_seconds
        with _threads_lock:
            thread = _threads.get(key)
            if thread is None:
                thread = _WatchingThread(loop, limit_seconds, self._ping_seconds)
                _threads[key] = thread
        self._has_started = True
        self._measure(self.metrics)
        self._thread = thread
        thread.join_nowait(self)

    def stop_nowait(self) -> None:
        """Stop watching; with its last watchdog the thread ends. A second call does nothing."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.leave_nowait(self)
            self._blocked_since = None
            self._scope.close()

    def statistics(self) -> WatchdogStatistics:
        """Return how often and how long the loop was blocked. Safe from any thread."""
        since = self._blocked_since
        return WatchdogStatistics(
            blocked=self._blocked,
            longest_seconds=self._longest_seconds,
            last_culprit=self._last_culprit,
            blocked_seconds=0.0 if since is None else monotonic() - since,
        )

    def on_blocked(self, began_at: float, culprit: str, *, counts: bool) -> None:
        """Record that the loop is blocked; called by the thread.

        Args:
            began_at: since when.
            culprit: the task that is running.
            counts: whether this is the watchdog whose metrics count it.
        """
        self._blocked += 1
        self._last_culprit = culprit
        self._blocked_since = began_at
        if counts:
            self._blocks.inc()

    def on_blocked_still(self, seconds: float) -> None:
        """Record for how long the current block has lasted."""
        self._longest_seconds = max(self._longest_seconds, seconds)

    def on_continued(self, seconds: float, *, counts: bool) -> None:
        """Record that the block has ended after so many seconds."""
        self.on_blocked_still(seconds)
        self._blocked_since = None
        if counts:
            self._seconds.inc(seconds)


@final
class _WatchingThread:
    """The thread that watches one loop, for all watchdogs with the same limit."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit_seconds: float, ping_seconds: float
    ) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._limit_seconds = limit_seconds
        self._ping_seconds = ping_seconds
        self._watchdogs: tuple[Watchdog, ...] = ()
        self._stopping = threading.Event()
        self._answered = threading.Event()
        self._timer = _step_timer(loop, limit_seconds)
        self._base = _base_of_tasks() if self._timer is None else None
        self._thread = threading.Thread(target=self._watch, name="pyinformer watchdog", daemon=True)

    def join_nowait(self, watchdog: Watchdog) -> None:
        """Report to a watchdog from now on."""
        is_first = not self._watchdogs
        self._watchdogs = (*self._watchdogs, watchdog)
        if is_first:
            self._thread.start()

    def leave_nowait(self, watchdog: Watchdog) -> None:
        """Report no longer; with the last watchdog the thread ends, and is joined."""
        self._watchdogs = tuple(one for one in self._watchdogs if one is not watchdog)
        if self._watchdogs:
            return
        self._stopping.set()
        self._answered.set()
        if self._timer is not None:
            self._timer.end()
        self._thread.join()

    def _watch(self) -> None:
        try:
            if self._timer is None:
                self._look()
            else:
                self._wait(self._timer)
        finally:
            if self._timer is not None:
                self._timer.release()
            with _threads_lock:  # the loop is closed, or waits for this thread in leave_nowait()
                del _threads[id(self._loop), self._limit_seconds]

    def _wait(self, timer: StepTimer) -> None:
        """Report each step that lasts."""
        while (began_at := timer.until_long_step()) is not None:
            if self._loop.is_running() and self._ping():
                self._report(began_at)
            timer.set_again(self._limit_seconds)

    def _look(self) -> None:
        """Look at the loop from time to time, and report it if a ping is not answered in time."""
        period_seconds, cpu_seconds = self._ping_seconds, _cpu_clock(self._loop_thread)
        longest_seconds = max(_QUIET_SECONDS, self._ping_seconds)
        used_seconds, rare_looks = cpu_seconds(), 0
        while not self._stopping.wait(period_seconds):
            before, used_seconds = used_seconds, cpu_seconds()
            rare_looks += period_seconds == longest_seconds
            is_sure = self._base is None or rare_looks < _PING_EVERY
            if is_sure and self._is_waiting() and not self._loop.is_closed():
                is_quiet = used_seconds - before < period_seconds * _QUIET_SHARE
                longer_seconds = min(2 * period_seconds, longest_seconds)
                period_seconds = longer_seconds if is_quiet else self._ping_seconds
                continue
            began_at, rare_looks = monotonic(), 0
            if not self._ping():
                return
            if not self._answered.wait(self._limit_seconds):
                self._report(began_at)
                period_seconds = self._ping_seconds
            used_seconds = cpu_seconds()  # what the answer took is not the loop's own work

    def _ping(self) -> bool:
        """Have the loop answer when its current step ends; return whether anything is watched."""
        self._answered.clear()
        try:
            self._loop.call_soon_threadsafe(self._answered.set)
        except RuntimeError:  # the loop is closed
            return False
        return not self._stopping.is_set()  # the event may have been set before the clear()

    def _is_waiting(self) -> bool:
        """Return whether the loop waits for its sockets; False for loops that do not show it."""
        frame = frame_of(self._loop_thread)
        if frame is None:
            return False
        if self._base is not None:
            return self._base == (frame.f_code, frame.f_lasti)
        return (
            frame.f_code is _SELECT
            and frame.f_back is not None
            and frame.f_back.f_code is _RUN_ONCE
        )

    def _report(self, began_at: float) -> None:
        culprit, watchdogs = _running_task(self._loop), self._watchdogs
        counting = {id(one.metrics): one for one in reversed(watchdogs)}.values()
        level = logging.WARNING if self._speaks() else logging.DEBUG
        for one in watchdogs:
            one.on_blocked(began_at, culprit, counts=one in counting)
        _log.log(
            level,
            "the event loop has been blocked for %.1f s by %s, at %s; nothing else runs meanwhile."
            " Wrap a handler that blocks in pyinformer.in_thread; make a reconcile that blocks a"
            " plain function, which runs in a thread",
            self._limit_seconds,
            culprit,
            self._place(),
        )
        while not self._answered.wait(self._ping_seconds):
            for one in watchdogs:
                one.on_blocked_still(monotonic() - began_at)
            if self._loop.is_closed():
                break
        if self._stopping.is_set():
            return
        blocked_seconds = monotonic() - began_at
        for one in watchdogs:
            one.on_continued(blocked_seconds, counts=one in counting)
        text = "the event loop continues after it was blocked for %.1f s by %s"
        _log.log(level, text, blocked_seconds, culprit)

    def _speaks(self) -> bool:
        """Return whether this thread logs: of several for a loop, that with the least limit."""
        with _threads_lock:
            limits = [limit for loop, limit in _threads if loop == id(self._loop)]
        return self._limit_seconds <= min(limits, default=self._limit_seconds)

    def _place(self) -> str:
        """Return the innermost frames of the loop's thread, the innermost first."""
        frame = frame_of(self._loop_thread)
        places: list[str] = []
        while frame is not None and len(places) < _FRAMES:
            code = frame.f_code
            places.append(f"{code.co_filename}:{frame.f_lineno} {code.co_name}")
            frame = frame.f_back
        return " < ".join(places) or "an unknown place"


def _step_timer(loop: asyncio.AbstractEventLoop, limit_seconds: float) -> StepTimer | None:
    """Return a timer for the steps of a loop, or None if they cannot be seen."""
    selector = getattr(loop, "_selector", None)
    if not isinstance(selector, selectors.BaseSelector):
        return None
    try:
        return StepTimer(selector, limit_seconds)
    except (OSError, TypeError, ImportError):
        return None


def _base_of_tasks() -> tuple[CodeType, int] | None:
    """Return where the loop's thread is while a loop of C code, such as uvloop, runs no task.

    None for asyncio's own loop, and outside of a task.
    """
    task = asyncio.current_task()
    frame = getattr(None if task is None else task.get_coro(), "cr_frame", None)
    base = None if frame is None else frame.f_back
    if base is None or base.f_code.co_filename == asyncio.events.__file__:
        return None
    return base.f_code, base.f_lasti


def _cpu_clock(thread: int) -> Callable[[], float]:
    """Return what reads the CPU time of a thread; without such clocks it is always busy."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return monotonic
    clock = time.pthread_getcpuclockid(thread)

    def cpu_seconds() -> float:
        try:
            return time.clock_gettime(clock)
        except OSError:  # that thread has ended; the loop may run in another one
            return monotonic()

    return cpu_seconds


def _running_task(loop: asyncio.AbstractEventLoop) -> str:
    task = asyncio.current_task(loop)
    return "a callback outside of any task" if task is None else task.get_name()
