"""The requests of a connection that have no complete response yet, and what each waits for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, final

A_RESPONSE: Final = "a connection or an answer"
"""What a request waits for unless a narrower step is known."""


@final
class PendingRequest:
    """A request without a complete response.

    Args:
        url: the URL of the request, without its query.
        since: when the wait began, by the loop's time.
        step: what the request waits for: a name, a connection, a handshake, a response.
    """

    __slots__ = ("since", "step", "url")

    def __init__(self, url: str, since: float, step: str) -> None:
        self.url = url
        self.since = since
        self.step = step


@final
class PendingRequests:
    """The pending requests of one connection."""

    def __init__(self) -> None:
        self._pending: dict[PendingRequest, None] = {}  # in the order in which they began

    def __len__(self) -> int:
        """Return how many requests have no complete response; safe from any thread."""
        return len(self._pending)

    @contextmanager
    def add(self, url: str, now: float, step: str = A_RESPONSE) -> Iterator[PendingRequest]:
        """Hold a request as pending until the block is left.

        Args:
            url: the URL of the request, without its query.
            now: the loop's time.
            step: what the request waits for.
        """
        request = PendingRequest(url, now, step)
        self._pending[request] = None
        try:
            yield request
        finally:
            del self._pending[request]

    def describe(self, url: str, now: float) -> str:
        """Return what the oldest request for a URL waits for; empty if none is pending.

        Safe from any thread.
        """
        for request in tuple(self._pending):
            if request.url == url:
                waited = max(0.0, now - request.since)
                return f"{url}: waiting for {request.step} for {waited:.1f} s"
        return ""
