"""Throttle at a steady rate, in the order in which they were asked for.

What enters are callers who want to do something costly to others; they leave one after the other, a
burst at once and then so many per second. Whoever is cancelled while waiting takes no turn.
"""

from __future__ import annotations

import asyncio
from typing import final

import anyio

from pyinformer.apimachinery import TokenBucket


@final
class Throttle:
    """Lets callers through; whoever waits is counted.

    Args:
        per_second: how many, once the burst is spent.
        burst: how many at once after a quiet time.
    """

    def __init__(self, *, per_second: float, burst: int) -> None:
        self._bucket = TokenBucket(per_second=per_second, burst=burst)
        # One takes a token or waits for it, the others are in line; there is none for a burst.
        self._line = anyio.Lock(fast_acquire=True)
        self.waiting: int = 0
        """How many wait for their turn."""

    async def acquire(self) -> None:
        """Wait for a turn and take it.

        Cancellation:
            Safe; the turn is the next one's.
        """
        self.waiting += 1
        try:
            async with self._line:
                await self._take_token()
        finally:
            self.waiting -= 1

    async def _take_token(self) -> None:
        """Wait for one token; nobody else has reserved one that is yet to come.

        Were later ones reserved as well, those of a herd that is cancelled could be taken again
        while others still wait for theirs: more at once than the rate says.
        """
        seconds = self._bucket.reserve(asyncio.get_running_loop().time())
        if seconds:
            try:
                await anyio.sleep(seconds)
            except BaseException:
                self._bucket.give_back()
                raise
