"""What the other folders need of a connection to an API server.

`Connection` goes over HTTP; the test kit's connections answer in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from pyinformer.client.transport._raw_response import RawResponse
from pyinformer.client.transport.config import ClusterConfig
from pyinformer.client.transport.http import Body, Query


class ConnectionProtocol(Protocol):
    """A connection to one API server."""

    @property
    def config(self) -> ClusterConfig:
        """How the server is reached."""
        ...

    def stream(
        self,
        path: str,
        query: Query = (),
        *,
        watch: bool,
        what: str = "",
        deadline_seconds: float | None = None,
        accept: str = "",
        same_server: bool = False,
    ) -> AbstractAsyncContextManager[Body]:
        """Open a GET whose body is read as it arrives; see Connection.stream."""
        ...

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
        """Send a request and return the body of its response; see Connection.request.

        Cancellation:
            Safe for the connection. Whether the server carried out a change is not known.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections; open streams fail.

        Cancellation:
            Shielded, and bounded.
        """
        ...


@runtime_checkable
class NetworkConnection(Protocol):
    """A connection over a network: its server may be away for a while, and its requests wait."""

    async def probe(self, timeout_seconds: float) -> bool:
        """Return whether the server itself, not a load balancer, answers; see Connection.probe.

        Cancellation:
            Safe; the connection is closed.
        """
        ...

    def describe_pending(self, path: str) -> str:
        """Return what the oldest request for a path waits for; see Connection.describe_pending."""
        ...


@runtime_checkable
class ExchangeConnection(Protocol):
    """A connection that sends headers of the caller, and shows the head of a response."""

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout_seconds: float | None = None,
        received: RawResponse | None = None,
    ) -> bytes:
        """Send a request and return the body of its response; see Connection.exchange.

        Cancellation:
            Safe for the connection. Whether the server carried out a change is not known.
        """
        ...


class Channels(Protocol):
    """A conversation with a server, in messages of numbered channels."""

    @property
    def protocol(self) -> str:
        """The protocol that the server has chosen, such as `v5.channel.k8s.io`."""
        ...

    async def receive(self) -> bytes | None:
        """Wait for the next message: the number of its channel, and then its data.

        Returns:
            None when the server has ended the conversation.

        Raises:
            TransportError: the connection was lost.

        Cancellation:
            Safe; a cancelled call takes nothing.
        """
        ...

    async def send(self, data: bytes) -> None:
        """Send one message: the number of its channel, and then its data.

        Raises:
            TransportError: the connection was lost.

        Cancellation:
            A part of the message may have left.
        """
        ...


@runtime_checkable
class ChannelConnection(Protocol):
    """A connection that can be upgraded to a conversation, as a command in a container needs."""

    def channels(
        self, path: str, query: Query = (), *, protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[Channels]:
        """Open a conversation; see Connection.channels."""
        ...
