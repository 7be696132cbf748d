"""Log in by a kubeconfig's `auth-provider: oidc`: its id token, renewed with its refresh token.

A provider may accept a refresh token once only. Two logins of one entry therefore share their
tokens, a renewal that has begun is not interrupted, and new tokens go back into the kubeconfig.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Final, final
from weakref import WeakValueDictionary

import msgspec

from pyinformer._runtime.clock import wall_time
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.client.transport.config._blocking_call import BlockingCall
from pyinformer.client.transport.config._kubeconfig_edit import write_provider_values
from pyinformer.client.transport.config._kubeconfig_files import Section
from pyinformer.client.transport.config._oidc_token_refresh import (
    OIDCClient,
    Tokens,
    renewed_tokens,
)
from pyinformer.client.transport.config._renewing_credentials import Login
from pyinformer.objects import decoder_of

if TYPE_CHECKING:
    from pyinformer.client.transport.config._credentials import ClientCertificate

_log = get_logger(__name__)

_LEAST_SECONDS: Final = 10.0  # as client-go: a token that ends sooner is renewed at once
_JWT_PARTS: Final = 3
_REMOVED: Final = {
    "gcp": "gke-gcloud-auth-plugin",
    "azure": "kubelogin",
}


class _Claims(msgspec.Struct):
    exp: float | None = None


_decode_claims = decoder_of(_Claims, skims=True)


@final
class _SharedTokens:
    """The tokens of one entry in this process."""

    def __init__(self) -> None:
        self.lock = Lock()  # held during a renewal: the next one finds its tokens
        self.written = Tokens("", "")
        """What the kubeconfig held when it was last read or written."""
        self.latest = Tokens("", "")
        """The newest tokens; others than `written` if the file could not be changed."""
        self.has_warned = False

    def read(self, found: Tokens) -> None:
        """Take over what the kubeconfig holds, if another program has changed it."""
        if found != self.written:
            self.written = self.latest = found


_shared: WeakValueDictionary[tuple[str, ...], _SharedTokens] = WeakValueDictionary()
# Those that are in no file: a later connection of this process would be left with spent ones.
_unwritten: dict[tuple[str, ...], _SharedTokens] = {}
_shared_lock = Lock()


@final
class OIDCLogin:
    """Logs in by the tokens of one entry of a kubeconfig.

    Args:
        entry: the user's entry.
        certificate: a client certificate that the entry has beside the tokens.
        again: reads the entry again; it may have another name by now.
        trust_env: whether a proxy of the environment is used for the provider.

    Raises:
        ConfigurationError: the entry lacks a value, or has one that cannot be used.
    """

    def __init__(
        self,
        entry: Section,
        *,
        certificate: ClientCertificate | None,
        again: Callable[[], Section],
        trust_env: bool,
    ) -> None:
        self._certificate = certificate
        self._again = again
        self._trust_env = trust_env
        self._given = ""  # the id token of the last login; asked again, a newer one is needed
        self._renewal: BlockingCall[str] = BlockingCall("pyinformer renews an id token")
        self._key: tuple[str, ...] = ()
        self._share(entry)

    def _share(self, entry: Section) -> None:
        """Share the tokens of an entry, which is another one when the context's user was changed.

        Raises:
            ConfigurationError: a value is missing or malformed.
        """
        client, _ = self._read(entry)
        self._key = (os.path.realpath(entry.file), entry.name, client.issuer, client.client_id)
        with _shared_lock:
            self._tokens = _shared.setdefault(self._key, _SharedTokens())

    async def log_in(self) -> Login:
        """Return an id token that is valid and newer than that of the last login.

        Raises:
            ConfigurationError: there is none, and it cannot be renewed.

        Cancellation:
            Safe; a renewal that has begun continues, and the next call returns its result.
        """
        token = await self._renewal.run(self._next)
        self._given = token
        return Login(
            {"Authorization": f"Bearer {token}"},
            certificate=self._certificate,
            expires_at=_expiry(token),
        )

    def _next(self) -> str:
        """Return the next id token; runs in a thread, since it reads files and may wait.

        Raises:
            ConfigurationError: there is none.
        """
        self._share(self._again())
        tokens = self._tokens
        with tokens.lock:
            entry = self._again()
            client, found = self._read(entry)
            tokens.read(found)
            if self._is_usable(tokens.latest.id_token):
                return tokens.latest.id_token
            if not tokens.latest.refresh_token:
                what = "has expired" if tokens.latest.id_token else "is missing"
                raise client.problem(
                    f"the id-token {what} or was refused, and there is no refresh-token: log in"
                    " again, or use an exec plug-in that renews it"
                )
            renewed = asyncio.run(renewed_tokens(client, tokens.latest.refresh_token))
            if renewed is None:
                return self._after_refusal(client)
            tokens.latest = renewed
            self._write(entry, renewed)
            return renewed.id_token

    def _after_refusal(self, client: OIDCClient) -> str:
        """Return an id token that another program has written while the renewal was under way.

        Raises:
            ConfigurationError: there is none.
        """
        self._tokens.read(self._read(self._again())[1])
        if self._is_usable(self._tokens.latest.id_token):
            return self._tokens.latest.id_token
        raise client.problem(
            "the provider refused the refresh-token (invalid_grant): it has expired, or another"
            " program has used it; log in again"
        )

    def _is_usable(self, id_token: str) -> bool:
        if not id_token or id_token == self._given or not is_jwt(id_token):
            return False
        expires_at = _expiry(id_token)
        return expires_at is None or wall_time() + _LEAST_SECONDS < expires_at

    def _write(self, entry: Section, renewed: Tokens) -> None:
        """Write new tokens into the kubeconfig; where that is not possible, keep them here."""
        tokens = self._tokens
        values = {"id-token": renewed.id_token, "refresh-token": renewed.refresh_token}
        reason = write_provider_values(entry.file, entry.name, values)
        with _shared_lock:
            if reason:
                _unwritten[self._key] = tokens
            else:
                tokens.written = renewed
                _unwritten.pop(self._key, None)
        if reason and not tokens.has_warned:
            tokens.has_warned = True
            _log.warning(
                "could not write renewed tokens into %s (%s): %s; this process keeps them, other"
                " programs may have to log in again",
                entry.file,
                entry.where,
                reason,
            )

    def _read(self, entry: Section) -> tuple[OIDCClient, Tokens]:
        """Return the client and the tokens of an entry.

        Raises:
            ConfigurationError: a value is missing or malformed.
        """
        config = provider_config(entry)
        issuer, client_id = config.text("idp-issuer-url"), config.text("client-id")
        for key, value in (("idp-issuer-url", issuer), ("client-id", client_id)):
            if not value:
                raise config.problem(f"{key}: is missing")
        ca_data = config.data("idp-certificate-authority-data")
        client = OIDCClient(
            issuer=issuer,
            client_id=client_id,
            client_secret=config.text("client-secret"),
            ca_file=None if ca_data else config.path("idp-certificate-authority") or None,
            ca_data=ca_data or None,
            trust_env=self._trust_env,
            problem=config.problem,
        )
        found = Tokens(config.text("id-token").strip(), config.text("refresh-token").strip())
        for key, value in (("id-token", found.id_token), ("refresh-token", found.refresh_token)):
            if not (value.isascii() and value.isprintable()):
                raise config.problem(f"{key}: must not have line ends or special characters")
        return client, found


def provider_config(entry: Section) -> Section:
    """Return the `config` of a user's auth provider.

    Raises:
        ConfigurationError: the auth provider is not `oidc`, or malformed.
    """
    where = f"{entry.where}: auth-provider"
    provider = Section(entry.file, where, entry.mapping("auth-provider") or {})
    name = provider.text("name")
    if name != "oidc":
        plugin = _REMOVED.get(name)
        how = f"the exec plug-in {plugin}" if plugin else "an exec plug-in"
        shown = f" {name}" if plugin else ""
        raise provider.problem(f"name:{shown} is not supported; only oidc is, use {how} instead")
    return Section(
        entry.file, f"{entry.where}: auth-provider oidc", provider.mapping("config") or {}
    )


def is_jwt(token: str) -> bool:
    """Return whether a token has the three parts of a JSON Web Token."""
    return token.count(".") == _JWT_PARTS - 1


def _expiry(token: str) -> float | None:
    """Return when an id token expires; None if it has none."""
    part = token.split(".")[1] if is_jwt(token) else ""
    try:
        claims = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        return _decode_claims(claims).exp
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return None
