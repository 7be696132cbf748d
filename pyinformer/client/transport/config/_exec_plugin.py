"""The exec credential plug-in protocol: what the command is given, and what its output means.

The output of a plug-in is secret: no error quotes it. Of its error output, errors quote the last
lines, without what looks like a secret.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, cast, final, get_args

import msgspec

from pyinformer.client.transport.config._credentials import ClientCertificate
from pyinformer.client.transport.config._kubeconfig_files import Section
from pyinformer.client.transport.config._renewing_credentials import Login
from pyinformer.errors import ConfigurationError
from pyinformer.objects import REDACTED, JSONObject, decoder_of

InteractiveMode = Literal["Never", "IfAvailable", "Always"]

API_VERSIONS: Final = tuple(f"client.authentication.k8s.io/{one}" for one in ("v1", "v1beta1"))
_KIND = "ExecCredential"
_LAST_LINES = 8
_LINE_CHARS = 300
_SHORTEST_SECRET = 6  # shorter values, such as "true", are words
_SECRET_CHARS = 20
# Longer than words: tokens, keys, certificates, signatures of URLs.
_LONG: Final = re.compile(r"[A-Za-z0-9_+/=~-]{20,}(?:\.[A-Za-z0-9_+/=~-]+)*")
_USER_INFO: Final = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_QUERY_VALUE: Final = re.compile(r"([?&][^=?&\s]*+=)[^&\s]+")
_QUOTED: Final = r""""[^"]*"?|'[^']*'?"""
_HEADER: Final = re.compile(r"(?i)((?:cookie|authorization)[\"']?\s*[:=]\s*).+")
_PASSWORD: Final = re.compile(
    rf"(?i)((?:pass(?:word|wd|phrase)?|pwd|secret)[\"']?\s*[:=]>?\s*)(?:{_QUOTED}|[^,;&]+)"
)
_LABELLED: Final = re.compile(
    r"(?i)((?:token|secret|password|passwd|credential|key|bearer|basic|session|signature)"
    rf"(?:[\"']?[\s:=>]+|\W{{1,4}}))(?:{_QUOTED}|\S+)"
)


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _Answer(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


_decode_json = decoder_of(_Answer)
_UNREADABLE: Final = (msgspec.DecodeError, ValueError)


def _decoded(printed: bytes) -> _Answer:
    """Read an answer in JSON, or in YAML, which client-go reads too.

    Raises:
        msgspec.DecodeError: the fields have other types, or the text is JSON and malformed.
        ValueError: it is not UTF-8, or malformed YAML.
    """
    from pyinformer.objects import load_yaml

    if printed.lstrip()[:1] in {b"{", b""}:
        return _decode_json(printed)
    return msgspec.convert(load_yaml(printed), _Answer)


class _Variable(msgspec.Struct):
    name: str
    value: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A command that logs in, as a kubeconfig describes it."""

    where: str
    """The entry of the user, for errors: `context 'prod': users 'jane'`."""

    source: str
    """The kubeconfig file."""

    command: str
    """The program: a name to find in PATH, or a path."""

    api_version: str
    """The version of the protocol."""

    args: tuple[str, ...] = ()
    """The arguments of the command."""

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that the command gets beside those of this process."""

    interactive_mode: InteractiveMode = "IfAvailable"
    """Whether the command may ask the user at the terminal."""

    install_hint: str = ""
    """How to install the command, for the error if it is missing."""

    cluster: JSONObject | None = field(default=None, repr=False)
    """The description of the cluster that the command gets; None for no description."""

    def problem(self, reason: str) -> ConfigurationError:
        """Return the error for a problem with this plug-in."""
        return ConfigurationError(
            self.source, f"{self.where}: exec {_shown(self.command)}: {reason}"
        )

    def is_interactive(self, *, has_terminal: bool) -> bool:
        """Return whether the command is given the terminal.

        Raises:
            ConfigurationError: the command needs a terminal, and there is none.
        """
        if self.interactive_mode == "Always" and not has_terminal:
            raise self.problem(
                "interactiveMode is Always, but standard input is not a terminal: log in at a"
                " terminal, or use credentials that need no user"
            )
        return has_terminal and self.interactive_mode != "Never"

    def environment(self, environ: Mapping[str, str], *, interactive: bool) -> dict[str, str]:
        """Return the command's environment.

        Source:
            client-go plugin/pkg/client/auth/exec/exec.go, refreshCredsLocked; KEP-541.
        """
        spec: JSONObject = {"interactive": interactive}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        info = {"apiVersion": self.api_version, "kind": _KIND, "spec": spec}
        return {**environ, **self.env, "KUBERNETES_EXEC_INFO": json.dumps(info, default=str)}

    def secrets(self, printed: bytes) -> Iterator[str]:
        """Yield the secrets among what the command was given and what it printed."""
        yield from (value for value in self.env.values() if len(value) >= _SHORTEST_SECRET)
        with contextlib.suppress(*_UNREADABLE):
            status = _decoded(printed).status or _Status()
            yield from (one for one in (status.token, status.client_key_data) if one)

    def login(self, printed: bytes) -> Login:
        """Read the login that the command printed.

        Raises:
            ConfigurationError: the output is not an ExecCredential with a token or a certificate.
        """
        status = self._status(printed)
        token = (status.token or "").strip()
        pair = (status.client_certificate_data or "", status.client_key_data or "")
        if any(pair) and not all(pair):
            raise self.problem("printed one of clientCertificateData and clientKeyData, not both")
        if not (token or any(pair)):
            raise self.problem("printed neither a token nor a client certificate")
        if not (token.isascii() and token.isprintable()):
            raise self.problem("printed a token with characters that a header cannot carry")
        return Login(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            certificate=ClientCertificate(*pair) if any(pair) else None,
            expires_at=self._expiry(status.expiration_timestamp),
        )

    def _status(self, printed: bytes) -> _Status:
        try:
            answer = _decoded(printed)
        except _UNREADABLE:
            # The library's text may quote the output, which may be the token itself.
            raise self.problem(f"the output is not an {_KIND} in JSON or YAML") from None
        if answer.kind not in {_KIND, ""} or answer.api_version != self.api_version:
            raise self.problem(
                f"printed {_safe(answer.api_version)!r} {_safe(answer.kind)!r}, not"
                f" {self.api_version} {_KIND}"
            )
        if answer.status is None:
            raise self.problem(f"the printed {_KIND} has no status")
        return answer.status

    def _expiry(self, text: str | None) -> float | None:
        if not text:
            return None
        try:
            expiry = datetime.fromisoformat(text)
        except ValueError:
            raise self.problem("expirationTimestamp must be a time as of RFC 3339") from None
        if expiry.year == 1:
            return None  # the zero time of Go: no expiry
        return (expiry if expiry.tzinfo else expiry.replace(tzinfo=UTC)).timestamp()


def exec_plugin(user: Section, spec: Mapping[str, object], cluster: JSONObject) -> ExecPlugin:
    """Read the `exec` of a kubeconfig's user.

    Args:
        user: the user's entry.
        spec: the mapping below `exec`.
        cluster: the description of the cluster, for plug-ins that ask for it.

    Raises:
        ConfigurationError: the mapping does not describe a plug-in.
    """
    section = Section(user.file, f"{user.where}: exec {_shown(spec.get('command'))}".rstrip(), spec)
    command, version = section.text("command"), section.text("apiVersion")
    if not command:
        raise section.problem("command: is missing")
    if version not in API_VERSIONS:
        raise section.problem(f"apiVersion: must be {' or '.join(API_VERSIONS)}, got {version!r}")
    mode = section.text("interactiveMode") or "IfAvailable"
    if mode not in get_args(InteractiveMode):
        known = ", ".join(get_args(InteractiveMode))
        raise section.problem(f"interactiveMode: must be one of {known}, got {mode!r}")
    if "/" in command or "\\" in command:
        command = str(Path(user.file).parent / command)
    return ExecPlugin(
        where=user.where,
        source=user.file,
        command=command,
        api_version=version,
        args=section.texts("args"),
        env=_variables(section),
        interactive_mode=cast("InteractiveMode", mode),
        install_hint=str(spec.get("installHint") or ""),
        cluster=cluster if spec.get("provideClusterInfo") else None,
    )


def _variables(section: Section) -> dict[str, str]:
    try:
        variables = msgspec.convert(section.content.get("env") or [], list[_Variable])
    except msgspec.ValidationError:
        reason = "env: must be a list of entries with a name and a value, both strings"
        raise section.problem(reason) from None
    if any(not variable.name for variable in variables):
        raise section.problem("env: a name must not be empty")
    return {variable.name: variable.value for variable in variables}


def last_lines(said: bytes, hidden: Iterable[str] = ()) -> str:
    """Return the last lines of a program's error output, without what may be a secret.

    Args:
        said: the error output.
        hidden: known secrets.
    """
    text = said.decode("utf-8", "replace")
    for secret in sorted(hidden, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    lines = [" ".join(line.split()) for line in _without_keys(text.splitlines())]
    shown = [_safe(line)[:_LINE_CHARS] for line in [one for one in lines if one][-_LAST_LINES:]]
    return " | ".join("".join(filter(str.isprintable, line)) for line in shown)


def _without_keys(lines: Iterable[str]) -> list[str]:
    """Return lines without those of keys and certificates in PEM, whose start may be cut off."""
    kept: list[str] = []
    is_inside = False
    for line in lines:
        if "-----END " in line:
            if not is_inside:
                kept.clear()
            kept.append(REDACTED)
            is_inside = False
        elif "-----BEGIN " in line:
            is_inside = True
        elif not is_inside:
            kept.append(line)
    return kept


def _shown(command: object) -> str:
    """Return a command for errors, without options: they stand in `args`, but not everywhere."""
    return command.partition(" -")[0] if isinstance(command, str) else ""


def _safe(words: str) -> str:
    words = _QUERY_VALUE.sub(rf"\1{REDACTED}", _USER_INFO.sub(REDACTED, words))
    for labelled in (_HEADER, _PASSWORD, _LABELLED):
        words = labelled.sub(rf"\1{REDACTED}", words)
    return _LONG.sub(_unless_path, words)


def _unless_path(found: re.Match[str]) -> str:
    run = found[0]
    is_path = "/" in run and all(len(step) < _SECRET_CHARS for step in run.split("/"))
    return run if is_path and run == run.lower() and "=" not in run else REDACTED
