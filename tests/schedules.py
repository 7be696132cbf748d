"""Schedules of processes that talk to a server, in virtual time: the ground of model checks.

A schedule is drawn from a seed. Messages are delayed and lost, processes are paused and die, and
their clocks run at different rates.
"""

from __future__ import annotations

import heapq
import math
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RATE = 0.02  # how much faster or slower than the true time a clock may run
_WALL_OFFSET_SECONDS = 30.0


class Schedule:
    """What happens when, in true seconds.

    Args:
        seed: of all that is drawn.
        slowest: how long a message may take, in seconds; one of them is drawn.
        faults_end_at: after this time no message is late or lost.
    """

    def __init__(self, seed: int, *, slowest: tuple[float, ...], faults_end_at: float) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self._faults_end_at = faults_end_at
        self._share_late = self.rng.choice((0.0, 0.05, 0.3))
        self._slowest = self.rng.choice(slowest)
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._made = 0

    def at(self, seconds: float, call: Callable[[], None]) -> None:
        """Call a function after true seconds."""
        self._made += 1
        heapq.heappush(self._queue, (self.now + seconds, self._made, call))

    def delay(self) -> float | None:
        """Return how long a message takes; None if it is lost."""
        if self.now > self._faults_end_at or self.rng.random() >= self._share_late:
            return self.rng.uniform(0.001, 0.02)
        return None if self.rng.random() < 0.4 else self.rng.uniform(0, self._slowest)

    def play(self, until: float) -> Iterator[None]:
        """Make the calls in their order, up to a time; yield after each."""
        while self._queue and self._queue[0][0] < until:
            self.now, _, call = heapq.heappop(self._queue)
            call()
            yield


class ScheduledProcess:
    """One process: its clocks, its pauses, its death."""

    def __init__(self, schedule: Schedule, name: str) -> None:
        self._schedule, self.name = schedule, name
        self.rate = 1 + schedule.rng.uniform(-_RATE, _RATE)
        self.wall_offset = schedule.rng.uniform(-_WALL_OFFSET_SECONDS, _WALL_OFFSET_SECONDS)
        self.paused_until = -math.inf
        self.is_dead = False

    def clock(self) -> float:
        """Return the lease clock."""
        return 1000.0 + self.rate * self._schedule.now

    def wall(self) -> float:
        """Return the wall clock."""
        return 1.7e9 + self.wall_offset + self.clock()

    def at(self, seconds: float, call: Callable[[], None]) -> None:
        """Call a function in this process later, when it is neither paused nor dead."""
        schedule = self._schedule

        def due() -> None:
            if self.is_dead:
                return
            if schedule.now < self.paused_until:
                # What waits for a paused process is taken up in any order.
                schedule.at(self.paused_until - schedule.now + schedule.rng.random() * 0.001, due)
            else:
                call()

        schedule.at(seconds, due)
