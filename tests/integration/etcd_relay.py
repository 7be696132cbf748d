"""A relay between a kube-apiserver and its etcd that holds back what etcd's watches send.

It reads the frames of HTTP/2 and no more. Of the streams of a connection only watches stay open for
longer than a moment; a read or a write ends at once. While the relay holds, the data of streams
that were open before waits, and everything else passes.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Self, final

from pyinformer.errors import LifecycleError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_PREFACE_BYTES = 24  # `PRI * HTTP/2.0 ...`, which a client sends first
_HEAD_BYTES = 9
_DATA, _HEADERS = 0, 1
_WATCH_SECONDS = 1.0  # a stream that is open for that long is a watch


@final
class _Link:
    """One connection of a kube-apiserver."""

    def __init__(self) -> None:
        self.opened_at: dict[int, float] = {}
        self.held: list[bytes] = []


@final
class EtcdRelay:
    """The relay, in a thread of its own.

    Args:
        target: returns etcd's port; called at each connection.
    """

    def __init__(self, target: Callable[[], int]) -> None:
        self.port = 0
        self._target = target
        self._holds = False
        self._loop = asyncio.new_event_loop()
        self._links: dict[_Link, asyncio.StreamWriter] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="etcd-relay", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def held(self) -> int:
        """How many frames wait."""
        return sum(len(link.held) for link in self._links)

    def hold(self) -> None:
        """Keep from the kube-apiserver what etcd's watches send from now on."""
        self._holds = True

    def release(self) -> None:
        """Pass on what was held back, and everything after it."""
        self._loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        self._holds = False
        for link, writer in self._links.items():
            writer.write(b"".join(link.held))
            link.held.clear()

    def _run(self) -> None:
        self._loop.run_until_complete(self._listen())
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_etcd, to_etcd = await asyncio.open_connection("127.0.0.1", self._target())
        except (OSError, LifecycleError):  # a kube-apiserver outlives its etcd for a moment
            writer.transport.abort()
            return
        link = _Link()
        self._links[link] = writer
        ways = [
            asyncio.create_task(self._pass_on(link, reader, to_etcd)),
            asyncio.create_task(self._pass_back(link, from_etcd, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._links[link]
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for one in (writer, to_etcd):
                one.transport.abort()
                with contextlib.suppress(OSError):
                    await one.wait_closed()

    async def _pass_on(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(await reader.readexactly(_PREFACE_BYTES))
        while True:
            kind, stream, frame = await _frame(reader)
            if kind == _HEADERS:
                link.opened_at.setdefault(stream, self._loop.time())
            writer.write(frame)

    async def _pass_back(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            kind, stream, frame = await _frame(reader)
            opened_at = link.opened_at.get(stream, self._loop.time())
            is_watch = self._loop.time() - opened_at > _WATCH_SECONDS
            if self._holds and kind == _DATA and is_watch:
                link.held.append(frame)
            else:
                writer.write(frame)


async def _frame(reader: asyncio.StreamReader) -> tuple[int, int, bytes]:
    """Read a frame; return its type, its stream and all of its bytes."""
    head = await reader.readexactly(_HEAD_BYTES)
    body = await reader.readexactly(int.from_bytes(head[:3]))
    return head[3], int.from_bytes(head[5:9]) & 0x7FFFFFFF, head + body
