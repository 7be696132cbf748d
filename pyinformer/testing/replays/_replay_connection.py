"""A connection that answers with a recording: each piece at its time, or at once if that is past.

What the recorded informer ended by itself ends here a moment later, if the replayed informer has
not ended it: a later version may have other reasons.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, final

from pyinformer.cache.recording import error_from
from pyinformer.client.transport import Body, ClusterConfig, Query, status_error_from_object
from pyinformer.errors import InformerError, LifecycleError, ReplayDivergedError
from pyinformer.testing.replays._recorded_exchanges import (
    Exchange,
    Kind,
    RecordedExchanges,
    Refusal,
    Relist,
)

_SERVER: Final = "http://replay.invalid"  # a name that no resolver can find
_REFUSED_SECONDS: Final = 1.0  # a request that is repeated at once would stop virtual time
_LATER_SECONDS: Final = 1.0
_RELIST_SECONDS: Final = 3.0  # the reflector spreads such lists over 2 s
_MAX_REFUSALS: Final = 1_000
_STATUS: Final[dict[Refusal, dict[str, object]]] = {
    Refusal.EXPIRED: {"code": 410, "reason": "Expired", "message": Refusal.EXPIRED.value},
    Refusal.NO_WATCH_LIST: {
        "code": 422,
        "reason": "Invalid",
        "message": Refusal.NO_WATCH_LIST.value,
    },
    Refusal.UNKNOWN: {"code": 403, "reason": "Forbidden", "message": Refusal.UNKNOWN.value},
}


@final
class ReplayConnection:
    """A ConnectionProtocol that answers with the exchanges of a script.

    Args:
        script: the recorded exchanges.
        metadata_only: whether the recorded informer requested only metadata.
        on_relist: called to have an informer list again for a recorded reason.
    """

    def __init__(
        self, script: RecordedExchanges, *, metadata_only: bool, on_relist: Callable[[Relist], None]
    ) -> None:
        self._script = script
        self._metadata_only = metadata_only
        self._on_relist = on_relist
        self._began_at: float | None = None
        self._limit = 0.0
        self._advanced = asyncio.Event()
        self._open: set[_WatchBody] = set()
        self._refusals = 0
        self.divergence: ReplayDivergedError | None = None
        """The first request that the recording has no response for although it has others."""

    @property
    def config(self) -> ClusterConfig:
        """A configuration without a reachable server."""
        return ClusterConfig(server=_SERVER, source="testing.replay")

    def begin(self) -> None:
        """Start the clock of the recording in the running loop; it stands at 0 at first."""
        self._began_at = asyncio.get_running_loop().time()

    @property
    def now(self) -> float:
        """Seconds since the start of the recording."""
        if self._began_at is None:
            return 0.0
        return min(asyncio.get_running_loop().time() - self._began_at, self._limit)

    def advance(self, until: float) -> None:
        """Let the clock of the recording run up to a time; it stood still meanwhile."""
        self._began_at = asyncio.get_running_loop().time() - self.now
        self._limit = max(self._limit, until)
        advanced, self._advanced = self._advanced, asyncio.Event()
        advanced.set()

    @property
    def is_caught_up(self) -> bool:
        """Whether everything up to now was requested and delivered."""
        limit = self._limit
        is_behind = any(one.at <= limit for one in self._script.main())
        return not is_behind and not any(one.is_due(limit) for one in self._open)

    async def until(self, at: float) -> None:
        """Wait until a time of the recording.

        Cancellation:
            Safe.
        """
        while at > self._limit:
            await self._advanced.wait()
        await asyncio.sleep(max(0.0, at - self.now))

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        query: Query = (),
        *,
        watch: bool,
        what: str = "",
        deadline_seconds: float | None = None,
        accept: str = "",
        same_server: bool = False,
    ) -> AsyncIterator[Body]:
        """Answer a list or a watch with the recorded one; its deadline is the recorded one, too.

        Raises:
            InformerError: what the recorded informer met.

        Cancellation:
            Safe.
        """
        del watch, deadline_seconds, accept, same_server
        exchange = await self._exchange("GET", path, query, what or f"GET {path}")
        if isinstance(exchange, bytes):
            yield _WholeBody(exchange)
            return
        if exchange.accepted_at is None:
            await self.wait_for_end(exchange, what)
        else:
            await self.until(exchange.accepted_at)
        if exchange.kind in {Kind.WATCH, Kind.WATCH_LIST} or exchange.lines:
            body = _WatchBody(exchange, self, what)
            self._open.add(body)
            try:
                yield body
            finally:
                self._open.discard(body)
            return
        await self._until_complete(exchange, what)
        yield _WholeBody(exchange.whole_body())

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
        accept: str = "",
    ) -> bytes:
        """Answer a request with the recorded one.

        Raises:
            LifecycleError: it is a write.
            InformerError: what the recorded informer met.

        Cancellation:
            Safe.
        """
        if method != "GET":
            raise LifecycleError(f"a replay has no server to send {method} {path} to: use a World")
        exchange = await self._exchange(method, path, query, f"{method} {path}")
        if isinstance(exchange, bytes):
            return exchange
        await self._until_complete(exchange, f"{method} {path}")
        return exchange.whole_body()

    async def aclose(self) -> None:
        """Do nothing.

        Cancellation:
            It never waits.
        """

    async def _until_complete(self, exchange: Exchange, what: str) -> None:
        if exchange.ended_at is None or exchange.end != "ended":
            await self.wait_for_end(exchange, what)
        else:
            await self.until(exchange.ended_at)

    async def wait_for_end(self, exchange: Exchange, what: str) -> None:
        """Wait for the end of an exchange.

        Raises:
            InformerError: the error that it ended with.

        Cancellation:
            Safe.
        """
        if exchange.ended_at is None:
            await _forever()
            return
        await self.until(exchange.ended_at)
        if exchange.end == "failed" and exchange.error is not None:
            raise error_from(exchange.error, what)
        if exchange.end == "gap":
            raise status_error_from_object(_STATUS[Refusal.EXPIRED], request=what)
        if exchange.end == "closed":
            relist = self._script.relist_of(exchange.path, exchange.ended_at)
            if relist is not None:
                self._on_relist(relist)
            await self.until(exchange.ended_at + (_RELIST_SECONDS if relist else _LATER_SECONDS))

    async def _exchange(self, method: str, path: str, query: Query, what: str) -> Exchange | bytes:
        found = self._script.answer(method, path, query, self.now)
        if isinstance(found, Exchange):
            return found
        if found is Refusal.NOTHING_MORE:
            await self._nothing_more(what)
        if found is Refusal.EXPIRED:
            following = next(self._script.main(path))
            relist = self._script.relist_of(path, following.at)
            if relist is not None:
                self._on_relist(relist)
                await self.until(following.at + _RELIST_SECONDS)
        if found is Refusal.UNKNOWN and self._metadata_only and self._script.kind:
            return b'{"kind":"%s","apiVersion":"v1","metadata":{},"items":[]}' % (
                self._script.kind.encode()
            )
        await asyncio.sleep(_REFUSED_SECONDS if found is Refusal.UNKNOWN else 0.0)
        raise self._refusal(found, what)

    def _refusal(self, refusal: Refusal, what: str) -> InformerError:
        self._refusals += 1
        if self._refusals > _MAX_REFUSALS and self.divergence is None:
            self._diverge(what)
        return status_error_from_object(_STATUS[refusal], request=what)

    async def _nothing_more(self, what: str) -> None:
        following = next(self._script.main(), None)
        if following is not None and self.divergence is None:
            self._diverge(what)
        await _forever()

    def _diverge(self, what: str) -> None:
        following = next(self._script.main(), None)
        expected = "" if following is None else str(following)
        self.divergence = ReplayDivergedError(request=what, at_seconds=self.now, expected=expected)


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()


@final
class _WholeBody:
    """A body that has arrived."""

    def __init__(self, data: bytes) -> None:
        self._rest = data
        self.received_bytes: int = len(data)

    async def read(self) -> bytes:
        """Return all of it, then nothing.

        Cancellation:
            It never waits.
        """
        data, self._rest = self._rest, b""
        return data

    def expire(self, waited_seconds: float) -> None:
        """Do nothing: it has arrived."""

    def close(self) -> None:
        """Do nothing."""


@final
class _WatchBody:
    """The lines of a watch, at their times."""

    def __init__(self, exchange: Exchange, connection: ReplayConnection, what: str) -> None:
        self._exchange = exchange
        self._connection = connection
        self._what = what
        self._next = 0
        self.received_bytes: int = 0

    def is_due(self, limit: float) -> bool:
        """Return whether it has a line of before a time that was not read."""
        lines = self._exchange.lines
        return self._next < len(lines) and lines[self._next][0] <= limit

    async def read(self) -> bytes:
        """Wait for the next line; nothing at the end.

        Raises:
            InformerError: the recorded error.

        Cancellation:
            Safe; a cancelled read takes nothing.
        """
        lines = self._exchange.lines
        if self._next == len(lines):
            await self._connection.wait_for_end(self._exchange, self._what)
            return b""
        at, line = lines[self._next]
        await self._connection.until(at)
        self._next += 1
        self.received_bytes += len(line) + 1
        return line + b"\n"

    def expire(self, waited_seconds: float) -> None:
        """Do nothing: it ends as it was recorded."""

    def close(self) -> None:
        """Do nothing."""
