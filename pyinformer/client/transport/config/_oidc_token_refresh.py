"""Renew tokens at an OpenID Connect provider: read its metadata, then send the refresh token once.

No error quotes what the provider has answered: it may quote the secrets that it was sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, final
from urllib.parse import quote_plus, urlencode, urlsplit

import anyio
import msgspec

from pyinformer.client.transport.config._cluster_config import MAX_HOST_CHARS, ClusterConfig
from pyinformer.client.transport.config._credentials import StaticCredentials
from pyinformer.client.transport.config._error_reasons import reason_of
from pyinformer.client.transport.config._proxy_environment import environment_proxy, is_loopback
from pyinformer.errors import ConfigurationError
from pyinformer.objects import decoder_of

if TYPE_CHECKING:
    import aiohttp

_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_TOTAL_SECONDS: Final = 30.0  # both requests; less than streams wait for credentials
_MAX_BYTES: Final = 1 << 20  # as golang.org/x/oauth2
_REFUSED: Final = 400
_TOO_MANY: Final = 429
_SERVER_ERROR: Final = 500
# RFC 6749, 5.2. Any other word may quote what was sent.
_CODES: Final = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
    }
)


@final
@dataclass(frozen=True, slots=True)
class Tokens:
    """What an OpenID Connect login consists of; empty for a token that is absent."""

    id_token: str = field(repr=False)
    refresh_token: str = field(repr=False)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OIDCClient:
    """A client of an OpenID Connect provider, as the provider knows it."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    """Empty for a public client."""

    ca_file: str | None
    ca_data: str | None
    """The authorities of the provider's certificate; without both, those of the system."""

    trust_env: bool
    """Whether a proxy of the environment is used."""

    problem: Callable[[str], ConfigurationError] = field(repr=False, compare=False)
    """Returns the error for a problem of this login."""


class _Metadata(msgspec.Struct):
    token_endpoint: str | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None


class _Answer(msgspec.Struct):
    id_token: str | None = None
    refresh_token: str | None = None
    error: str | None = None


_decode_metadata = decoder_of(_Metadata, skims=True)
_decode_answer = decoder_of(_Answer, skims=True)


async def renewed_tokens(client: OIDCClient, refresh_token: str) -> Tokens | None:
    """Send a refresh token and return the new tokens; None if the provider refuses the token.

    Args:
        client: the client to which the token was given.
        refresh_token: the token; it is returned as well if the provider returns no other one.

    Raises:
        ConfigurationError: the provider was not reached, or its answer cannot be used.

    Cancellation:
        New tokens that were on their way are lost.

    Source:
        client-go plugin/pkg/client/auth/oidc/oidc.go; golang.org/x/oauth2 internal/token.go.
    """
    import aiohttp

    host = urlsplit(_checked(client, "idp-issuer-url", client.issuer)).netloc
    try:
        async with _session(client) as session:
            with anyio.fail_after(_TOTAL_SECONDS):
                metadata = await _metadata(client, session)
                host = urlsplit(metadata.token_endpoint or "").netloc
                return await _refreshed(client, session, metadata, refresh_token)
    except TimeoutError:
        reason = f"{host} did not answer within {_TOTAL_SECONDS:g} s"
    except aiohttp.ClientConnectorCertificateError as error:
        host = f"{error.host}:{error.port}"
        why = reason_of(error.certificate_error)
        reason = f"cannot verify the certificate of {host}, so nothing was sent: {why}"
    except aiohttp.ClientConnectorError as error:
        reason = f"cannot connect to {error.host}:{error.port}: {reason_of(error.os_error)}"
    except aiohttp.ClientHttpProxyError as error:
        reason = f"the proxy for {host} answered with status {error.status}"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if isinstance(error, ConfigurationError):
            raise
        reason = f"the connection to {host} failed ({type(error).__name__})"
    raise client.problem(reason)


