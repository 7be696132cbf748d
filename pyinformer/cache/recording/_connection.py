"""A connection that records the requests and responses that pass through it.

It is put in place of a connection when a recording begins, and taken away at its end, so nothing is
checked per event while nothing is recorded. The bodies of streams that are open at the end stop
recording with the next bytes that arrive.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol, final

from pyinformer.client.transport import Body, NetworkConnection, PushBody, Query

if TYPE_CHECKING:
    from pyinformer.cache.recording._format import End
    from pyinformer.client.transport import ClusterConfig, ConnectionProtocol


class RequestRecorder(Protocol):
    """Receives the requests and responses of a RecordingConnection."""

    def begin(self, method: str, path: str, query: Query, *, shape: str) -> int:
        """Record that a request is sent, and return its number."""
        ...

    def accept(self, number: int) -> None:
        """Record that the server has begun a successful response."""
        ...

    def piece(self, number: int, data: bytes) -> None:
        """Record the next bytes of a body."""
        ...

    def end(self, number: int, end: End, error: BaseException | None = None) -> None:
        """Record that a response or an attempt is over."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the recording continues."""
        ...


class RecordingConnection:
    """A ConnectionProtocol that passes everything to another one, and records it.

    Args:
        inner: the connection that is used.
        recorder: receives what passes through it.
    """

    @staticmethod
    def around(inner: ConnectionProtocol, recorder: RequestRecorder) -> ConnectionProtocol:
        """Return a connection that records; a NetworkConnection if the one inside is one."""
        if isinstance(inner, NetworkConnection):
            return _RecordingNetworkConnection(inner, inner, recorder)
        return RecordingConnection(inner, recorder)

    def __init__(self, inner: ConnectionProtocol, recorder: RequestRecorder) -> None:
        self.inner = inner
        """The connection that is used."""
        self._recorder = recorder

    @property
    def config(self) -> ClusterConfig:
        """How the server is reached."""
        return self.inner.config

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
        """Open a GET and record it; see Connection.stream.

        Raises:
            InformerError: as the connection inside.

        Cancellation:
            Safe; the connection is closed.
        """
        recorder = self._recorder
        shape = "watch" if ("watch", "true") in query else "list"
        number = recorder.begin("GET", path, query, shape=shape)
        is_accepted = False
        try:
            async with self.inner.stream(
                path,
                query,
                watch=watch,
                what=what,
                deadline_seconds=deadline_seconds,
                accept=accept,
                same_server=same_server,
            ) as body:
                is_accepted = True
                recorder.accept(number)
                recorded = _recorded(body, number, recorder)
                try:
                    yield recorded
                finally:
                    if not recorded.has_ended:
                        recorder.end(number, "closed")
        except BaseException as error:
            if not is_accepted:
                self._refused(number, error)
            raise

    def _refused(self, number: int, error: BaseException) -> None:
        if isinstance(error, Exception):
            self._recorder.end(number, "failed", error)
        else:  # cancelled
            self._recorder.end(number, "closed")

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
        """Send a request and record its response; see Connection.request.

        Raises:
            InformerError: as the connection inside.

        Cancellation:
            Safe for the connection. Whether the server carried out a change is not known.
        """
        number = self._recorder.begin(method, path, query, shape="body")
        try:
            found = await self.inner.request(
                method,
                path,
                query=query,
                body=body,
                content_type=content_type,
                timeout_seconds=timeout_seconds,
                accept=accept,
            )
        except BaseException as error:
            self._refused(number, error)
            raise
        self._recorder.accept(number)
        self._recorder.piece(number, found)
        self._recorder.end(number, "ended")
        return found

    async def aclose(self) -> None:
        """Close the connection inside.

        Cancellation:
            As the connection inside.
        """
        await self.inner.aclose()


