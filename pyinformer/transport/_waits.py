"""What the requests of a connection wait for at this moment, in words.

What enters are the steps of each request on its way to an answer; what leaves is a sentence for
somebody who waits and wants to know for what: a name, a connection, a handshake, an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final


@final
class Wait:
    """A request that has no answer yet, or not all of it."""

    __slots__ = ("since", "step", "url")

    def __init__(self, url: str, now: float) -> None:
        """Begin to wait.

        Args:
            url: what is asked for, without its query.
            now: the loop's time.
        """
        self.url = url
        self.since = now
        self.step: str = "a connection or an answer"


@final
class Waits:
    """The requests of one connection that have no answer yet, or not all of it."""

    def __init__(self) -> None:
        self._waits: dict[Wait, None] = {}  # in the order in which they began

    @contextmanager
    def begin(self, url: str, now: float, step: str = "") -> Iterator[Wait]:
        """Note a request until the block is left.

        Args:
            url: the URL of the request, without its query.
            now: the loop's time.
            step: what the request waits for; empty for a connection or an answer.
        """
        wait = Wait(url, now)
        wait.step = step or wait.step
        self._waits[wait] = None
        try:
            yield wait
        finally:
            del self._waits[wait]

    def words(self, url: str, now: float) -> str:
        """Return what the oldest request for a URL waits for; empty if none does.

        Safe from any thread.
        """
        for wait in tuple(self._waits):
            if wait.url == url:
                return f"{url}: waiting for {wait.step} for {max(0.0, now - wait.since):.1f} s"
        return ""
