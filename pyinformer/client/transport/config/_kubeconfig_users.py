"""Turn the user of a kubeconfig into credentials.

The order of precedence is: token file, token, name with password, exec plug-in, auth provider. A
client certificate is used beside each of them, and makes an exec plug-in unnecessary. Values that
are written in the kubeconfig are read again when the server refuses them: tools write new tokens.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from pyinformer.client.transport.config._blocking_call import BlockingCall
from pyinformer.client.transport.config._credentials import (
    ClientCertificate,
    Credentials,
    NoCredentials,
    StaticCredentials,
    TokenFileCredentials,
)
from pyinformer.client.transport.config._error_reasons import reason_of
from pyinformer.client.transport.config._login_metrics import LoginMetrics
from pyinformer.client.transport.config._renewing_credentials import Login, RenewingCredentials
from pyinformer.errors import ConfigurationError

if TYPE_CHECKING:
    from pyinformer.client.transport.config._kubeconfig_files import Section
    from pyinformer.objects import JSONObject


_EXEC_V1: Final = "client.authentication.k8s.io/v1"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigUser:
    """The user's entry of a kubeconfig, and what logging in needs beside it."""

    entry: Section
    cluster: JSONObject
    """The description of the cluster, for exec plug-ins."""

    trust_env: bool
    """Whether auth providers are reached by a proxy of the environment."""

    may_log_in: bool
    """Whether credentials may be obtained and sent. The connection may not be encrypted."""

    again: Callable[[], Section]
    """Reads the entry of the context's user again, which may be another entry by now."""

    def fields(self) -> dict[str, Any]:
        """Return the fields of ClusterConfig that the entry sets; its credentials have no login.

        Raises:
            ConfigurationError: the entry is malformed, or a file is missing.
        """
        entry = self.entry
        _check_methods(entry)
        certificate, key = entry.path("client-certificate"), entry.path("client-key")
        in_files = bool(certificate) and not _has_data(entry)
        if not self.may_log_in:
            return _impersonation(entry)
        fields: dict[str, Any] = {
            "client_certificate_file": certificate if in_files else None,
            "client_key_file": (key or None) if in_files else None,
            "credentials": self._credentials(),
        }
        if key and not (certificate or entry.text("client-certificate-data")):
            raise entry.problem("client-key: needs a client-certificate")
        return {**fields, **_impersonation(entry)}

    def _credentials(self) -> Credentials:
        token_file = self.entry.path("tokenFile")
        if token_file:
            return TokenFileCredentials(token_file, certificate=_certificate(self.entry))
        outcomes = LoginMetrics()
        log_in = self._log_in(outcomes)
        if log_in is not None:
            return RenewingCredentials(log_in, outcomes=outcomes)
        return self._written_in_kubeconfig()

    def _log_in(self, outcomes: LoginMetrics) -> Callable[[], Awaitable[Login]] | None:
        """Return the function that logs in; None if the entry needs no login."""
        entry = self.entry
        if entry.text("token") or entry.text("username"):
            return None
        if spec := entry.mapping("exec"):
            # As in client-go, UpdateTransportConfig of exec.go: a plug-in may ask the user.
            return None if _has_pair(entry) else self._exec(spec, outcomes)
        if entry.mapping("auth-provider"):
            from pyinformer.client.transport.config._oidc import OIDCLogin

            return OIDCLogin(
                entry,
                certificate=_certificate(entry),
                again=self.again,
                trust_env=self.trust_env,
            ).log_in
        return None

    def _exec(
        self, spec: Mapping[str, object], outcomes: LoginMetrics
    ) -> Callable[[], Awaitable[Login]]:
        from pyinformer.client.transport.config._exec_plugin import exec_plugin
        from pyinformer.client.transport.config._exec_process import run_exec_plugin

        plugin = exec_plugin(self.entry, spec, self.cluster)

        async def log_in() -> Login:
            login = await run_exec_plugin(plugin, on_call=outcomes.plugin_called)
            if login.certificate is not None:
                _check_certificate(login.certificate, plugin.problem)
            return login

        return log_in

    def _written_in_kubeconfig(self) -> Credentials:
        """Return the credentials in the kubeconfig itself; a refusal has them read again."""
        first = _login(self.entry)
        if not first.headers and first.certificate is None:
            return NoCredentials()

        reading: BlockingCall[Login] = BlockingCall("pyinformer reads a kubeconfig again")

        async def log_in() -> Login:
            # In a thread: a named pipe, or a file system of a network, may never answer.
            return await reading.run(self._written_now)

        return RenewingCredentials(log_in, first=first)

    def _written_now(self) -> Login:
        """Return the credentials that the kubeconfig holds by now.

        Raises:
            ConfigurationError: it holds none, or another way to log in: without credentials the
                requests would be those of another user.
        """
        entry = self.again()
        login = _login(entry)
        if login.headers or login.certificate is not None:
            return login
        ways = ("tokenFile", "exec", "auth-provider", "client-certificate")
        found = next((way for way in ways if entry.content.get(way)), "")
        what = f"it has {found} now" if found else "it has no credentials any more"
        raise entry.problem(
            f"{what}, where there were a token, a password or a certificate: restart the program"
            " to log in in another way"
        )


