"""What a work queue says about itself."""

from __future__ import annotations

from typing import final

from msgspec import Struct


@final
class WorkQueueStatistics(Struct, frozen=True, kw_only=True):
    """A work queue at one moment."""

    name: str
    """The queue's name; empty if it has none."""
    depth: int
    """How many keys wait to be taken."""
    delayed: int
    """How many keys wait for their time."""
    processing: int
    """How many keys were taken and are not done."""
    again: int
    """How many of these come again once they are done."""
    handed_over: int
    """How many calls of other threads have not been looked at yet."""
    peak: int
    """The largest depth that a get has found."""
    waiters: int
    """How many coroutines wait for a key."""
    oldest_seconds: float
    """How long the key at the head has waited, of all priorities; 0.0 if none waits.

    On a loop with asyncio's own time up to 0.05 s too much, or as long as a step of the loop takes:
    keys that are added in quick succession share a reading of the clock. Elsewhere it is exact.
    """
    dropped: int
    """How many waiting keys were dropped: at shutdown, or by `drop_waiting`."""
    failures: int
    """For how many keys the rate limiter remembers failures."""
    depth_by_priority: tuple[tuple[int, int], ...]
    """Priority and depth, highest first; empty for a queue without priorities."""
    is_shutting_down: bool
    """Nothing is added any more."""
