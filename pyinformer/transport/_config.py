"""What is needed to talk to one API server.

A ClusterConfig is a frozen value that says where it came from; `_locate` finds one. It is checked
when it is made, and its certificates when `ssl_context` reads them: whatever is wrong with it is a
ConfigurationError that names the file or the field, before anything is sent.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final
from urllib.parse import urlsplit

from pyinformer.apimachinery import ConfigurationError
from pyinformer.transport._credentials import Credentials, NoCredentials
from pyinformer.transport._impersonation import impersonation_problem

if TYPE_CHECKING:
    from pyinformer.transport._client_certificate import ClientCertificate


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """How one API server is reached."""

    server: str
    """The server's URL, with a path if it stands behind a proxy that wants one."""

    ca_file: str | None = None
    """A PEM file with the authorities to trust. None: those of the system, unless `ca_data`."""

    ca_data: str | None = None
    """The same as text; it goes before `ca_file`."""

    client_certificate_file: str | None = None
    """A PEM file with the client's certificate. None: there is none."""

    client_key_file: str | None = None
    """Its key. None: it stands in the same file."""

    verify_tls: bool = True
    """False trusts any certificate: only where the configuration itself says so."""

    tls_server_name: str | None = None
    """The name that the server's certificate must carry. None: the URL's host."""

    proxy_url: str | None = field(default=None, repr=False)  # it may hold a password
    """An HTTP proxy. None: there is none; environment variables are not consulted."""

    credentials: Credentials = field(default_factory=NoCredentials, repr=False)
    """What authenticates requests beside a client certificate."""

    impersonate_user: str | None = None
    """The user whom the server is to see instead, if the credentials may `impersonate`; of a
    service account `system:serviceaccount:namespace:name`. None: nobody else."""

    impersonate_groups: tuple[str, ...] = ()
    """The groups of that user. Empty: those that the server gives by itself."""

    impersonate_uid: str | None = None
    """The identifier of that user. None: there is none."""

    impersonate_extra: tuple[tuple[str, str], ...] = ()
    """Keys and values of what else is known of that user; a key may come more than once."""

    namespace: str = "default"
    """The namespace that the configuration names as its default."""

    source: str = "given in code"
    """Where this came from, for errors and logs."""

    def __post_init__(self) -> None:
        if not _is_http_url(self.server):
            reason = f"server {_shown(self.server)!r} is no http or https URL with a host"
            raise ConfigurationError(self.source, reason)
        if "@" in urlsplit(self.server).netloc:  # it would stand in every error
            reason = "holds a name or a password; give credentials beside it"
            raise ConfigurationError(self.source, f"server {_shown(self.server)!r} {reason}")
        if self.proxy_url and not _is_http_url(self.proxy_url):
            reason = f"proxy {_shown(self.proxy_url)!r} is no http or https URL with a host"
            raise ConfigurationError(self.source, reason)
        problem = impersonation_problem(self)
        if problem:
            raise ConfigurationError(self.source, problem)

    def ssl_context(self, certificate: ClientCertificate | None = None) -> ssl.SSLContext | None:
        """Build the TLS settings; None if the server speaks plain HTTP.

        Args:
            certificate: a client certificate to show; None for that of `client_certificate_file`.

        Raises:
            ConfigurationError: a certificate or a key cannot be read.
        """
        if not self.server.lower().startswith("https:"):
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file, cadata=self._authorities())
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            where = "certificate authority data" if self.ca_data else f"{self.ca_file}"
            raise ConfigurationError(self.source, f"{where}: {_words(error)}") from error
        # Authorities that kubeadm and others made lack the key identifiers that Python 3.13
        # began to insist on; neither Go nor curl asks for them.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not self.verify_tls:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            self._show(certificate, context)
        elif self.client_certificate_file is not None:
            self._load_client_certificate(context, self.client_certificate_file)
        return context

    def _authorities(self) -> str | None:
        if self.ca_data is None:
            return None
        return self.ca_data.encode("ascii", "replace").decode()  # remarks beside PEM may be more

    def _show(self, certificate: ClientCertificate, context: ssl.SSLContext) -> None:
        try:
            certificate.load_into(context)
        except (OSError, ValueError) as error:
            reason = f"the client certificate or its key cannot be used: {_words(error)}"
            raise ConfigurationError(self.source, reason) from error

    def _load_client_certificate(self, context: ssl.SSLContext, certificate: str) -> None:
        try:
            # An encrypted key must not ask for its password on the terminal.
            context.load_cert_chain(certificate, self.client_key_file, password=lambda: "")
        except (OSError, ValueError) as error:
            files = f"client certificate {certificate}, key {self.client_key_file or certificate}"
            raise ConfigurationError(self.source, f"{files}: {_words(error)}") from error


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and port != 0
    return usable and not (parts.query or parts.fragment)


def _shown(url: str) -> str:
    """Return a URL without the name and the password in it."""
    return f"...@{url.rpartition('@')[2]}" if "@" in url else url


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
