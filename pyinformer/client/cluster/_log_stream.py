"""The log of a container as lines, in bounded memory.

At most one piece of the response and one line are in memory, however long the log and its lines
are. The server has to wait while nothing is read.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self, final

import anyio

from pyinformer._runtime.tasks import BUDGET_SECONDS, Closable
from pyinformer.errors import (
    InvalidArgumentError,
    LifecycleError,
    RequestTimeoutError,
    TransportError,
)
from pyinformer.objects import check_integer, check_seconds

if TYPE_CHECKING:
    from pyinformer.client.cluster._rate_limited_requests import RateLimitedRequests
    from pyinformer.client.transport import Body, Query


@final
class LineCutter:
    """Splits a log into lines, and cuts those that are too long.

    Args:
        max_line_bytes: how much of a line is kept; the rest is dropped as it arrives.
    """

    def __init__(self, max_line_bytes: int) -> None:
        self.line_count: int = 0
        """How many lines it has returned."""
        self.cut_count: int = 0
        """How many of them were cut."""
        self._limit = max_line_bytes
        self._pending = bytearray()
        self._skips = False  # the unfinished line was cut and returned

    @property
    def pending_bytes(self) -> int:
        """How many bytes of an unfinished line are in memory."""
        return len(self._pending)

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that the next bytes of the log complete, and those that they cut."""
        *ended, rest = data.split(b"\n")
        lines: list[str] = []
        for piece in ended:
            self._take(piece, lines)
            if not self._skips:
                lines.append(self._text())
            self._skips = False
        self._take(rest, lines)
        self.line_count += len(lines)
        return lines

    def finish(self) -> list[str]:
        """Return the last line, if it has no line end."""
        lines = [self._text()] if self._pending else []
        self.line_count += len(lines)
        return lines

    def _take(self, piece: bytes, lines: list[str]) -> None:
        if self._skips:
            return
        self._pending += piece
        if len(self._pending) > self._limit:
            del self._pending[self._limit :]
            lines.append(f"{self._text()} [cut at {self._limit} bytes]")
            self.cut_count += 1
            self._skips = True

    def _text(self) -> str:
        text = self._pending.decode("utf-8", "replace").removesuffix("\r")
        self._pending = bytearray()  # releases the memory of a long line
        return text


