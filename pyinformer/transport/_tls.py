"""The TLS settings of one server, as of now: certificates change while a program lives.

What enters are a configuration and the client certificate that was handed out last; what leaves is
a context, a new one only if a file or the certificate is another. Connections that were made with
an older one stay as they are until they end; no new one is made with it.
"""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Final, TypeAlias, final

from pyinformer.apimachinery import ConfigurationError

if TYPE_CHECKING:
    from pyinformer.transport._client_certificate import ClientCertificate
    from pyinformer.transport._config import ClusterConfig

    _Versions: TypeAlias = tuple[tuple[int, int, int] | None, ...]

_LOOK_SECONDS: Final = 60.0  # as often as a token file is read again


@final
class TLSSettings:
    """Makes the TLS context of a server, again when what it is made of has changed.

    Args:
        config: the server, and the files that certificates are in.

    Raises:
        ConfigurationError: a certificate cannot be read.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        names = (config.ca_file, config.client_certificate_file, config.client_key_file)
        self._files = tuple(name for name in names if name)
        self._versions = self._look()
        self._certificate: ClientCertificate | None = None
        self._context = config.ssl_context()
        self._look_at = float("-inf")

    def context(self, certificate: ClientCertificate | None, now: float) -> ssl.SSLContext | None:
        """Return the context for a connection that is made now; None for plain HTTP.

        Args:
            certificate: the client certificate that the credentials give, if they do.
            now: monotonic seconds.

        Raises:
            ConfigurationError: the credentials' certificate is none, or is not its key's.
        """
        if self._context is None:
            return None
        if self._has_changed(now) or certificate is not self._certificate:
            self._renew(certificate)
        return self._context

    def look_again(self) -> None:
        """Look at the files before the next connection: we were refused, or the server was."""
        self._look_at = float("-inf")

    def _has_changed(self, now: float) -> bool:
        if not self._files or now < self._look_at:
            return False
        self._look_at = now + _LOOK_SECONDS
        return self._look() != self._versions

    def _renew(self, certificate: ClientCertificate | None) -> None:
        versions = self._look()
        try:
            context = self._config.ssl_context(certificate)
        except ConfigurationError:
            if certificate is not self._certificate:
                raise
            return  # of two files only one has been written yet; what is in use stays good
        self._context, self._certificate, self._versions = context, certificate, versions

    def _look(self) -> _Versions:
        return tuple(map(_version, self._files))


def _version(name: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - follows the links that rotating tools swap
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
