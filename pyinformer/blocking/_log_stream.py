"""The log of a container as a plain iterator, for threads that may block."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, final

if TYPE_CHECKING:
    from pyinformer.blocking._sync_proxy import LoopCalls
    from pyinformer.client.cluster import LogStream


@final
class BlockingLogStream:
    """Iterates over a log: `with cluster.logs("shop/web-0") as lines: for line in lines`.

    Made by `cluster.logs()`. `break`, Ctrl-C and `pyinformer.blocking.timeout` may end the loop and
    lose no line. The connection is closed when the `with` is left, or with the runner.

    Args:
        thread: runs the event loop of the cluster.
        asynchronous: the log on that loop.
    """

    def __init__(self, thread: LoopCalls, asynchronous: LogStream) -> None:
        self._thread = thread
        self.asynchronous: LogStream = asynchronous
        """The log, for use on the event loop."""
        self._waiting: deque[str] = deque()

    @property
    def line_count(self) -> int:
        """How many lines have arrived so far."""
        return self.asynchronous.line_count

    @property
    def cut_line_count(self) -> int:
        """How many of them were cut because they were too long."""
        return self.asynchronous.cut_line_count

    def __enter__(self) -> Self:
        self._thread.enter(self.asynchronous)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._waiting.clear()
        self._thread.leave(self.asynchronous, exc_type, exc, traceback)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        while True:
            try:
                return self._waiting.popleft()  # one step: several threads may share a log
            except IndexError:
                if not self._thread.call(self._fill):
                    raise StopIteration from None

    def next_lines(self) -> list[str]:
        """Wait for the next lines: those that have arrived; none at the end of the log.

        Raises:
            LifecycleError: the stream was not entered, or is closed.
            TransportError: the connection was lost before the end of the log; the message says how
                many lines were returned before.
            RequestTimeoutError: the server sent nothing for too long, and is not followed.
        """
        if not self._waiting:
            self._thread.call(self._fill)
        lines: list[str] = []
        with suppress(IndexError):
            while True:
                lines.append(self._waiting.popleft())
        return lines

    async def _fill(self) -> bool:
        """Read lines, and return whether there were any; no interrupted call loses them."""
        lines = await self.asynchronous.next_lines()
        self._waiting.extend(lines)
        return bool(lines)
