"""What authenticates the requests of one connection, and the TLS settings of the server.

Certificates change while a program runs: a new TLS context is made when one of its files, or the
client certificate of the credentials, has changed. Existing connections keep their context.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, final

import anyio

from pyinformer._known_tokens import remember_tokens
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.client.transport.config import (
    FILE_SECONDS,
    BlockingCall,
    NoCredentials,
    RenewingCredentials,
    TokenFileCredentials,
    channel_of,
    withheld_text,
)
from pyinformer.errors import ConfigurationError
from pyinformer.objects import ExponentialBackoff

if TYPE_CHECKING:
    import ssl

    from pyinformer.client.transport.config import ClientCertificate, ClusterConfig
    from pyinformer.client.transport.http._request_metrics import RequestMetrics

    _Versions: TypeAlias = tuple[tuple[int, int, int] | None, ...]

_log = get_logger(__name__)

_FIRST_RETRY_SECONDS: Final = 2.0  # after credentials have failed
_MAX_RETRY_SECONDS: Final = 30.0  # as the retries of informers
_CHECK_SECONDS: Final = 60.0  # as often as a token file is read again


class _Read(NamedTuple):
    context: ssl.SSLContext | None
    """None if the files cannot be used: the current context stays."""
    certificate: ClientCertificate | None
    versions: _Versions
    problem: ConfigurationError | None = None
    """Why the files cannot be used."""


@final
class Authenticator:
    """The headers and the TLS settings for the requests of one connection.

    Args:
        config: the configuration of the connection.
        metrics: where logins and new certificates are counted; None for nowhere.

    Raises:
        ConfigurationError: a certificate in the configuration cannot be used. Files that it names
            are read by `check_files`, and before the first request.
    """

    def __init__(self, config: ClusterConfig, *, metrics: RequestMetrics | None = None) -> None:
        self._credentials = config.credentials
        self._server = config.server
        channel = channel_of(config)
        if channel == "plain" and not isinstance(config.credentials, NoCredentials):
            self._credentials = NoCredentials()
            _log.warning("%s", withheld_text(config))
        self._warns_of_secrets = channel == "loopback"
        self._failure: ConfigurationError | None = None  # of the last attempt
        self._retry_at = float("-inf")
        self._backoff = ExponentialBackoff(
            initial_seconds=_FIRST_RETRY_SECONDS,
            max_seconds=_MAX_RETRY_SECONDS,
            reset_after_seconds=float("inf"),
        )
        self._metrics = metrics
        self._tls = _TLSSettings(config, metrics, self._certificate())
        self._latest: Mapping[str, str] = {}

    async def headers(self) -> Mapping[str, str]:
        """Return the headers that authenticate a request.

        A failure is shared: for some seconds, more after each further one, it is raised again
        without another attempt. Otherwise each informer that retries would run a plug-in.

        Raises:
            ConfigurationError: no credentials are available.

        Cancellation:
            Safe.
        """
        if self._failure is not None:
            if _now() < self._retry_at:
                raise copy(self._failure)
            self._put_off_retry()  # one request tries, not all of them
        try:
            if self._metrics is None:
                headers = await self._credentials.headers()
            else:
                headers = await self._counted(self._metrics)
        except ConfigurationError as error:
            if _now() >= self._retry_at:  # else another request has had the same failure
                self._put_off_retry()
            self._failure = error
            raise
        if self._failure is not None:
            self._failure = None
            self._retry_at = float("-inf")
            self._backoff.reset()
        if headers != self._latest:
            self._latest = headers
            remember_tokens(self, headers)  # a server may quote them in its response
            if self._warns_of_secrets and headers:
                self._warns_of_secrets = False
                _log.warning(
                    "credentials are sent to %s without encryption, since it is on this host;"
                    " kubectl would send none",
                    self._server,
                )
        await self.check_files()
        return headers

    def _put_off_retry(self) -> None:
        now = _now()
        self._retry_at = now + self._backoff.next(now)

    async def _counted(self, metrics: RequestMetrics) -> Mapping[str, str]:
        credentials = self._credentials
        try:
            return await credentials.headers()
        finally:
            if isinstance(credentials, RenewingCredentials | TokenFileCredentials):
                for is_success in credentials.outcomes.take_logins():
                    metrics.logged_in(is_success=is_success)
                for code, status in credentials.outcomes.take_plugin_calls():
                    metrics.plugin_called(code, status)

    async def check_files(self) -> None:
        """Make the TLS settings, and again if a certificate has changed; `headers` does this, too.

        Raises:
            ConfigurationError: the credentials' client certificate cannot be used; or the files
                cannot be, and never were.

        Cancellation:
            Safe.
        """
        certificate = self._certificate()
        if self._tls.is_due(certificate, _now()):
            await self._tls.check(certificate, _now())

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS settings for a request; None for plain HTTP."""
        return self._tls.context

    def _certificate(self) -> ClientCertificate | None:
        found = self._credentials
        if isinstance(found, RenewingCredentials | TokenFileCredentials):
            return found.certificate
        return None

    def on_unauthorized(self, headers: Mapping[str, str]) -> None:
        """Renew the credentials before the next request: the server refused these headers.

        Of many concurrent requests that were refused, only the first has an effect.
        """
        self._tls.check_next_time()
        if isinstance(self._credentials, RenewingCredentials | TokenFileCredentials):
            self._credentials.on_unauthorized(headers)
        elif headers == self._latest:  # else another request has asked for new ones since
            self._credentials.invalidate()

    def on_connection_failed(self) -> None:
        """Check before the next request whether a certificate file has changed."""
        self._tls.check_next_time()