@final
class LogStream(Closable):
    """Iterates over the lines of a log: `async with cluster.logs("shop/web-0") as lines`.

    Made by `cluster.logs()`. The request is sent when it is entered, and the connection is closed
    when it is left. Lines are texts without their line ends; bytes that are not UTF-8 are replaced
    by U+FFFD. A line that is too long ends with ` [cut at N bytes]`, and its rest is dropped.

    Args:
        requests: sends the request, and waits while the server is busy.
        path: of the log.
        query: the options of the log.
        follow: whether the stream continues with what will be written.
        max_line_bytes: how much of a line is kept.
    """

    def __init__(
        self,
        requests: RateLimitedRequests,
        path: str,
        query: Query,
        *,
        follow: bool,
        max_line_bytes: int,
    ) -> None:
        self._requests = requests
        self._path = path
        self._query = query
        self._follows = follow
        self._cutter = LineCutter(max_line_bytes)
        self._opened: AbstractAsyncContextManager[Body] | None = None
        self._body: Body | None = None
        self._waiting: deque[str] = deque()
        self._turn = anyio.Lock()
        self._turn_began_at = 0.0
        self._has_ended = False

    @property
    def line_count(self) -> int:
        """How many lines have arrived so far."""
        return self._cutter.line_count

    @property
    def cut_line_count(self) -> int:
        """How many of them were cut because they were too long."""
        return self._cutter.cut_count

    async def __aenter__(self) -> Self:
        if self._body is not None:
            raise LifecycleError("a log can be read once: call logs() again")
        self._body = await self._requests.until_served(self._open, is_read=True)
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        await self._give_turn()
        while not self._waiting:
            lines = await self.next_lines()
            if not lines:
                raise StopAsyncIteration
            self._waiting.extend(lines)
        return self._waiting.popleft()

    async def next_lines(self) -> list[str]:
        """Wait for the next lines: those that have arrived; none at the end of the log.

        Raises:
            LifecycleError: the stream was not entered, or is closed.
            TransportError: the connection was lost before the end of the log; the message says how
                many lines were returned before.
            RequestTimeoutError: the server sent nothing for too long, and is not followed.

        Cancellation:
            Safe; a cancelled call takes nothing.
        """
        async with self._turn:
            if self._waiting:
                lines = [*self._waiting]
                self._waiting.clear()
                return lines
            lines = []
            while not lines and not self._has_ended:
                data = await self._read()
                self._has_ended = not data
                lines = self._cutter.feed(data) if data else self._cutter.finish()
            return lines

    async def aclose(self) -> None:
        """Close the connection; a second call does nothing.

        Cancellation:
            Safe; nothing is waited for.
        """
        opened, self._opened = self._opened, None
        self._waiting.clear()
        if opened is not None:
            await opened.__aexit__(None, None, None)

    async def _open(self) -> Body:
        opening = self._requests.stream(self._path, self._query, watch=self._follows)
        body = await opening.__aenter__()
        self._opened = opening
        return body

    async def _read(self) -> bytes:
        if self._body is None:
            raise LifecycleError("enter the stream first: async with cluster.logs(...) as lines")
        if self._opened is None:
            raise LifecycleError("the stream is closed")
        await anyio.lowlevel.checkpoint()  # under a flood no read ever waits
        try:
            data = await self._body.read()
        except TransportError as error:
            raise self._interrupted(error) from error
        self._turn_began_at = asyncio.get_running_loop().time()
        return data

    async def _give_turn(self) -> None:
        """Let other tasks run if lines were taken without a wait for long."""
        now = asyncio.get_running_loop().time()
        if now - self._turn_began_at > BUDGET_SECONDS:
            await anyio.lowlevel.checkpoint()
            self._turn_began_at = asyncio.get_running_loop().time()

    def _interrupted(self, error: TransportError) -> TransportError:
        reason = f"{error.reason}; {self.line_count} lines of the log were read before"
        if self._cutter.pending_bytes:
            reason += f", and {self._cutter.pending_bytes} bytes of a line that has not ended"
        if isinstance(error, RequestTimeoutError):
            return RequestTimeoutError(error.url, reason, waited_seconds=error.waited_seconds)
        return TransportError(error.url, reason)


def log_query(
    *,
    container: str | None,
    follow: bool,
    previous: bool,
    since_seconds: float | None,
    since_time: datetime | None,
    timestamps: bool,
    tail_lines: int | None,
    limit_bytes: int | None,
) -> Query:
    """Return the query of a log.

    Raises:
        InvalidArgumentError: a number is too small, the time has no zone, or both beginnings are
            given.
    """
    query: dict[str, str] = {"container": container} if container else {}
    flags = {"follow": follow, "previous": previous, "timestamps": timestamps}
    query |= {name: "true" for name, is_set in flags.items() if is_set}
    if since_seconds is not None:
        check_seconds("since_seconds", since_seconds, is_positive=True)
        query["sinceSeconds"] = str(math.ceil(since_seconds))
    if since_time is not None:
        query["sinceTime"] = _timestamp(since_time)
        if since_seconds is not None:
            raise InvalidArgumentError("since_time", "must be None if since_seconds is given")
    if tail_lines is not None:
        check_integer("tail_lines", tail_lines, least=0)
        query["tailLines"] = str(tail_lines)
    if limit_bytes is not None:
        check_integer("limit_bytes", limit_bytes)
        query["limitBytes"] = str(limit_bytes)
    return tuple(query.items())


def _timestamp(moment: datetime) -> str:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InvalidArgumentError("since_time", "must be a datetime with a time zone, such as UTC")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
