"""Missing rights: the reflectors of one cluster connection learn soon that they are granted.

A right is granted by a person or a deployment, often for several resources at once, and nothing
announces it. So one of the refused reflectors tries again every few seconds, in turn, and the first
that is no longer refused wakes the others. However many there are, they send hardly more requests
than one would.
"""

from __future__ import annotations

import asyncio
from typing import Final, final

import anyio

_TURN_SECONDS: Final = 5.0  # a refused request costs the server only its authorization


@final
class ForbiddenRetries:
    """Lets the reflectors of one cluster connection wait for missing rights."""

    def __init__(self) -> None:
        self._granted = anyio.Event()
        self._last_turn_at = float("-inf")

    def seconds_until_turn(self, seconds: float, now: float) -> float:
        """Take a turn, and return the seconds until then.

        Args:
            seconds: how long to wait if all turns before that are taken.
            now: the loop's time.
        """
        turn_at = max(now, self._last_turn_at) + _TURN_SECONDS
        if turn_at >= now + seconds:
            return seconds
        self._last_turn_at = turn_at
        return turn_at - now

    def granted(self) -> None:
        """Wake all that wait: a reflector that was refused is so no longer."""
        self._last_turn_at = float("-inf")
        self._granted.set()
        self._granted = anyio.Event()

    async def wait(self, seconds: float) -> None:
        """Wait for a time, for the next turn, or until another reflector is no longer refused.

        Args:
            seconds: how long to wait at most.

        Cancellation:
            Safe.
        """
        now = asyncio.get_running_loop().time()
        with anyio.move_on_after(self.seconds_until_turn(seconds, now)):
            await self._granted.wait()
