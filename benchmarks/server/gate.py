"""When watches continue, when each update was sent, and how many requests the server got.

A watch obeys only what is ordered after it was opened.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

_WAIT_SECONDS = 60.0
_HANG_UP_POLL_SECONDS = 0.05  # a watch whose client is gone must not count as one that waits


class Signal(Enum):
    """What ended a watch's wait."""

    RELEASED = auto()
    EXPIRED = auto()
    GONE = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Visit:
    """What had been ordered when a watch was opened."""

    releases: int
    expiries: int


class Gate:
    """Hold watches back until the measurement wants their updates, or their end."""

    def __init__(self) -> None:
        """Start without open watches."""
        self._changed = threading.Condition()
        self._releases = self._expiries = 0
        self._waiting = 0
        self._open: list[Visit] = []

    @contextlib.contextmanager
    def visit(self) -> Iterator[Visit]:
        """Count a watch as open."""
        with self._changed:
            visit = Visit(self._releases, self._expiries)
            self._open.append(visit)
        try:
            yield visit
        finally:
            with self._changed:
                self._open.remove(visit)

    def wait_for_release(self, visit: Visit, client: socket.socket) -> Signal:
        """Block a watch that has updates to send until something happens to it."""
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            try:
                return self._wait(visit, client, releases=visit.releases)
            finally:
                self._waiting -= 1

    def wait_for_end(self, visit: Visit, client: socket.socket) -> Signal:
        """Block a watch that has nothing more to send."""
        with self._changed:
            return self._wait(visit, client, releases=None)

    def wait_for_watch(self) -> bool:
        """Block until a watch waits; false if none came within a minute."""
        with self._changed:
            return self._changed.wait_for(lambda: self._waiting > 0, timeout=_WAIT_SECONDS)

    @property
    def was_released(self) -> bool:
        """Whether updates were sent to a watch that is still open."""
        with self._changed:
            return any(visit.releases < self._releases for visit in self._open)

    def release(self) -> None:
        """Let all waiting watches send their updates."""
        with self._changed:
            self._releases += 1
            self._changed.notify_all()

    def expire(self) -> int:
        """End all open watches, and return how many they are."""
        with self._changed:
            self._expiries += 1
            self._changed.notify_all()
            return len(self._open)

    def _wait(self, visit: Visit, client: socket.socket, *, releases: int | None) -> Signal:
        while True:
            if self._expiries > visit.expiries:
                return Signal.EXPIRED
            if releases is not None and self._releases > releases:
                return Signal.RELEASED
            if not self._changed.wait(_HANG_UP_POLL_SECONDS) and has_hung_up(client):
                return Signal.GONE


class Journal:
    """Counters, and the instants at which updates were sent."""

    def __init__(self, *, updates: int) -> None:
        """Begin empty."""
        self._lock = threading.Lock()
        self._counts = Counter[str](lists=0, watch_lists=0, watches=0, bytes_sent=0)
        self._updates = updates
        self._send_times = array("q")

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self._counts[name] += amount

    def counts(self) -> dict[str, int]:
        """Return `lists` (pages), `watch_lists`, `watches` and `bytes_sent`, all since the start.

        Warm-ups and the measurement's own requests are not among them.
        """
        with self._lock:
            return dict(self._counts)

    def begin_updates(self) -> array[int]:
        """Return where a watch writes its send times, by number; the latest watch's are kept."""
        self._send_times = array("q", bytes(8 * self._updates))
        return self._send_times

    def note_sent(self, times: array[int], first: int, stop: int) -> None:
        """Write that updates `first` to `stop` are sent now."""
        now = time.monotonic_ns()
        for number in range(first, stop):
            times[number] = now

    def send_times(self) -> list[int]:
        """Return when each update was sent, in nanoseconds of CLOCK_MONOTONIC; 0: not yet."""
        return self._send_times.tolist()


class Pace:
    """Let a fixed number of updates pass each second, or all at once."""

    def __init__(self, per_second: float) -> None:
        """Begin now; 0 lets all pass."""
        self._interval_seconds = 1 / per_second if per_second else 0.0
        self._next_at = time.perf_counter()

    def wait(self) -> None:
        """Block until the next may pass; one that is late is not waited for."""
        if self._interval_seconds:
            pause = self._next_at - time.perf_counter()
            if pause > 0:
                time.sleep(pause)
            self._next_at += self._interval_seconds


def has_hung_up(client: socket.socket) -> bool:
    """Return whether the client has closed; it sends nothing more on a watch's connection."""
    readable, _, _ = select.select([client], [], [], 0)
    if not readable:
        return False
    if not isinstance(client, ssl.SSLSocket):
        return not client.recv(1, socket.MSG_PEEK)
    client.settimeout(0)
    try:
        return not client.recv(1)
    except ssl.SSLWantReadError:  # a record of TLS itself
        return False
    finally:
        client.settimeout(None)
