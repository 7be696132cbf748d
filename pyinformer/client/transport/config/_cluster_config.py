"""The settings that a connection to one API server needs, checked before anything is sent."""

# Pure: it knows no event loop.

from __future__ import annotations

import os
import re
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final
from urllib.parse import quote, urlsplit

from pyinformer._printable import shortened
from pyinformer.client.transport.config._credentials import (
    ClientCertificate,
    Credentials,
    NoCredentials,
)
from pyinformer.client.transport.config._error_reasons import path_text, reason_of, url_text
from pyinformer.errors import ConfigurationError

# What a header's name may consist of; other characters are percent-encoded (RFC 9110, 5.6.2).
_HEADER_MARKS: Final = "!#$&'*+-.^_`|~"

_OWN_HEADERS: Final = {
    "accept": "each request sets it",
    "accept-encoding": "each request sets it",
    "authorization": "use credentials",
    "connection": "each request sets it",
    "content-length": "each request sets it",
    "content-type": "each request sets it",
    "host": "use server, and tls_server_name for the name in the certificate",
    "transfer-encoding": "each request sets it",
}


_REFUSED_IN_URLS: Final = re.compile(r"[\x00-\x20\x7f?#\\]")
_MAX_SHOWN_CHARS: Final = 200
MAX_HOST_CHARS: Final = 255
"""How long a host may be: as DNS allows, with a dot at the end. Errors and logs quote it."""
_MAX_URL_CHARS: Final = 4096  # of a path that a gateway needs; errors quote it, too
_NETLOC: Final = re.compile(r"(?:.*@)?[\w.~%:\[\]-]+")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """How one API server is reached."""

    server: str
    """The server's URL, with a path if it is behind a proxy that needs one."""

    ca_file: str | None = None
    """A PEM file with the authorities to trust. None: those of the system, unless `ca_data`."""

    ca_data: str | None = None
    """The same as text; it takes precedence over `ca_file`."""

    client_certificate_file: str | None = None
    """A PEM file with the client's certificate. None: no certificate."""

    client_key_file: str | None = None
    """The key of that certificate. None: it is in the same file."""

    verify_tls: bool = True
    """False trusts any certificate: only where the configuration itself says it."""

    tls_server_name: str | None = None
    """The name that the server's certificate must have. None: the URL's host."""

    check_hostname: bool = True
    """False accepts a certificate for any name, if one of the authorities signed it."""

    proxy_url: str | None = field(default=None, repr=False)  # it may hold a password
    """An HTTP proxy. None: that of the environment, if `trust_env`."""

    trust_env: bool = True
    """Whether HTTPS_PROXY, HTTP_PROXY and NO_PROXY apply, by the rules of kubectl."""

    credentials: Credentials = field(default_factory=NoCredentials, repr=False)
    """What authenticates requests beside a client certificate."""

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # may be secret
    """Further headers of every request, for a gateway in front of the server, or a `User-Agent`.
    Errors may quote them: secrets belong into the headers of `credentials`."""

    impersonate_user: str | None = None
    """The user as whom requests are made, if the credentials may `impersonate`; for a service
    account `system:serviceaccount:namespace:name`. None: no impersonation."""

    impersonate_groups: tuple[str, ...] = ()
    """The groups of that user. Empty: those that the server adds by itself."""

    impersonate_uid: str | None = None
    """The uid of that user. None: no uid."""

    impersonate_extra: tuple[tuple[str, str], ...] = ()
    """Keys and values of the user's extra fields; a key may come more than once."""

    namespace: str = "default"
    """The namespace that the configuration names as its default."""

    source: str = "given in code"
    """Where this came from, for errors and logs."""

    def __post_init__(self) -> None:
        problem = (
            _type_problem(self)
            or _url_problem("server", self.server)
            or (self.proxy_url and _url_problem("proxy", self.proxy_url))
            or _server_name_problem(self.tls_server_name)
            or _impersonation_problem(self)
            or _header_problem(self.headers)
        )
        if problem:
            raise ConfigurationError(self.source, problem)

    def ssl_context(self, certificate: ClientCertificate | None = None) -> ssl.SSLContext | None:
        """Build the TLS settings; None if the server speaks plain HTTP.

        Args:
            certificate: a client certificate to present; None for `client_certificate_file`.

        Raises:
            ConfigurationError: a certificate or a key cannot be read, or the file of
                `SSLKEYLOGFILE` cannot be written.
        """
        self._check_key_log()
        if not self.server.lower().startswith("https:"):
            return None
        context = self._context_with_authorities()
        # Authorities that kubeadm and others made lack the key identifiers that Python 3.13
        # began to require; neither Go nor curl requires them.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        # As in Go, whatever the configuration trusts may end a chain: an intermediate authority, or
        # the server's own certificate. Python sets this by itself from 3.13 on.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        # As in Go and RFC 9525: an authority may sign certificates of users, whose Common Name is a
        # name that they have chosen.
        context.hostname_checks_common_name = False
        if not self.verify_tls:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif not self.check_hostname:
            context.check_hostname = False
        self._load_client_certificate(context, certificate)
        return context

    def _check_key_log(self) -> None:
        """Raise if the file for the keys of connections cannot be written.

        The settings for plain HTTP are checked, too: aiohttp opens the file when it is imported.
        """
        try:
            if keys := _key_log():
                Path(keys).open("ab").close()
        except OSError as error:
            problem = f"SSLKEYLOGFILE: {shortened(f'{keys}', _MAX_SHOWN_CHARS)}: {reason_of(error)}"
            raise ConfigurationError(
                self.source, f"{problem}; unset the variable, or name a file that can be written"
            ) from None

    def _context_with_authorities(self) -> ssl.SSLContext:
        """Return a context that trusts the authorities; one that will not verify loads none."""
        if self.verify_tls and not (self.ca_data or self.ca_file):
            return ssl.create_default_context()  # those of the system take 20 ms
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if keys := _key_log():
            context.keylog_filename = keys
        if not (self.ca_data or self.ca_file):
            return context
        from pyinformer.client.transport.config._authorities import (
            NoCertificateError,
            load_authorities,
        )

        where = "certificate authority data" if self.ca_data else f"{self.ca_file}"
        try:
            pem = (self.ca_data or "").encode("utf-8", "replace")
            load_authorities(context, pem or Path(self.ca_file or "").read_bytes())
        except NoCertificateError:
            reason = f"{where}: must have a certificate in PEM, and has none that can be read"
        except (OSError, ValueError) as error:  # a null character is a ValueError
            reason = f"{path_text(where, error)}: {reason_of(error)}"
        else:
            return context
        raise ConfigurationError(self.source, reason)

    def _load_client_certificate(
        self, context: ssl.SSLContext, certificate: ClientCertificate | None
    ) -> None:
        file, key_file = self.client_certificate_file, self.client_key_file
        try:
            if certificate is not None:
                certificate.load_into(context)
            elif file is not None:
                # An encrypted key must not ask for its password on the terminal.
                context.load_cert_chain(file, key_file, password=lambda: "")
        except (OSError, ValueError) as error:
            what = "the client certificate or its key cannot be used"
            if certificate is None:
                names = (path_text(f"{name}", error) for name in (file, key_file or file))
                what = "client certificate {}, key {}".format(*names)
            raise ConfigurationError(self.source, f"{what}: {reason_of(error)}") from None


