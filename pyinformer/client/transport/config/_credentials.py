"""What authenticates this program: headers that go with each request, and client certificates.

A connection asks its `Credentials` for headers before every request, and reports when the server
refused them. Secrets never appear in a repr, a log line or an error.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, final, runtime_checkable

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.client.transport.config._blocking_call import BlockingCall
from pyinformer.client.transport.config._error_reasons import (
    LONGEST_TOKEN_STEP,
    path_text,
    reason_of,
)
from pyinformer.client.transport.config._login_metrics import LoginMetrics
from pyinformer.client.transport.config._unnamed_files import memory_file
from pyinformer.errors import ConfigurationError

_log = get_logger(__name__)
TOKEN_FILE_MAX_AGE_SECONDS = 60.0
"""How long a token that was read from a file is used: as in client-go, kubelet rotates in time."""

FILE_SECONDS = 10.0
"""How long a request waits for a file that is read again; a file of a network may never answer."""


@runtime_checkable
class Credentials(Protocol):
    """What authenticates requests to one API server."""

    @abstractmethod
    async def headers(self) -> Mapping[str, str]:
        """Return the headers that authenticate a request; an empty mapping for none.

        Raises:
            ConfigurationError: no credentials are available.

        Cancellation:
            Must be safe: the request was not sent.
        """

    @abstractmethod
    def invalidate(self) -> None:
        """Record that the server refused the last headers; the next ones should be fresh."""


@final
@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client certificate and its key, held in memory as PEM text."""

    certificate: str
    """The certificate, and those between it and the authority."""

    key: str = field(repr=False)
    """Its private key, without a password."""

    def load_into(self, context: ssl.SSLContext) -> None:
        """Present this certificate on connections that use the context.

        The ssl module loads certificates from files only. On Linux it is a file in memory, so that
        a read-only file system suffices; elsewhere a temporary file, readable by its owner only,
        in a folder of the same owner. It is gone when this method returns.

        Raises:
            OSError: the texts are not a certificate and its key; ssl.SSLError is an OSError.
        """
        text = f"{self.certificate}\n{self.key}\n".encode()
        file = memory_file()
        if file is not None:
            with file:
                file.write(text)
                file.flush()
                path = Path(f"/proc/self/fd/{file.fileno()}")
                if path.exists():  # /proc is mounted
                    _load(context, path)
                    return
        import tempfile  # loads much, for the few programs that have a certificate in memory

        with tempfile.TemporaryDirectory(prefix="pyinformer-") as folder:  # for its owner only
            path = Path(folder, "client.pem")
            path.touch(mode=0o600, exist_ok=False)
            path.write_bytes(text)
            _load(context, path)


def _load(context: ssl.SSLContext, path: Path) -> None:
    # An encrypted key must not ask for its password on the terminal.
    context.load_cert_chain(path, password=lambda: "")


@final
@dataclass(frozen=True, slots=True)
class NoCredentials:
    """No headers: the client is anonymous, or has only a client certificate."""

    async def headers(self) -> Mapping[str, str]:
        """Return no headers.

        Cancellation:
            Safe; it never waits.
        """
        return {}

    def invalidate(self) -> None:
        """Do nothing: there are no credentials to renew."""


@final
class StaticCredentials:
    """An Authorization header that never changes."""

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
        """Do nothing: the header cannot be renewed."""


@final
class TokenFileCredentials:
    """A bearer token in a file whose content is rotated.

    The file is read again when the token is a minute old, and when the server refused it. While
    the file cannot be read, the last token stays in use, and a warning names the reason.

    Args:
        path: the file.
        max_age_seconds: how long a token is used before the file is read again.
        certificate: a client certificate that is presented beside the token.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_age_seconds: float = TOKEN_FILE_MAX_AGE_SECONDS,
        certificate: ClientCertificate | None = None,
    ) -> None:
        self.certificate: ClientCertificate | None = certificate
        self.outcomes: LoginMetrics = LoginMetrics()
        """Whether the file was read, each time."""
        self.path: Path = Path(path)
        """The file, as it was given."""
        self._file = self.path.absolute()  # the program may be in another folder by the next read
        self._max_age_seconds = max_age_seconds
        self._headers: Mapping[str, str] = {}
        self._reading: BlockingCall[str] = BlockingCall("pyinformer reads a token file")
        self._read_at = float("-inf")
        self._is_unreadable = False  # which is logged once, until it is read again

    def __repr__(self) -> str:
        return f"TokenFileCredentials({self._shown()!r})"

    async def headers(self) -> Mapping[str, str]:
        """Return the header with the token; read the file again first if that is due.

        Raises:
            ConfigurationError: the file cannot be read or is empty, and was never read before.

        Cancellation:
            Safe.
        """
        now = asyncio.get_running_loop().time()
        if self.is_due(now):
            await self._read_again(now)
        return self._headers

    def is_due(self, now: float) -> bool:
        """Return whether the file is read again before a request at `now`, monotonic seconds."""
        return now - self._read_at >= self._max_age_seconds

    async def _read_again(self, asked_at: float) -> None:
        failure: ConfigurationError | None = None
        header = ""
        try:
            with anyio.fail_after(FILE_SECONDS):
                header = await self._reading.run(self._read)  # a network's may never answer
        except ConfigurationError as error:
            failure = error
        except TimeoutError:
            reason = f"cannot be read: it has not answered for {FILE_SECONDS:g} s"
            failure = ConfigurationError(f"token file {self.path}", reason)
        if self._read_at > asked_at:  # a concurrent request has taken the same result
            return
        self.outcomes.logged_in(is_success=failure is None)
        if failure is not None and not self._headers:
            raise failure
        self._read_at = asyncio.get_running_loop().time()
        if failure is None:
            self._headers = {"Authorization": header}
        elif not self._is_unreadable:
            _log.warning("%s; the last token stays in use", failure)
        self._is_unreadable = failure is not None

    def on_unauthorized(self, headers: Mapping[str, str]) -> None:
        """Read the file again before the next request, if `headers` are the current ones.

        Of many concurrent requests that were refused, only the first has an effect.
        """
        if headers is self._headers:
            self.invalidate()

    def invalidate(self) -> None:
        """Read the file again before the next request."""
        self._read_at = float("-inf")

    def _shown(self, error: BaseException | None = None) -> str:
        """Return the path, unless it may be the token itself."""
        path = str(self.path)
        return path if self._headers else path_text(path, error, longest_step=LONGEST_TOKEN_STEP)

    def _read(self) -> str:
        source = f"token file {self.path}"
        try:
            token = self._file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:  # not UTF-8, or a path with a null character
            source = f"token file {self._shown(error)}"
            raise ConfigurationError(source, f"cannot be read: {reason_of(error)}") from None
        if not token:
            raise ConfigurationError(source, "is empty")
        return _checked(f"Bearer {token}", source)


def _checked(header: str, source: str) -> str:
    if not (header.isascii() and header.isprintable()):
        raise ConfigurationError(source, "a header cannot carry line ends or special characters")
    return header
