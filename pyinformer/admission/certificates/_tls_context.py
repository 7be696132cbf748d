"""The TLS context of the webhooks' server, whose certificates change while it is in use.

New handshakes have the new certificate; open connections stay as they are.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias, final

from pyinformer.errors import ConfigurationError, ConfigurationNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyinformer.admission.certificates._x509 import KeyPair

Version: TypeAlias = tuple[int, int, int] | None
"""Differs after a file was written or replaced; None if it cannot be read."""


@final
class TLSContext:
    """A server's context for TLS 1.2 and later.

    Args:
        client_ca: the file with the authorities of clients; without a certificate of one of them a
            client is then refused. None accepts every client.
    """

    def __init__(self, client_ca: Path | None) -> None:
        self._client_ca = client_ca
        self._client_ca_version: Version = None
        self.context: ssl.SSLContext = _new_context()
        """It has no certificate before the first `use`."""
        if client_ca is not None:
            self.context.verify_mode = ssl.CERT_REQUIRED

    def use(self, pair: KeyPair) -> None:
        """Show this certificate in later handshakes.

        Raises:
            ValueError: OpenSSL refuses it, because of a small key for example; nothing has changed.
        """
        with _file_of(pair.pem) as path:
            try:
                _new_context().load_cert_chain(path)
                self.context.load_cert_chain(path)
            except ssl.SSLError as error:
                raise ValueError(f"OpenSSL refuses the certificate: {error.reason}") from error

    def check_client_ca(self) -> None:
        """Also accept what the file of the authorities of clients has gained.

        What it has lost is accepted until the program ends.

        Raises:
            ConfigurationError: the file cannot be used; the authorities known before stay.
        """
        if self._client_ca is None:
            return
        version = version_of(self._client_ca)
        if version is not None and version == self._client_ca_version:
            return
        content = read_file(self._client_ca)
        try:
            self.context.load_verify_locations(cadata=content.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:  # ValueError: it is empty, or not ASCII
            reason = "must hold the authorities of clients as PEM"
            raise ConfigurationError(str(self._client_ca), reason) from error
        self._client_ca_version = version


def version_of(path: Path) -> Version:
    """Return the version of a file; links, which mounted Secrets swap, are followed."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_file(path: Path) -> bytes:
    """Read a file.

    Raises:
        ConfigurationNotFoundError: it does not exist.
        ConfigurationError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        reason = "does not exist: mount the Secret of the certificate there"
        raise ConfigurationNotFoundError(str(path), reason) from error
    except OSError as error:
        raise ConfigurationError(str(path), f"cannot be read: {error.strerror}") from error


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@contextmanager
def _file_of(content: bytes) -> Iterator[str]:
    """Write a key to a file without a name: OpenSSL reads files only, and disks may be read-only.

    Where the system has no such files, it is a temporary one for this user alone.
    """
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("pyinformer"), "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.NamedTemporaryFile() as temporary:
        temporary.write(content)
        temporary.flush()
        yield temporary.name
