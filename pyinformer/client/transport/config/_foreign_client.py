"""Reach a server as another Kubernetes client does: read its Configuration or its ApiClient.

kubernetes_asyncio, the official kubernetes package and its kubernetes.aio are recognized by their
attributes, and none of them is imported. Only their settings are shared: connections are not.
"""

from __future__ import annotations

import asyncio
import ssl
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias
from urllib.parse import unquote

from pyinformer._printable import shortened
from pyinformer._runtime.tasks import is_asynchronous, place_of
from pyinformer.client.transport.config._blocking_call import BlockingCall
from pyinformer.client.transport.config._cluster_config import ClusterConfig, is_own_header
from pyinformer.client.transport.config._credentials import StaticCredentials
from pyinformer.client.transport.config._error_reasons import url_text
from pyinformer.client.transport.config._proxy_environment import is_listed
from pyinformer.client.transport.config._renewing_credentials import Login, RenewingCredentials
from pyinformer.errors import ConfigurationError, InvalidTypeError, LifecycleError

if TYPE_CHECKING:
    from collections.abc import Iterator

_BEARER: Final = "BearerToken"
_GENERATED: Final = "OpenAPI-Generator/"  # how the User-Agent begins that a program did not set
_IMPERSONATE_EXTRA: Final = "impersonate-extra-"
_DESTINATION: Final = ("host", "proxy", "tls_server_name")  # a gateway may choose by its name
_MAX_SHOWN_CHARS: Final = 200


class ClientConfiguration(Protocol):
    """The `Configuration` of kubernetes_asyncio, kubernetes or kubernetes.aio."""

    @property
    @abstractmethod
    def host(self) -> str | None:
        """The server's URL."""
        ...

    @abstractmethod
    def auth_settings(self) -> object:
        """Return what authenticates a request, renewed if that is due."""
        ...


class ConfiguredClient(Protocol):
    """An `ApiClient` or a `DynamicClient` of kubernetes_asyncio, kubernetes or kubernetes.aio."""

    @property
    @abstractmethod
    def configuration(self) -> ClientConfiguration:
        """Its configuration."""
        ...


ForeignClient: TypeAlias = ClientConfiguration | ConfiguredClient
"""A client of another library, or its configuration."""


def config_from_client(client: ForeignClient) -> ClusterConfig:
    """Return the configuration that reaches a server as another client does.

    The address, certificates, proxy, headers and impersonation are read now; what authenticates is
    asked for before each request, so `refresh_api_key_hook` and changes of `api_key` apply. A hook
    of the official package blocks, and is called in a thread. Once the configuration is loaded for
    another server, its login is not sent to the first one.

    Args:
        client: the `Configuration` of kubernetes_asyncio, kubernetes or kubernetes.aio, or a client
            made with one; of a client, its default headers are taken over too.

    Raises:
        ConfigurationError: the configuration has no host, or a setting that cannot be taken over.
        InvalidTypeError: this is not such a client or configuration.
        LifecycleError: the client is closed, or belongs to another event loop.
    """
    configuration = _configuration_of(client)
    source = f"the Configuration of {_package(configuration)}"
    _check_session(client)
    if problem := _problem(configuration):
        raise ConfigurationError(source, problem)
    headers = _default_headers(client, source)
    config = ClusterConfig(
        server=configuration.host,
        ca_file=configuration.ssl_ca_cert or None,
        ca_data=_pem(getattr(configuration, "ca_cert_data", None)),
        client_certificate_file=configuration.cert_file or None,
        client_key_file=configuration.key_file or None,
        verify_tls=bool(configuration.verify_ssl),
        check_hostname=configuration.assert_hostname is not False,
        tls_server_name=_server_name(configuration),
        proxy_url=configuration.proxy or None,
        # With a `no_proxy`, it has read the environment itself when it was made.
        trust_env=not hasattr(configuration, "no_proxy"),
        headers=tuple(_further(headers)),
        credentials=RenewingCredentials(
            partial(
                _log_in,
                client,
                configuration,
                source,
                BlockingCall("refresh_api_key_hook"),
                _destination(configuration),
            ),
            each_request=True,
        ),
        source=source,
        **_impersonation(headers),
    )
    if is_listed(config.server, getattr(configuration, "no_proxy", None) or ""):
        config = replace(config, proxy_url=None)
    return config