def _session(client: OIDCClient) -> aiohttp.ClientSession:
    import aiohttp

    from pyinformer.client.transport.aborting_connector import AbortingConnector

    tls = ClusterConfig(
        server=client.issuer.partition("?")[0], ca_file=client.ca_file, ca_data=client.ca_data
    )
    try:
        context = tls.ssl_context()
    except ConfigurationError as error:
        raise client.problem(f"idp-certificate-authority: {error.reason}") from None
    return aiohttp.ClientSession(
        connector=AbortingConnector(ssl=context if context is not None else True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        headers={"Accept": "application/json", "User-Agent": "pyinformer"},
    )


def _checked(client: OIDCClient, what: str, url: str) -> str:
    """Return a URL to which secrets may be sent.

    Raises:
        ConfigurationError: it is not https, nor on this host.
    """
    try:
        parts = urlsplit(url)
        is_host = 0 < len(parts.hostname or "") <= MAX_HOST_CHARS
        is_url = is_host and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        is_url = False
    if not is_url or parts.scheme not in {"http", "https"}:
        raise client.problem(f"{what} must be an https URL with a host")
    if parts.scheme == "http" and not is_loopback(url):
        reason = f"{what} must be https: a refresh token is not sent to {parts.netloc} in the clear"
        raise client.problem(reason)
    return url


def _proxy(client: OIDCClient, url: str) -> str | None:
    return environment_proxy(url, os.environ)[0] or None if client.trust_env else None


async def _metadata(client: OIDCClient, session: aiohttp.ClientSession) -> _Metadata:
    """Return what the provider says of itself.

    Raises:
        ConfigurationError: it is not a provider, or has no usable token endpoint.

    Cancellation:
        Safe.
    """
    url = client.issuer.removesuffix("/") + _WELL_KNOWN
    async with session.get(url, proxy=_proxy(client, url)) as response:
        for one in (*response.history, response):  # what leads there decides where secrets go
            _checked(client, f"a redirect of {urlsplit(url).netloc}", str(one.url))
        raw = await _body(client, response)
    if response.status != 200:  # noqa: PLR2004
        raise client.problem(f"{url} answered with status {response.status}: is it the issuer?")
    try:
        metadata = _decode_metadata(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise client.problem(f"{url} did not answer with OpenID Connect metadata") from None
    if not metadata.token_endpoint:
        raise client.problem(f"the metadata at {url} has no token_endpoint")
    _checked(client, f"the token_endpoint at {url}", metadata.token_endpoint)
    return metadata


async def _refreshed(
    client: OIDCClient, session: aiohttp.ClientSession, metadata: _Metadata, refresh_token: str
) -> Tokens | None:
    """Send the refresh token, again if the provider wants the client to log in in another way.

    Returns:
        The new tokens; None if the provider refused the refresh token itself.

    Raises:
        ConfigurationError: the provider refused, or its answer has no usable id token.

    Cancellation:
        New tokens that were on their way are lost.
    """
    code, status = "", 0
    for in_header in _styles(client, metadata):
        status, answer = await _post(
            client, session, metadata.token_endpoint or "", refresh_token, in_header=in_header
        )
        if status < _REFUSED and not answer.error:
            return _tokens(client, answer, refresh_token)
        code = answer.error if answer.error in _CODES else ""
        if code == "invalid_grant":
            return None
        # Only an answer that blames the client is tried again: after any other one, the provider
        # may have replaced the refresh token.
        if status == _TOO_MANY or status >= _SERVER_ERROR:
            break
    named = f"status {status}" + (f", {code}" if code else "")
    raise client.problem(f"the provider refused the login of the client ({named})")


def _styles(client: OIDCClient, metadata: _Metadata) -> Iterator[bool]:
    """Yield whether the client's id and secret go in the header, the likelier way first.

    As client-go, both are tried. It begins with the header; a public client, and one whose provider
    names other ways only, is tried the other way first: each refusal may count as an attack.
    """
    known = metadata.token_endpoint_auth_methods_supported
    first = bool(client.client_secret) and (known is None or "client_secret_basic" in known)
    yield first
    yield not first


async def _post(
    client: OIDCClient,
    session: aiohttp.ClientSession,
    url: str,
    refresh_token: str,
    *,
    in_header: bool,
) -> tuple[int, _Answer]:
    """Send the refresh token once; return the status and the answer.

    Raises:
        ConfigurationError: the answer is not JSON, or a redirect.

    Cancellation:
        New tokens that were on their way are lost.
    """
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    headers: dict[str, str] = {"Content-Type": "application/x-www-form-urlencoded"}
    if in_header:
        pair = (quote_plus(client.client_id), quote_plus(client.client_secret))
        headers |= StaticCredentials.basic(*pair).headers_nowait()
    else:
        form["client_id"] = client.client_id
        if client.client_secret:
            form["client_secret"] = client.client_secret
    async with session.post(
        url,
        data=urlencode(form).encode(),
        headers=headers,
        proxy=_proxy(client, url),
        allow_redirects=False,
    ) as response:
        raw = await _body(client, response)
    host = urlsplit(url).netloc
    if 300 <= response.status < _REFUSED:  # noqa: PLR2004
        raise client.problem(f"{host} answered with a redirect: no refresh token is sent there")
    try:
        return response.status, _decode_answer(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if response.status >= _REFUSED:
            return response.status, _Answer()
        raise client.problem(f"{host} did not answer with tokens in JSON") from None


async def _body(client: OIDCClient, response: aiohttp.ClientResponse) -> bytes:
    """Read a body of at most 1 MiB.

    Raises:
        ConfigurationError: it is longer.

    Cancellation:
        Safe; what was read is lost.
    """
    found = bytearray()
    async for part in response.content.iter_any():
        found += part
        if len(found) > _MAX_BYTES:
            raise client.problem(f"{response.host} answered with more than {_MAX_BYTES} bytes")
    return bytes(found)


def _tokens(client: OIDCClient, answer: _Answer, refresh_token: str) -> Tokens:
    if not answer.id_token:
        raise client.problem(
            "the provider returned no id_token: log in again with the scope openid, or use a"
            " provider that renews id tokens"
        )
    for name, value in (("id_token", answer.id_token), ("refresh_token", answer.refresh_token)):
        if value and not (value.isascii() and value.isprintable()):
            raise client.problem(f"the provider returned a {name} with special characters")
    return Tokens(answer.id_token, answer.refresh_token or refresh_token)
