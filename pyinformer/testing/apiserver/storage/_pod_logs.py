"""What the containers of pods have written; the kit is their kubelet.

A log belongs to one pod, so a new pod of the same name begins with an empty one. Any thread may
write and read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import final


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line, or a part of a line that has not ended, and when it was written."""

    text: bytes
    timestamp: str
    begins: bool
    """Whether it is the beginning of a line."""


@final
class ContainerLog:
    """The log of one container."""

    def __init__(self) -> None:
        self.is_over: bool = False
        """Whether nothing more will be written."""
        self._lines: list[LogLine] = []
        self._lock = threading.Lock()
        self._wakers: set[Callable[[], None]] = set()

    def write(self, text: bytes, timestamp: str) -> None:
        """Append a text."""
        with self._lock:
            for part in text.splitlines(keepends=True):
                begins = not self._lines or self._lines[-1].text.endswith(b"\n")
                self._lines.append(LogLine(part, timestamp, begins))
        self._wake()

    def end(self) -> None:
        """Record that nothing more will be written."""
        self.is_over = True
        self._wake()

    def lines(self, start: int = 0) -> list[LogLine]:
        """Return the lines from a position on."""
        with self._lock:
            return self._lines[start:]

    def follow(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call a function after each change, in the thread that makes it.

        Returns:
            A function that ends this.
        """
        with self._lock:
            self._wakers.add(wake)
        return lambda: self._wakers.discard(wake)

    def _wake(self) -> None:
        with self._lock:
            wakers = tuple(self._wakers)
        for wake in wakers:
            wake()


@final
class PodLogs:
    """The logs of all containers, by the uid of the pod and the name of the container."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: dict[tuple[str, str], ContainerLog] = {}
        self._previous: dict[tuple[str, str], ContainerLog] = {}

    def of(self, uid: str, container: str) -> ContainerLog:
        """Return the log of a container, which may be empty."""
        with self._lock:
            return self._logs.setdefault((uid, container), ContainerLog())

    def previous(self, uid: str, container: str) -> ContainerLog | None:
        """Return the log of the run of a container before its last restart, if there was one."""
        return self._previous.get((uid, container))

    def restart(self, uid: str, container: str) -> None:
        """End the log of a container; what it writes next is another log."""
        with self._lock:
            ended = self._logs.pop((uid, container), ContainerLog())
            self._previous[uid, container] = ended
        ended.end()

    def end_pod(self, uid: str) -> None:
        """End and forget the logs of a pod."""
        with self._lock:
            gone = [self._logs.pop(one) for one in tuple(self._logs) if one[0] == uid]
            for one in tuple(self._previous):
                if one[0] == uid:
                    del self._previous[one]
        for log in gone:
            log.end()