def _default_headers(client: object, source: str) -> dict[str, str]:
    """Return the headers that a client sends with every request; a configuration has none.

    Raises:
        ConfigurationError: they are not a mapping.
    """
    found = getattr(client, "default_headers", None) or {}
    if not isinstance(found, Mapping):
        reason = f"default_headers must be a mapping, got {type(found).__name__}"
        raise ConfigurationError(source, reason)
    return {str(name).lower(): str(value) for name, value in found.items()}


def _configuration_of(client: object) -> Any:  # noqa: ANN401 - its attributes are checked
    """Return the configuration of a client, or what is one itself.

    Raises:
        InvalidTypeError: it is neither.
    """
    for found in (client, getattr(client, "configuration", None)):
        is_instance = found is not None and not isinstance(found, type)
        if is_instance and callable(getattr(type(found), "auth_settings", None)):
            return found
    given = f"the class {client.__name__}" if isinstance(client, type) else type(client).__name__
    reason = (
        "must be a ClusterConfig, or a Configuration or an ApiClient of kubernetes_asyncio or"
        f" kubernetes, not {given}; for other clients, connect() reads the same kubeconfig"
    )
    raise InvalidTypeError("config", reason)


def _package(configuration: object) -> str:
    return type(configuration).__module__.partition(".client")[0]


def _check_session(client: object) -> None:
    """Refuse a client whose session cannot be used here any more: its hooks could not be either.

    Raises:
        LifecycleError: as described.
    """
    session = getattr(getattr(client, "rest_client", None), "pool_manager", None)
    loop = getattr(session, "_loop", None)
    how = "pass its configuration instead: connect(config=client.configuration)"
    if getattr(session, "closed", False) is True:
        raise LifecycleError(f"config: the ApiClient is closed; {how}")
    if loop is None:
        return
    if loop.is_closed():
        raise LifecycleError(f"config: the ApiClient belongs to a closed event loop; {how}")
    if loop is not _running():
        raise LifecycleError(f"config: the ApiClient belongs to another event loop; {how}")


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _problem(configuration: Any) -> str:  # noqa: ANN401
    """Return which setting cannot be taken over, and what to do; empty if all can."""
    if not configuration.host:
        return (
            "host is not set; load a kubeconfig into it first, such as"
            " `load_kube_config(client_configuration=configuration)`, or set `configuration.host`"
        )
    if configuration.proxy and configuration.proxy_headers:
        return (
            "proxy_headers cannot be taken over; put a name and a password into the URL:"
            " http://name:password@host:port"
        )
    keys = configuration.api_key
    if keys and not {_BEARER, "authorization"} & {*keys}:
        return f"api_key must have {_BEARER!r}, got {', '.join(map(repr, keys))}"
    expected, name = configuration.assert_hostname, configuration.tls_server_name
    if isinstance(expected, str) and name and expected != name:
        return f"assert_hostname {expected!r} and tls_server_name {name!r} must be the same"
    return ""


def _pem(data: str | bytes | None) -> str | None:
    """Return certificate authorities as PEM text; bytes may also be DER."""
    if not data or isinstance(data, str):
        return data or None
    if b"-----BEGIN" in data:
        return data.decode("ascii", "replace")
    return ssl.DER_cert_to_PEM_cert(data)


def _server_name(configuration: Any) -> str | None:  # noqa: ANN401
    expected = configuration.assert_hostname
    return (expected if isinstance(expected, str) else configuration.tls_server_name) or None


