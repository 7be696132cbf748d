"""A thread that acts when work outlives its Lease, or when the event loop is blocked until then.

A blocked loop can neither renew nor cancel. One second before another replica may lead, this thread
logs what runs, and ends the process if it is configured to. A process that was stopped until then
gets a second to end its work first: its writes are refused meanwhile, and it can become a standby.
"""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
from typing import TYPE_CHECKING, Final, final

from pyinformer._printable import Lines
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.thread_frames import frame_of

if TYPE_CHECKING:
    from collections.abc import Callable

_log = get_logger(__name__)

MARGIN_SECONDS: Final = 1.0
"""How long before the end of the Lease the thread acts."""

_POLL_SECONDS: Final = 0.1
_LEAST_POLLS: Final = 10  # one second of running time, in which it can end its work
# Then the process ends without the log line: whatever reads the log may be blocked.
_LOG_SECONDS: Final = 0.5
EXIT_STATUS: Final = 70
"""The exit status of a process that the thread ends: EX_SOFTWARE of sysexits.h."""


@final
class Deadline:
    """Decides when work has outlived its Lease; the event loop sets it, a thread polls it."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._polls = 0
        self._lock = threading.Lock()  # work that has ended or was renewed is not reported

    def set(self, at: float | None) -> None:
        """Move it to a time of the lease clock; None while no work runs."""
        with self._lock:
            if at != self._at:
                self._at, self._polls = at, 0

    def is_due(self, now: float) -> bool:
        """Return whether work has outlived it; once for each time that it is set to.

        The second before it is counted in polls, so that the time in which the process is stopped
        does not count.

        Args:
            now: the lease clock.
        """
        with self._lock:
            if self._at is None or now < self._at - MARGIN_SECONDS:
                return False
            self._polls += 1
            if now < self._at or self._polls <= _LEAST_POLLS:
                return False
            self._at = None
            return True


@final
class DeadlineThread:
    """Watches one deadline. Constructing it starts nothing.

    Args:
        lease: the Lease, in the log line.
        clock: the lease clock.
        ends_process: end the process, or only log.
        end: ends the process.
    """

    def __init__(
        self,
        lease: str,
        clock: Callable[[], float],
        *,
        ends_process: bool,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._lease = lease
        self._clock = clock
        self._ends_process = ends_process
        self._end = end
        self._deadline = Deadline()
        self._is_over: Callable[[], bool] = bool  # False
        self._is_left = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self.reports: int = 0
        """How often work outlived its Lease."""

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin to watch the work of the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._thread = threading.Thread(
            target=self._watch, name=f"pyinformer lease {self._lease}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread and join it."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def leave(self, is_over: Callable[[], bool]) -> None:
        """Continue without the loop, since work was abandoned; the thread ends itself.

        Args:
            is_over: returns whether that work has ended; called in the thread.
        """
        self._is_over = is_over
        self._is_left = True

    def set_deadline(self, at: float | None) -> None:
        """Act at a time of the lease clock; None while no work runs."""
        self._deadline.set(at)

    def _watch(self) -> None:
        while not self._stopping.wait(_POLL_SECONDS) and not self._is_over():
            if self._deadline.is_due(self._clock()):
                self._act()
                if self._is_left:
                    return

    def _act(self) -> None:
        """Log what runs and end the process; a blocked log delays that by half a second at most."""
        self.reports += 1
        reporter = threading.Thread(
            target=self._report, name="pyinformer lease report", daemon=True
        )
        reporter.start()
        reporter.join(_LOG_SECONDS)
        if self._ends_process:
            self._end(EXIT_STATUS)

    def _report(self) -> None:
        frame = frame_of(self._loop_thread)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        tasks = [] if self._loop is None else _task_names(self._loop)
        outlook = "this process ends now" if self._ends_process else "end this process"
        _log.critical(
            "work of a term of the Lease %s still runs, or blocks the event loop, %.0f s before"
            " another replica may lead: %s. Tasks: %s. The loop's thread is at\n%s",
            self._lease,
            MARGIN_SECONDS,
            outlook,
            ", ".join(tasks) or "unknown",
            Lines(stack),
        )


def _task_names(loop: asyncio.AbstractEventLoop) -> list[str]:
    try:
        return sorted(task.get_name() for task in asyncio.all_tasks(loop))
    except RuntimeError:  # the set changed too often while it was copied
        return []
