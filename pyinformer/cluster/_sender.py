"""One request out, one answer in: writes at the agreed pace, and once.

A write waits for its turn, leaves, and is repeated only after a 429, by which the server says that
it did nothing. Whatever else goes wrong is the caller's to judge: nobody knows whether a write was
carried out whose answer was lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import anyio

from pyinformer.apimachinery import TooManyRequestsError
from pyinformer.tasks import LoopOwner, Throttle
from pyinformer.transport import read_bounded

if TYPE_CHECKING:
    from pyinformer.cluster._options import WriteOptions
    from pyinformer.transport import ConnectionProtocol, Query

_MAX_ANSWER_BYTES: Final = 64 << 20
_DEFAULT_RETRY_AFTER_SECONDS: Final = 1.0  # what kube-apiserver says when it says something


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatistics:
    """What came of a Cluster's writes so far."""

    sent: int
    """Requests that left, repetitions included."""

    unchanged: int
    """Writes that were answered with the resource version the object had before."""

    unchanged_by: Mapping[str, int]
    """The same by the name of the controller whose reconcile made them; those that were made
    outside of any reconcile are under the empty name."""

    skipped: int
    """Writes that would have changed nothing and did not leave."""

    retried: int
    """Repetitions after a 429, of reads too."""

    waiting: int
    """Requests that wait at present, for their turn or for a busy server."""

    observer_failures: int
    """How often an observer of writes raised."""


@final
class Sender:
    """Sends the writes of one Cluster.

    Args:
        connection: the server.
        options: how fast, and how patient.
    """

    def __init__(self, connection: ConnectionProtocol, options: WriteOptions) -> None:
        self._connection = connection
        self._options = options
        rate = options.writes_per_second
        self._throttle = None if rate is None else Throttle(per_second=rate, burst=options.burst)
        self.loop: LoopOwner = LoopOwner("the cluster")
        """The event loop of its first request."""
        self.sent: int = 0
        self.retried: int = 0
        self._busy = 0  # those that give a busy server time

    @property
    def waiting(self) -> int:
        """Requests that wait at present, for their turn or for a busy server."""
        return self._busy + (0 if self._throttle is None else self._throttle.waiting)

    async def send(
        self, method: str, path: str, *, query: Query, body: bytes, content_type: str
    ) -> bytes:
        """Send a write and return its answer.

        Raises:
            APIStatusError: the server refused; TooManyRequestsError if it still was busy when
                patience ended.
            TransportError: the answer did not come; whether the write was carried out is unknown.

        Cancellation:
            A write that waits does not leave; of one that has left it is unknown whether it was
            carried out.
        """

        async def attempt() -> bytes:
            """Let the write leave, when it is its turn."""
            if self._throttle is not None:
                await self._throttle.acquire()
            self.sent += 1
            return await self._connection.request(
                method, path, query=query, body=body, content_type=content_type
            )

        return await self._patiently(attempt)

    async def read(self, path: str, accept: str = "") -> bytes:
        """Send a read, which needs no turn, and return its answer.

        Args:
            path: from the server's root.
            accept: the representations that can be read; empty for plain JSON.

        Raises:
            APIStatusError: the server refused.
            TransportError: the answer did not come.

        Cancellation:
            Safe.
        """

        async def attempt() -> bytes:
            """Ask once."""
            if not accept:
                return await self._connection.request("GET", path)
            async with self._connection.stream(path, watch=False, accept=accept) as body:
                return await read_bounded(body, _MAX_ANSWER_BYTES)

        return await self._patiently(attempt)

    async def _patiently(self, attempt: Callable[[], Awaitable[bytes]]) -> bytes:
        self.loop.claim()
        left_seconds, left_retries = self._options.retry_timeout_seconds, self._options.retry_limit
        while True:
            try:
                return await attempt()
            except TooManyRequestsError as error:
                seconds = error.retry_after_seconds
                seconds = _DEFAULT_RETRY_AFTER_SECONDS if seconds is None else seconds
                left_seconds -= seconds
                left_retries -= 1
                if left_seconds < 0 or left_retries < 0:
                    raise
            await self._sleep(seconds)
            self.retried += 1

    async def _sleep(self, seconds: float) -> None:
        self._busy += 1
        try:
            await anyio.sleep(seconds)
        finally:
            self._busy -= 1