def _further(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the default headers that requests of any client should have."""
    for name, value in headers.items():
        is_generated = name == "user-agent" and value.startswith(_GENERATED)
        if not is_generated and not is_own_header(name) and name != "cookie":
            yield name, value


def _impersonation(headers: Mapping[str, str]) -> dict[str, Any]:
    group = headers.get("impersonate-group")
    return {
        "impersonate_user": headers.get("impersonate-user"),
        "impersonate_groups": (group,) if group else (),
        "impersonate_uid": headers.get("impersonate-uid"),
        "impersonate_extra": tuple(
            (unquote(name.removeprefix(_IMPERSONATE_EXTRA)), value)
            for name, value in headers.items()
            if name.startswith(_IMPERSONATE_EXTRA)
        ),
    }


async def _log_in(
    client: object,
    configuration: Any,  # noqa: ANN401
    source: str,
    blocking: BlockingCall[Any],
    destination: tuple[str, ...],
) -> Login:
    """Return what the other client would authenticate its next request with.

    Raises:
        ConfigurationError: the hook failed, or what it left cannot be sent in a header; or the
            configuration leads to another server by now, which its login is for.

    Cancellation:
        Safe; a hook in a thread ends on its own.
    """
    defaults = _default_headers(client, source)
    value = await _api_key(configuration, source, blocking) or defaults.get("authorization")
    if not value and configuration.username:
        for name in ("username", "password"):
            _check_text(name, getattr(configuration, name), source)
        try:
            value = configuration.get_basic_auth_token()
        except Exception as error:  # noqa: BLE001 - of the other library, or of the program
            reason = f"get_basic_auth_token failed: {type(error).__name__} {place_of(error)}"
            raise ConfigurationError(source, reason) from None
    cookie = getattr(client, "cookie", None) or defaults.get("cookie")
    # Last: the program may have loaded another cluster while the hook ran.
    _check_destination(configuration, source, destination)
    _check_text("api_key", value, source)
    _check_text("cookie", cookie, source)
    headers = StaticCredentials(value.strip()).headers_nowait() if value else {}
    return Login({**headers, "Cookie": cookie} if cookie else headers)


def _destination(configuration: Any) -> tuple[str, ...]:  # noqa: ANN401
    """Return what says which server a configuration leads to."""
    return tuple(str(getattr(configuration, name) or "").rstrip("/") for name in _DESTINATION)


def _check_destination(configuration: object, source: str, first: tuple[str, ...]) -> None:
    """Refuse the login of a configuration that leads elsewhere than when it was taken over.

    Raises:
        ConfigurationError: as described.
    """
    now = _destination(configuration)
    if now == first:
        return
    pairs = zip(_DESTINATION, first, now, strict=True)
    changed = next(name for name, old, new in pairs if old != new)
    # A proxy's URL may have a password.
    to = f" ({shortened(url_text(now[0]), _MAX_SHOWN_CHARS)})" if changed == "host" else ""
    reason = (
        f"its {changed} has changed{to}: its login is for another server than this connection's,"
        " and is not sent; use a Configuration for each cluster, or connect again"
    )
    raise ConfigurationError(source, reason)


def _check_text(name: str, value: object, source: str) -> None:
    """Refuse a setting that is neither a string nor missing; its value is not shown.

    Raises:
        ConfigurationError: as described.
    """
    if value is not None and not isinstance(value, str):
        reason = f"{name} must be a string, got {type(value).__name__}"
        raise ConfigurationError(source, reason)


async def _api_key(
    configuration: Any,  # noqa: ANN401
    source: str,
    blocking: BlockingCall[Any],
) -> str | None:
    """Return the value of the Authorization header; None if the configuration has none.

    Raises:
        ConfigurationError: the hook failed, or the settings have another form.

    Cancellation:
        Safe; a hook in a thread ends on its own.
    """
    ask = configuration.auth_settings
    try:
        if is_asynchronous(ask):
            found = await ask()
        elif configuration.refresh_api_key_hook is None:
            found = ask()
        else:  # it may run a command
            found = await blocking.run(ask)
    except Exception as error:  # noqa: BLE001 - a hook is code of the program
        # Its text may quote the token; the place leads to the cause.
        reason = f"refresh_api_key_hook failed: {type(error).__name__} {place_of(error)}"
        raise ConfigurationError(source, reason) from None
    setting = found.get(_BEARER, {}) if isinstance(found, Mapping) else None
    if not isinstance(setting, Mapping):
        reason = f"auth_settings() must return a mapping with a mapping as {_BEARER!r}, if any"
        raise ConfigurationError(source, f"{reason}; it has another form")
    value: str | None = setting.get("value")
    return value