@final
class _RecordingNetworkConnection(RecordingConnection):
    """A RecordingConnection that is a NetworkConnection, too, as the one inside.

    Args:
        inner: the connection that is used.
        network: the same connection, by its other type.
        recorder: receives what passes through it.
    """

    def __init__(
        self, inner: ConnectionProtocol, network: NetworkConnection, recorder: RequestRecorder
    ) -> None:
        super().__init__(inner, recorder)
        self._network = network

    async def probe(self, timeout_seconds: float) -> bool:
        """Return whether the server answers; not recorded.

        Cancellation:
            Safe; the connection is closed.
        """
        return await self._network.probe(timeout_seconds)

    def describe_pending(self, path: str) -> str:
        """Return what the oldest request for a path waits for."""
        return self._network.describe_pending(path)


class RecordedBody:
    """A Body whose pieces are recorded as they are read."""

    def __init__(self, inner: Body, number: int, recorder: RequestRecorder) -> None:
        self._inner = inner
        self._recorder = recorder
        self.number: int = number
        """The number of its request."""
        self.has_ended: bool = False
        self._is_released = False

    def release(self) -> None:
        """Record only failures from now on: the reader of the body records its lines, and its end.

        A last line without a line end is read after the end of the body.
        """
        self._is_released = True

    @property
    def received_bytes(self) -> int:
        """How many bytes have arrived so far."""
        return self._inner.received_bytes

    async def read(self) -> bytes:
        """Wait for the next bytes, and record them.

        Cancellation:
            Safe; a cancelled read takes nothing.
        """
        try:
            data = await self._inner.read()
        except Exception as error:
            self._fail(error)
            raise
        if data and not self._is_released:
            self._recorder.piece(self.number, data)
        if not data:
            self._end()
        return data

    def expire(self, waited_seconds: float) -> None:
        """End the body with an error."""
        self._inner.expire(waited_seconds)

    def close(self) -> None:
        """Close the connection at once, unless the body was read to its end."""
        self._inner.close()

    def _end(self) -> None:
        if not self.has_ended:
            self.has_ended = True
            if not self._is_released:
                self._recorder.end(self.number, "ended")

    def _fail(self, error: Exception) -> None:
        if not self.has_ended:
            self.has_ended = True
            self._recorder.end(self.number, "failed", error)


@final
class _RecordedPushBody(RecordedBody):
    """A RecordedBody that is a PushBody, too: its pieces are recorded as they are passed on.

    Args:
        inner: the body that is read.
        push: the same body, by its other type.
        number: the number of its request.
        recorder: receives the pieces.
    """

    def __init__(self, inner: Body, push: PushBody, number: int, recorder: RequestRecorder) -> None:
        super().__init__(inner, number, recorder)
        self._push = push

    async def deliver(
        self,
        take: Callable[[bytes | bytearray, int, int], None],
        on_turn: Callable[[], bool],
        *,
        spacing_seconds: float = 0.0,
    ) -> None:
        """Pass the body on as it arrives, and record it; see PushBody.deliver.

        Cancellation:
            Safe; `take` is not called any more.
        """
        recorder, number, record = self._recorder, self.number, self._recorder.piece
        is_stopped = is_taking = False

        def take_and_record(data: bytes | bytearray, start: int, stop: int) -> None:
            """Record before the reader takes the bytes: the reader may raise."""
            nonlocal is_taking
            record(number, bytes(memoryview(data)[start:stop]))
            is_taking = True
            take(data, start, stop)
            is_taking = False

        def turn() -> bool:
            nonlocal is_stopped
            is_stopped = not on_turn()
            return not is_stopped and recorder.is_open

        try:
            if self._is_released:
                await self._push.deliver(take, turn, spacing_seconds=spacing_seconds)
            else:
                await self._push.deliver(take_and_record, turn, spacing_seconds=spacing_seconds)
            if not is_stopped and not recorder.is_open:  # the recording is over, the body is not
                await self._push.deliver(take, on_turn, spacing_seconds=spacing_seconds)
        except Exception as error:
            if not is_taking:  # an error of the reader only closes the stream
                self._fail(error)
            raise
        if not is_stopped:
            self._end()


def _recorded(body: Body, number: int, recorder: RequestRecorder) -> RecordedBody:
    if isinstance(body, PushBody):
        return _RecordedPushBody(body, body, number, recorder)
    return RecordedBody(body, number, recorder)