def _check_methods(user: Section) -> None:
    """Refuse what kubectl refuses: two ways to log in of which it is not clear which is meant.

    Raises:
        ConfigurationError: as described.

    Source:
        client-go tools/clientcmd/validation.go, validateAuthInfo; rest/transport.go.
    """
    if user.text("username") or user.text("password"):
        for key in ("token", "tokenFile"):
            if user.text(key):
                raise user.problem(f"{key}: must not be beside username or password")
    for key in ("client-certificate", "client-key"):
        user.check_alternatives(key)
    spec = user.mapping("exec")
    if spec is None:
        return
    if user.mapping("auth-provider") is not None:
        raise user.problem("exec: must not be beside auth-provider")
    if spec.get("apiVersion") == _EXEC_V1 and not spec.get("interactiveMode"):
        modes = "Never, IfAvailable or Always"
        raise user.problem(f"exec: interactiveMode: is missing; v1 needs one of {modes}")


def _impersonation(user: Section) -> dict[str, Any]:
    extra = user.mapping("as-user-extra") or {}
    pairs: list[tuple[str, str]] = []
    for key, values in extra.items():
        if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
            raise user.problem("as-user-extra: must be a mapping of lists of strings")
        pairs += [(key, value) for value in values]
    return {
        "impersonate_user": user.text("as") or None,
        "impersonate_groups": user.texts("as-groups"),
        "impersonate_uid": user.text("as-uid") or None,
        "impersonate_extra": tuple(pairs),
    }


def _login(user: Section) -> Login:
    authorization = _authorization(user)
    headers = {"Authorization": authorization} if authorization else {}
    return Login(headers, certificate=_certificate(user))


def _authorization(user: Section) -> str:
    token, name = user.text("token").strip(), user.text("username")
    if not token and name:
        basic = StaticCredentials.basic(name, user.text("password"))
        return basic.headers_nowait()["Authorization"]
    if not token:
        return ""
    try:
        return StaticCredentials.bearer(token).headers_nowait()["Authorization"]
    except ConfigurationError as error:
        raise user.problem(f"token: {error.reason}") from None


def _has_data(user: Section) -> bool:
    return any(user.text(f"{key}-data") for key in ("client-certificate", "client-key"))


def _has_pair(user: Section) -> bool:
    parts = ("client-certificate", "client-key")
    return all(user.text(key) or user.text(f"{key}-data") for key in parts)


def _certificate(user: Section) -> ClientCertificate | None:
    """Return the certificate that the entry holds as data; None if it holds none."""
    if not _has_data(user):
        return None
    parts: list[str] = []
    for key in ("client-certificate", "client-key"):
        text = user.data(f"{key}-data")
        if not text:
            text = user.file_content(key).decode("utf-8", "replace")
        if not text:
            raise user.problem(f"{key}: is missing; a certificate and its key are both needed")
        parts.append(text)
    certificate = ClientCertificate(*parts)
    _check_certificate(certificate, user.problem)
    return certificate


def _check_certificate(certificate: ClientCertificate, problem: Callable[[str], Exception]) -> None:
    """Raise what `problem` returns if TLS cannot use a certificate with its key."""
    import ssl

    try:
        certificate.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    except (OSError, ValueError) as error:
        reason = f"client-certificate-data, client-key-data: {reason_of(error)}"
        raise problem(reason) from None
