"""A WebSocket to one API server, whose messages belong to the numbered channels of a conversation.

It is opened by a GET that the server answers with 101. A refusal keeps its body, which says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import anyio

from pyinformer.client.transport.http._body import AiohttpBody
from pyinformer.client.transport.http._errors import network_errors, translate
from pyinformer.client.transport.http._responses import read_error_body
from pyinformer.errors import InternalError, ProtocolError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence

    import aiohttp

SWITCHING_PROTOCOLS: Final = 101

_UNTIL_PING: Final = (
    2 / 3
)  # of the time until a silent peer is given up; aiohttp waits half as long again
_CLOSE_SECONDS: Final = 1.0
_MAX_MESSAGE_BYTES: Final = 4 << 20  # servers send 32 KiB at a time


@final
class ChannelSocket:
    """An open conversation.

    Args:
        url: the URL of the request, without its query.
        session: has this one connection; it is closed with it.
        response: the response to the upgrade.
        socket: the WebSocket.
        pong_seconds: after how long a silent peer is given up.
    """

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        response: aiohttp.ClientResponse,
        socket: aiohttp.ClientWebSocketResponse,
        *,
        pong_seconds: float,
    ) -> None:
        self.protocol: str = socket.protocol or ""
        """The protocol that the server has chosen; empty if it has chosen none."""
        self._url = url
        self._session = session
        self._response = response
        self._socket = socket
        self._pong_seconds = pong_seconds

    async def receive(self) -> bytes | None:
        """Wait for the next message: the number of its channel, and then its data.

        Returns:
            None when the server has ended the conversation.

        Raises:
            TransportError: the connection was lost.
            RequestTimeoutError: the peer does not answer pings.
            ProtocolError: it sent something else than a message of a channel.

        Cancellation:
            Safe; a cancelled call takes nothing.
        """
        import aiohttp

        message = await self._socket.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            data: bytes = message.data
            return data
        if message.type is aiohttp.WSMsgType.TEXT:
            raise ProtocolError(self._url, "the server sent a text where a binary message belongs")
        error = self._socket.exception()
        if isinstance(error, Exception):
            raise translate(error, self._url, waited_seconds=self._pong_seconds)
        if message.type is aiohttp.WSMsgType.ERROR:
            raise ProtocolError(self._url, f"the WebSocket is malformed: {message.data}")
        return None

    async def send(self, data: bytes) -> None:
        """Send one message: the number of its channel, and then its data.

        Raises:
            TransportError: the connection was lost.

        Cancellation:
            A part of the message may have left.
        """
        try:
            await self._socket.send_bytes(data)
        except network_errors() as error:
            raise translate(error, self._url) from error

    def close(self) -> None:
        """Close the connection at once; what was not sent is dropped."""
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()

    async def aclose(self) -> None:
        """End the conversation and close the connection.

        Cancellation:
            Bounded by a second; `run_shielded` carries it to its end.
        """
        with anyio.move_on_after(_CLOSE_SECONDS):
            await self._socket.close()
        self.close()
        await self._session.close()


class _NotUpgraded(Exception):  # noqa: N818 - it ends a request and is never reported
    """The server has answered without a WebSocket."""


@final
class Upgrade:
    """The wish for a conversation, and a middleware of aiohttp that keeps what the server answers.

    The error that aiohttp itself raises for a refusal has only its status.

    Args:
        url: the URL of the request, without its query.
        protocols: the protocols that this side speaks, the preferred one first.
        refusal_seconds: how long the body of a refusal may take.
        pong_seconds: after how long a silent peer is given up.
    """

    def __init__(
        self,
        url: str,
        protocols: Sequence[str],
        *,
        refusal_seconds: float,
        pong_seconds: float,
    ) -> None:
        self.refusal: bytes = b""
        """The body of a refusal."""
        self.socket: ChannelSocket | None = None
        """The conversation; None if the server has refused it, or chosen no protocol."""
        self._url = url
        self._protocols = protocols
        self._refusal_seconds = refusal_seconds
        self._pong_seconds = pong_seconds
        self._response: aiohttp.ClientResponse | None = None

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        response = self._response = await handler(request)
        if response.status != SWITCHING_PROTOCOLS:
            seconds = self._refusal_seconds
            body = AiohttpBody(response, self._url, idle_seconds=seconds)
            self.refusal = await read_error_body(response, body, most_seconds=seconds)
            raise _NotUpgraded  # aiohttp would follow a redirect, with the headers of the login
        return response

    async def open(
        self,
        session: aiohttp.ClientSession,
        target: str,
        *,
        headers: Mapping[str, str],
        context: ssl.SSLContext | None,
        server_hostname: str | None,
        proxy: str | None,
    ) -> aiohttp.ClientResponse:
        """Send the request, and return the response.

        Args:
            session: of this request alone, with this as a middleware. The caller closes it, unless
                there is a conversation.
            target: the URL with its query, quoted.
            headers: the headers of the request.
            context: the TLS settings; None for plain HTTP.
            server_hostname: the name that the server's certificate must have.
            proxy: the URL of a proxy, or None.

        Raises:
            aiohttp.ClientError: the server was not reached, or its response is malformed.
            FencedError: the request may not leave.

        Cancellation:
            The server may have begun what the conversation is about.
        """
        import aiohttp
        from yarl import URL

        try:
            socket = await session.ws_connect(
                URL(target, encoded=True),
                protocols=self._protocols,
                headers=headers,
                ssl=context if context is not None else True,
                server_hostname=server_hostname,
                proxy=proxy,
                heartbeat=self._pong_seconds * _UNTIL_PING,
                timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                max_msg_size=_MAX_MESSAGE_BYTES,
            )
        except _NotUpgraded:
            return self._answer()
        response = self._answer()
        opened = ChannelSocket(
            self._url, session, response, socket, pong_seconds=self._pong_seconds
        )
        if opened.protocol:
            self.socket = opened
        else:
            opened.close()
        return response

    def _answer(self) -> aiohttp.ClientResponse:
        if self._response is None:
            raise InternalError("a WebSocket was opened without a response")
        return self._response