def _key_log() -> str | None:
    """Return the file for the keys of connections, as ssl.create_default_context finds it."""
    return None if sys.flags.ignore_environment else os.environ.get("SSLKEYLOGFILE")


def impersonation_headers(config: ClusterConfig) -> tuple[tuple[str, str], ...]:
    """Return the headers that impersonate a user; several may have one name.

    Source:
        client-go transport/round_trippers.go, impersonatingRoundTripper.
    """
    pairs = [
        ("Impersonate-User", config.impersonate_user),
        ("Impersonate-Uid", config.impersonate_uid),
    ]
    return (
        *((name, value) for name, value in pairs if value),
        *(("Impersonate-Group", group) for group in config.impersonate_groups),
        *(
            (f"Impersonate-Extra-{quote(key.lower(), safe=_HEADER_MARKS)}", value)
            for key, value in config.impersonate_extra
        ),
    )


def _server_name_problem(name: str | None) -> str:
    """Return why TLS cannot check a certificate for a name; empty if it can."""
    if not name:
        return ""
    try:
        is_short = len(name) <= MAX_HOST_CHARS
        is_name = is_short and not name.startswith(".") and bool(name.encode("idna"))
    except UnicodeError:
        is_name = False
    if not is_name or _REFUSED_IN_URLS.search(name):
        return (
            f"tls_server_name must be the name of a host, got {shortened(name, _MAX_SHOWN_CHARS)!r}"
        )
    return ""


