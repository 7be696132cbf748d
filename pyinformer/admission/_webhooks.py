"""How the webhooks of an operator are reached."""

# Pure: it knows no event loop.

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Final, final
from urllib.parse import urlsplit

from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import check_integer, check_text, is_namespace_name

_SELF: Final = "self"
_MAX_PORT: Final = 65_535
_PORT: Final = 9443


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """How the API server reaches an operator's webhooks, and by which certificates it trusts them.

        app = pyinformer.Operator("db", webhooks=pyinformer.Webhooks(service="acme/db"))

    Raises:
        InvalidArgumentError: a value is invalid, or neither or both of service and url are given.
        InvalidTypeError: a value is of another type.
    """

    service: str | None = None
    """The Service in front of the operator's pods, as `namespace/name`. For conversions there is a
    second one, with `-conversion` at the end of its name."""
    url: str | None = None
    """In place of a Service, the base of the URL, such as `https://10.0.2.2:9443` of a laptop that
    the API server can reach."""
    certificates: str | PathLike[str] = _SELF
    """`self` for a certificate that the operator makes, keeps in a Secret and renews by itself; or
    a folder with `tls.crt`, `tls.key` and, to let clients trust it, `ca.crt`, as cert-manager and
    mounted Secrets have it, which is read again when it changes."""
    client_ca: str | PathLike[str] | None = None
    """A file with the authority of the API server's client certificate, if it has one: other
    clients are then refused. None accepts every client, as is usual."""
    host: str = "::"
    """The address to listen on; `::` for all of IPv6 and IPv4."""
    port: int | None = None
    """The port to listen on; 0 for a free one, None for that of `url`, or 9443."""

    def __post_init__(self) -> None:
        if (self.service is None) == (self.url is None):
            reason = 'must be given, as "namespace/name"; or url= for a server outside the cluster'
            both = f"cannot be combined with url={self.url!r}: pass one of them"
            raise InvalidArgumentError("service", reason if self.service is None else both)
        if self.service is not None:
            check_text("service", self.service)
            namespace, _, name = self.service.partition("/")
            full = f"{name}-conversion"  # of the second Service
            if not is_namespace_name(namespace) or not is_namespace_name(full):
                reason = f'must be "namespace/name" of the Service, got {self.service!r}'
                raise InvalidArgumentError("service", reason)
        if self.url is not None:
            check_text("url", self.url)
            _check_url(self.url)
        for argument in ("certificates", "client_ca"):
            value = getattr(self, argument)
            if not isinstance(value, str | PathLike) and (argument, value) != ("client_ca", None):
                reason = f"must be a path, got {type(value).__name__}"
                raise InvalidTypeError(argument, reason)
            if value is not None and not fspath(value):
                raise InvalidArgumentError(argument, "must not be empty")
        check_text("host", self.host)
        if self.port is not None:
            check_integer("port", self.port, least=0)
            if self.port > _MAX_PORT:
                raise InvalidArgumentError("port", f"must be at most {_MAX_PORT}, got {self.port}")

    @property
    def listening_port(self) -> int:
        """The port to listen on; 0 for a free one."""
        if self.port is not None:
            return self.port
        return urlsplit(self.url or "").port or _PORT

    @property
    def folder(self) -> Path | None:
        """The folder of the certificates; None if the operator makes them itself."""
        return None if self.certificates == _SELF else Path(self.certificates)

    @property
    def conversion_service(self) -> str | None:
        """The Service by which conversions are asked for, as `namespace/name`; None for an URL.

        It has the replicas that are not ready, too: before the caches of one have synced, the
        server may have to convert what they list.
        """
        return None if self.service is None else f"{self.service}-conversion"

    @property
    def names(self) -> tuple[str, ...]:
        """The host names that the certificate has to have; the first is what clients verify."""
        if self.service is None:
            return (urlsplit(self.url or "").hostname or "",)
        services = (self.service, self.conversion_service or "")
        pairs = (one.partition("/") for one in services)
        hosts = [f"{name}.{namespace}.svc" for namespace, _, name in pairs]
        return (*hosts, *(f"{host}.cluster.local" for host in hosts))


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or parts.query or parts.fragment or parts.username is not None:
        raise InvalidArgumentError("url", f"must be like https://10.0.2.2:9443, got {url!r}")
