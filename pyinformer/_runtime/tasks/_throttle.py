"""A rate limit that callers wait for, in the order in which they arrive."""

from __future__ import annotations

import asyncio
from typing import final

import anyio

from pyinformer._runtime.tasks._token_bucket import TokenBucket


@final
class Throttle:
    """A token bucket that callers wait for in line.

    Args:
        per_second: how many callers pass per second, once the burst is spent.
        burst: how many pass at once after a quiet time.
    """

    def __init__(self, *, per_second: float, burst: int) -> None:
        self._bucket = TokenBucket(per_second=per_second, burst=burst)
        # One caller takes a token or waits for it, the others are in line; a burst does not wait.
        self._line = anyio.Lock(fast_acquire=True)
        self.waiting: int = 0
        """How many callers wait."""

    async def acquire(self) -> None:
        """Wait for a token and take it.

        Cancellation:
            Safe; the next caller takes the token.
        """
        self.waiting += 1
        try:
            async with self._line:
                await self._take_token()
        finally:
            self.waiting -= 1

    async def _take_token(self) -> None:
        """Wait for one token; only the first in line ever reserves one in advance.

        If all callers did, the tokens of a crowd that is cancelled could be taken again while other
        callers still wait for theirs: more at once than the rate allows.
        """
        seconds = self._bucket.reserve(asyncio.get_running_loop().time())
        if seconds:
            try:
                await anyio.sleep(seconds)
            except BaseException:
                self._bucket.give_back()
                raise
