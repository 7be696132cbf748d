"""A thread that detects a blocked event loop.

It checks the loop a few times a second, and pings a loop that does not wait for its sockets. A ping
would wake a waiting loop, which costs an idle program more than all else. If the loop does not
answer for a second, the thread logs the task that is running (a handler's task has the handler's
name) and the innermost frames of the loop's thread: files, lines and functions, never values. It
logs again when the loop continues.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
import threading
from dataclasses import dataclass
from typing import final
from weakref import WeakKeyDictionary

from pyinformer._printable import printable
from pyinformer._runtime.clock import monotonic
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.thread_frames import frame_of
from pyinformer.telemetry.metrics import NO_METRICS, Metrics, fenced

_log = get_logger(__name__)

_FRAMES = 4  # the blocking call and its callers
_SELECT = selectors.DefaultSelector.select.__code__
_RUN_ONCE = asyncio.BaseEventLoop._run_once.__code__  # type: ignore[attr-defined]  # noqa: SLF001 - no public name says that a loop waits

_reporters: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, Watchdog]] = WeakKeyDictionary()
"""For each loop the watchdog that reports to the log, and to each metrics system, by its id: a loop
may have several watchdogs, and a block is reported once."""


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
    """Watches one loop from a separate thread. Constructing it starts nothing.

    Args:
        limit_seconds: how long the loop may take to answer; after about a second liveness probes
            and lease renewals are affected. client-go has no such check.
        ping_seconds: the interval at which it checks the loop.
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
        self._stopping = threading.Event()
        self._answered = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._blocked = 0
        self._longest_seconds = 0.0
        self._last_culprit: str | None = None
        self._blocked_since: float | None = None
        self._metrics = metrics
        self._measure(NO_METRICS)

    def _measure(self, metrics: Metrics) -> None:
        self._scope = scope = fenced(metrics).scope()
        self._blocks = scope.counter("informer_loop_blocks_total", {})
        self._seconds = scope.counter("informer_loop_blocked_seconds_total", {})

    def start_nowait(self) -> None:
        """Begin to watch the running loop. A second call does nothing."""
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._loop_thread = threading.get_ident()
            self._measure(self._metrics)
            self._thread = threading.Thread(
                target=self._watch, args=(self._loop,), name="pyinformer watchdog", daemon=True
            )
            self._thread.start()

    def stop_nowait(self) -> None:
        """Stop watching and join the thread, which ends at once. A second call does nothing."""
        thread = self._thread
        if thread is not None:
            self._stopping.set()
            self._answered.set()
            thread.join()
            self._report_no_longer()

    def statistics(self) -> WatchdogStatistics:
        """Return how often and how long the loop was blocked. Safe from any thread."""
        since = self._blocked_since
        return WatchdogStatistics(
            blocked=self._blocked,
            longest_seconds=self._longest_seconds,
            last_culprit=self._last_culprit,
            blocked_seconds=0.0 if since is None else monotonic() - since,
        )

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopping.wait(self._ping_seconds):
            if self._is_waiting() and not loop.is_closed():
                continue
            self._answered.clear()
            pinged_at = monotonic()
            try:
                loop.call_soon_threadsafe(self._answered.set)
            except RuntimeError:  # the loop is closed
                return
            if self._stopping.is_set():  # stop_nowait() may have set _answered before the clear()
                return
            if not self._answered.wait(self._limit_seconds):
                self._blocked_since = pinged_at
                self._report(loop, pinged_at)
                self._blocked_since = None

    def _is_waiting(self) -> bool:
        """Return whether the loop waits for its sockets; False for loops that are not asyncio's."""
        frame = frame_of(self._loop_thread)
        if frame is None or frame.f_code is not _SELECT or frame.f_back is None:
            return False
        return frame.f_back.f_code is _RUN_ONCE

    def _reports_to(self, loop: asyncio.AbstractEventLoop, sink: object) -> bool:
        """Return whether this is the watchdog that reports the blocks of a loop to a sink."""
        return _reporters.setdefault(loop, {}).setdefault(id(sink), self) is self

    def _report_no_longer(self) -> None:
        known = {} if self._loop is None else _reporters.get(self._loop, {})
        for sink in [sink for sink, watchdog in known.items() if watchdog is self]:
            del known[sink]
        self._scope.close()

    def _report(self, loop: asyncio.AbstractEventLoop, pinged_at: float) -> None:
        culprit = _running_task(loop)
        self._blocked += 1
        self._last_culprit = culprit
        level = logging.WARNING if self._reports_to(loop, _log) else logging.DEBUG
        counts = self._reports_to(loop, self._metrics)
        if counts:
            self._blocks.inc()
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
            self._longest_seconds = max(self._longest_seconds, monotonic() - pinged_at)
            if loop.is_closed():
                return
        if not self._stopping.is_set():
            blocked_seconds = monotonic() - pinged_at
            self._longest_seconds = max(self._longest_seconds, blocked_seconds)
            if counts:
                self._seconds.inc(blocked_seconds)
            text = "the event loop continues after it was blocked for %.1f s by %s"
            _log.log(level, text, blocked_seconds, culprit)

    def _place(self) -> str:
        """Return the innermost frames of the loop's thread, the innermost first."""
        frame = frame_of(self._loop_thread)
        places: list[str] = []
        while frame is not None and len(places) < _FRAMES:
            code = frame.f_code
            places.append(f"{code.co_filename}:{frame.f_lineno} {code.co_name}")
            frame = frame.f_back
        return " < ".join(places) or "an unknown place"


def _running_task(loop: asyncio.AbstractEventLoop) -> str:
    task = asyncio.current_task(loop)
    return "a callback outside of any task" if task is None else task.get_name()
