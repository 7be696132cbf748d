"""Who we are: the headers that authenticate a request.

A `Credentials` is asked for its headers before every request, and told when the server refused
them. Secrets enter here and leave only as header values: never in a repr, a log line or an error.
Client certificates are none of these; they belong to the TLS configuration.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, final, runtime_checkable

from pyinformer.apimachinery import ConfigurationError

if TYPE_CHECKING:
    from pyinformer.transport._client_certificate import ClientCertificate

TOKEN_FILE_MAX_AGE_SECONDS = 60.0
"""How long a token that was read from a file is used: as client-go, kubelet rotates in time."""


@runtime_checkable
class Credentials(Protocol):
    """What authenticates requests to one API server."""

    async def headers(self) -> Mapping[str, str]:
        """Return the headers that authenticate a request; an empty mapping for none.

        Raises:
            ConfigurationError: there are none to be had.

        Cancellation:
            Must be safe: the request was not sent.
        """

    def invalidate(self) -> None:
        """Take note that the server refused the last headers; the next ones should be fresh."""


@final
@dataclass(frozen=True, slots=True)
class NoCredentials:
    """Nothing in the headers: anonymous, or a client certificate."""

    async def headers(self) -> Mapping[str, str]:
        """Return no headers.

        Cancellation:
            Safe; it never waits.
        """
        return {}

    def invalidate(self) -> None:
        """There is nothing to renew."""


@final
class StaticCredentials:
    """A header that never changes."""

    def __init__(self, authorization: str) -> None:
        self._headers = {"Authorization": _checked(authorization, "the credentials")}

    @classmethod
    def bearer(cls, token: str) -> StaticCredentials:
        """Build credentials from a bearer token."""
        return cls(f"Bearer {token.strip()}")

    @classmethod
    def basic(cls, username: str, password: str) -> StaticCredentials:
        """Build credentials from a name and a password."""
        pair = f"{username}:{password}".encode()
        return cls(f"Basic {base64.b64encode(pair).decode('ascii')}")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, StaticCredentials):
            return self._headers == other._headers
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._headers["Authorization"])

    async def headers(self) -> Mapping[str, str]:
        """Return the header.

        Cancellation:
            Safe; it never waits.
        """
        return self._headers

    def headers_nowait(self) -> Mapping[str, str]:
        """Return the header."""
        return self._headers

    def invalidate(self) -> None:
        """There is nothing to renew."""


@final
class TokenFileCredentials:
    """A bearer token in a file that somebody rotates.

    The file is read again when what was read is a minute old, and when the server refused it.
    While the file cannot be read, the last token stays in use.

    Args:
        path: the file.
        max_age_seconds: after so long it is read again.
        certificate: a client certificate that is shown beside the token.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_age_seconds: float = TOKEN_FILE_MAX_AGE_SECONDS,
        certificate: ClientCertificate | None = None,
    ) -> None:
        self.certificate: ClientCertificate | None = certificate
        self._path = Path(path)
        self._max_age_seconds = max_age_seconds
        self._headers: Mapping[str, str] = {}
        self._read_at = float("-inf")

    def __repr__(self) -> str:
        return f"TokenFileCredentials({str(self._path)!r})"

    async def headers(self) -> Mapping[str, str]:
        """Return the header with the token, read again if it is due.

        Raises:
            ConfigurationError: the file cannot be read, or holds no token, and never did.

        Cancellation:
            Safe; it never waits.
        """
        return self.headers_nowait(asyncio.get_running_loop().time())

    def headers_nowait(self, now: float) -> Mapping[str, str]:
        """Return the header as of `now`, monotonic seconds; see `headers`."""
        if now - self._read_at >= self._max_age_seconds:
            try:
                self._headers = {"Authorization": self._read()}
            except ConfigurationError:
                if not self._headers:
                    raise
            self._read_at = now
        return self._headers

    def refused(self, headers: Mapping[str, str]) -> None:
        """Take note that the server refused headers of ours: read the file again, if it was these.

        Of many requests that were under way together, the first has the file read again.
        """
        if headers is self._headers:
            self.invalidate()

    def invalidate(self) -> None:
        """Read the file again before the next request."""
        self._read_at = float("-inf")

    def _read(self) -> str:
        source = f"token file {self._path}"
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(source, f"cannot be read: {error}") from error
        if not token:
            raise ConfigurationError(source, "is empty")
        return _checked(f"Bearer {token}", source)


def _checked(header: str, source: str) -> str:
    if not (header.isascii() and header.isprintable()):
        raise ConfigurationError(source, "a header cannot carry line ends or special characters")
    return header