def _now() -> float:
    return asyncio.get_running_loop().time()


class _TLSSettings:
    """The TLS context of a server, made again when its certificates have changed."""

    def __init__(
        self,
        config: ClusterConfig,
        metrics: RequestMetrics | None,
        certificate: ClientCertificate | None,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._is_plain = not config.server.lower().startswith("https:")
        names = (config.ca_file, config.client_certificate_file, config.client_key_file)
        self._files = tuple(name for name in names if name)
        self._versions: _Versions = ()
        self._certificate = certificate
        self._reading: BlockingCall[_Read] = BlockingCall("pyinformer reads certificates")
        self.context: ssl.SSLContext | None = None
        """The context for a new connection; None for plain HTTP, and before files were read."""
        if not self._files:
            self.context = config.ssl_context(certificate)
        self._check_at = float("-inf")
        self._is_unusable = False  # which is logged once, until the files can be used

    def is_due(self, certificate: ClientCertificate | None, now: float) -> bool:
        """Return whether to check the files, or whether the credentials' certificate is new."""
        if self._is_plain:
            return False
        if self.context is None:
            return True
        return certificate is not self._certificate or bool(self._files and now >= self._check_at)

    async def check(self, certificate: ClientCertificate | None, now: float) -> None:
        """Make a new context if a file, or the certificate of the credentials, has changed.

        In a thread: a file system of a network may never answer. The current context then stays,
        unless there is none, or the certificate is a new one.

        Raises:
            ConfigurationError: the certificate of the credentials cannot be used; or the files
                cannot be, and never were.

        Cancellation:
            Safe.
        """
        self._check_at = now + _CHECK_SECONDS
        with anyio.move_on_after(FILE_SECONDS):
            while True:
                self._take(await self._reading.run(partial(self._read, certificate)))
                if certificate is self._certificate:  # else the read was another request's
                    return
        if certificate is not self._certificate:
            reason = f"the client certificate could not be used within {FILE_SECONDS:g} s"
            raise ConfigurationError("TLS", reason)
        files = ", ".join(self._files)
        reason = f"{files}: cannot be read: no answer within {FILE_SECONDS:g} s"
        failure = ConfigurationError(self._config.source, reason)
        if self.context is None:
            raise failure
        self._keep_current(failure)

    def check_next_time(self) -> None:
        """Check the files before the next connection."""
        self._check_at = float("-inf")

    def _read(self, certificate: ClientCertificate | None) -> _Read:
        """Make a context in a thread, if there is a reason; change nothing here."""
        versions = self._current_versions()
        is_new = self.context is None or certificate is not self._certificate
        if not is_new and versions == self._versions:
            return _Read(self.context, certificate, versions)
        try:
            context = self._config.ssl_context(certificate)
        except ConfigurationError as error:
            if is_new:
                raise
            return _Read(None, certificate, versions, error)
        return _Read(context, certificate, versions)

    def _take(self, found: _Read) -> None:
        if found.problem is not None:  # it may be that only one of two files has been written yet
            self._count("failure", "ca_parse_error")
            self._keep_current(found.problem)
            return
        self._is_unusable = False
        if self.context is not None and found.versions != self._versions:
            self._count("success", "updated")
        self.context, self._certificate, self._versions, _ = found

    def _keep_current(self, failure: ConfigurationError) -> None:
        if not self._is_unusable:
            _log.warning("%s; the last certificates stay in use", failure)
        self._is_unusable = True

    def _count(self, result: str, reason: str) -> None:
        if self._metrics is not None:
            self._metrics.tls_files_read(result, reason)

    def _current_versions(self) -> _Versions:
        return tuple(map(_version, self._files))


def _version(name: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - follows the links that rotating tools swap
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
