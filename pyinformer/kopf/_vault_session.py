"""Requests over kopf's own session, from the vault that its login handlers fill.

After a 401 or with a closed session kopf logs in again, and the request is repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from kopf._cogs.clients import auth, errors
from kopf._cogs.structs import credentials

from pyinformer.client.transport import network_errors
from pyinformer.errors import ConnectionEndedError, UnauthorizedError
from pyinformer.kopf._kopf_errors import new_error
from pyinformer.kopf._settings import timeouts_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import aiohttp
    from kopf._cogs.configs.configuration import OperatorSettings

    from pyinformer.client.transport import SessionTimeouts

_UNAUTHORIZED = 401
_CLOSED_TLS = "APPLICATION_DATA_AFTER_CLOSE_NOTIFY"  # how OpenSSL names data after the end


@final
class VaultSession:
    """Lends the session of the operator whose vault is in the context of the current task.

    Args:
        settings: the operator's.
    """

    def __init__(self, settings: OperatorSettings) -> None:
        self._settings = settings
        self.server: str = "https://kubernetes"
        """The URL of the server, once kopf has logged in."""

    def timeouts(self, *, watch: bool) -> SessionTimeouts:
        """Return the deadlines of the next request, by kopf's settings of this moment."""
        return timeouts_of(self._settings, watch=watch)

    async def send(
        self, send: Callable[[aiohttp.ClientSession, str], Awaitable[aiohttp.ClientResponse]]
    ) -> aiohttp.ClientResponse:
        """Send one request with kopf's session.

        Raises:
            ConnectionEndedError: kopf has no credentials any more; its cause is kopf's LoginError.

        Cancellation:
            The request is dropped.
        """

        async def remember(session: aiohttp.ClientSession, server: str) -> aiohttp.ClientResponse:
            """Send, and remember the server for errors."""
            self.server = server
            return await send(session, server)

        try:
            return await _send(remember)  # type: ignore[call-arg]  # kopf adds the context
        except credentials.LoginError as error:
            raise ConnectionEndedError(f"kopf has no credentials: {error}") from error


@auth.authenticated
async def _send(
    send: Callable[[aiohttp.ClientSession, str], Awaitable[aiohttp.ClientResponse]],
    *,
    context: auth.APIContext,
) -> aiohttp.ClientResponse:
    """Send with the session that kopf passes; raise kopf's own error if the session is unusable."""
    try:
        return await send(context.session, context.server)
    except UnauthorizedError as error:
        raise new_error(errors.APIUnauthorizedError, str(error), _UNAUTHORIZED) from error
    except network_errors() as error:
        if _CLOSED_TLS in str(error):  # kopf also gives up a session after this error
            raise errors.APISessionClosed("SSL data stream is closed.") from error
        raise
    except RuntimeError as error:
        if context.session.closed:
            raise errors.APISessionClosed("Session is closed.") from error
        raise
