"""Who we are to one server, and how it is trusted: headers, and the TLS settings that go with them.

A configuration enters; what leaves for each request is what its credentials say now. A refusal is
heard once: of many requests under way together, the first has the credentials renewed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, final

from pyinformer._known_tokens import remember_tokens
from pyinformer.transport._credentials import TokenFileCredentials
from pyinformer.transport._login import LoginCredentials
from pyinformer.transport._tls import TLSSettings

if TYPE_CHECKING:
    import ssl

    from pyinformer.transport._config import ClusterConfig


@final
class Identity:
    """What authenticates the requests of one connection.

    Args:
        config: says what does.

    Raises:
        ConfigurationError: a certificate of the configuration cannot be read.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self._credentials = config.credentials
        self._tls = TLSSettings(config)
        self._latest: Mapping[str, str] = {}

    async def headers(self) -> Mapping[str, str]:
        """Return the headers that authenticate a request.

        Raises:
            ConfigurationError: there are none to be had.

        Cancellation:
            Safe.
        """
        headers = await self._credentials.headers()
        if headers != self._latest:
            self._latest = headers
            remember_tokens(self, headers)  # a server may quote them in its answer
        return headers

    def context(self, now: float) -> ssl.SSLContext | None:
        """Return the TLS settings for a request; None for plain HTTP.

        Args:
            now: monotonic seconds.

        Raises:
            ConfigurationError: the credentials' client certificate cannot be used.
        """
        found = self._credentials
        if isinstance(found, LoginCredentials | TokenFileCredentials):
            return self._tls.context(found.certificate, now)
        return self._tls.context(None, now)

    def refused(self, headers: Mapping[str, str]) -> None:
        """Take note that the server refused a request with these headers."""
        self._tls.look_again()
        if isinstance(self._credentials, LoginCredentials | TokenFileCredentials):
            self._credentials.refused(headers)
        elif headers == self._latest:  # else others were asked for since, by another request
            self._credentials.invalidate()

    def look_again(self) -> None:
        """Take note that no connection was made: a certificate may be a new one."""
        self._tls.look_again()