def _impersonation_problem(config: ClusterConfig) -> str:
    """Return why the impersonation settings cannot be used; empty if they can."""
    if not config.impersonate_user and impersonation_headers(config):
        return "impersonate_groups, _uid and _extra need impersonate_user"
    if not all(value.isprintable() for _, value in impersonation_headers(config)):
        return "a name to impersonate must not have line ends or control characters"
    return ""


def is_own_header(name: str) -> bool:
    """Return whether requests set this header themselves, or a setting of its own does."""
    key = name.lower()
    return key in _OWN_HEADERS or key.startswith("impersonate-")


_TEXTS: Final = ("server", "proxy_url", "tls_server_name", "impersonate_user", "impersonate_uid")
_PAIRS: Final = ("headers", "impersonate_extra")


def _type_problem(config: ClusterConfig) -> str:
    """Return which setting has a type that cannot work; empty if none has."""
    for name in _TEXTS:
        value = getattr(config, name)
        if not isinstance(value, str) and (value is not None or name == "server"):
            return f"{name} must be a text, got {type(value).__name__}"
    for name in _PAIRS:
        value = getattr(config, name)
        is_mapping = isinstance(value, Mapping)
        if is_mapping or not _are_pairs(value):
            cure = ": pass tuple(headers.items())" if is_mapping else ""
            given = type(value).__name__
            return f"{name} must be a tuple of pairs of texts, got {given}{cure}"
    groups = config.impersonate_groups
    if isinstance(groups, str):  # would be one group for each letter
        return "impersonate_groups must be a tuple of groups, got one text"
    if not isinstance(groups, list | tuple) or not all(isinstance(one, str) for one in groups):
        return "impersonate_groups must be a tuple of texts"
    return ""


def _are_pairs(value: object) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(pair, list | tuple)
        and len(pair) == 2  # noqa: PLR2004 - a name and a value
        and all(isinstance(one, str) for one in pair)
        for pair in value
    )


def _header_problem(headers: tuple[tuple[str, str], ...]) -> str:
    """Return why further headers cannot be sent; empty if they can."""
    for name, value in headers:
        if not name or quote(name, safe=_HEADER_MARKS) != name:
            return f"headers: {name!r} is not the name of a header"
        if is_own_header(name):
            how = _OWN_HEADERS.get(name.lower(), "use impersonate_user and its neighbours")
            return f"headers: must not have {name}; {how}"
        if not (value.isascii() and value.isprintable()):
            return f"headers: {name} must not have line ends or special characters"
    return ""


def _url_problem(what: str, url: str) -> str:
    """Return why a URL cannot be used; empty if it can. Passwords in it are not shown."""
    quoted = url_text(url)
    shown = shortened(quoted, _MAX_SHOWN_CHARS)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return f"{what} {shown!r} is not an http or https URL with a host"
    is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and port != 0
    # urlsplit drops blanks and line ends, and an empty query: other readers of URLs do not.
    if not is_usable or _REFUSED_IN_URLS.search(url) or not _NETLOC.fullmatch(parts.netloc):
        is_socks = what == "proxy" and parts.scheme.startswith("socks")
        how = "; SOCKS is not supported, use an HTTP proxy or a tunnel" if is_socks else ""
        return f"{what} {shown!r} is not an http or https URL with a host{how}"
    if len(parts.hostname or "") > MAX_HOST_CHARS or len(url) > _MAX_URL_CHARS:
        return (
            f"{what} {shown!r} is too long: at most {MAX_HOST_CHARS} characters for the host, and"
            f" {_MAX_URL_CHARS} in all"
        )
    if what == "server" and "@" in parts.netloc:  # it would be part of every error
        return f"server {shown!r} must not contain a name or a password; use credentials instead"
    return ""
