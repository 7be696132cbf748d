"""`pyinformer doctor RESOURCE...`: how a server is reached, and what it offers to informers."""

from __future__ import annotations

import ssl
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import msgspec

from pyinformer._runtime.clock import wall_time
from pyinformer._runtime.tasks import loop_time
from pyinformer.cli.doctor._credential_expiry import certificate_of, token_expiry
from pyinformer.cli.doctor._facts import LoginFacts, RequestFailure, ServerFacts
from pyinformer.cli.doctor._network import measure_network
from pyinformer.cli.doctor._report import Report, ReportPart
from pyinformer.cli.doctor._resources import ResourceChecks
from pyinformer.cli.doctor._server_findings import resource_findings, server_findings
from pyinformer.client.cluster import Cluster
from pyinformer.client.transport import (
    NO_SERVER_BEHIND,
    RenewingCredentials,
    StaticCredentials,
    TokenFileCredentials,
    failure_reason,
)
from pyinformer.errors import (
    APIStatusError,
    ConfigurationError,
    ForbiddenError,
    InformerError,
    NotFoundError,
    ProtocolError,
    TLSVerificationError,
    UnauthorizedError,
)
from pyinformer.objects import null_as_absent

if TYPE_CHECKING:
    from pyinformer.cli.objects import ServerAccess
    from pyinformer.client.transport import ClusterConfig

_NONE: Final = "none"
_SAMPLES: Final = 3
_UNREACHED: Final = "the server was not reached: see the findings above"
_PROXY_LOGIN: Final = 407
_OF_STATUS: Final[Mapping[int, RequestFailure]] = {
    _PROXY_LOGIN: "proxy_login",
    429: "overload",
    **dict.fromkeys(NO_SERVER_BEHIND, "no_server"),
}


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


class _Root(msgspec.Struct):
    kind: str = ""


_decode = null_as_absent(_Version, skims=False)
_decode_root = null_as_absent(_Root)


async def examine_server(
    access: ServerAccess,
    resources: Sequence[str],
    *,
    namespaces: tuple[str, ...],
    all_namespaces: bool,
    timeout_seconds: float,
    idle_seconds: float | None,
) -> Report:
    """Ask a server about itself and about resources, and return what is wrong.

    Args:
        access: how it is reached.
        resources: as people name them.
        namespaces: where; empty for the default namespace of the context.
        all_namespaces: whether everywhere.
        timeout_seconds: how long each request may take.
        idle_seconds: how long a silent watch of each resource is kept open; None for no such watch.

    Raises:
        InformerError: there is no configuration, or it is invalid.

    Cancellation:
        Safe; requests are dropped.
    """
    async with access.connected() as cluster:
        facts = await _server_facts(cluster, timeout_seconds)
        config = cluster.config
        first = ReportPart(source=config.server, findings=server_findings(facts, wall_time()))
        if facts.login.error or facts.network.error or facts.error:
            rest = [ReportPart(source=name, error=_UNREACHED) for name in resources]
            return Report([first, *rest])
        where = None if all_namespaces else tuple(dict.fromkeys(namespaces)) or (config.namespace,)
        limits = _Limits(timeout_seconds, idle_seconds)
        return Report([first, *await _resource_parts(cluster, resources, where, limits)])


class _Limits(NamedTuple):
    """How long the checks of a resource may take, as for `examine_server`."""

    timeout_seconds: float
    idle_seconds: float | None


async def _resource_parts(
    cluster: Cluster, resources: Sequence[str], where: tuple[str, ...] | None, limits: _Limits
) -> list[ReportPart]:
    """Check resources: their lists one after another, which are timed, their watches together."""
    errors: dict[str, str] = {}
    checks: dict[str, ResourceChecks] = {}
    for name in dict.fromkeys(resources):
        try:
            found, *_ = await cluster.discovery.find(name)
        except InformerError as error:
            errors[name] = str(error)
            continue
        checks[name] = ResourceChecks(
            cluster,
            found.resource,
            namespaces=where if found.namespaced else None,
            timeout_seconds=limits.timeout_seconds,
            idle_seconds=limits.idle_seconds,
        )
        await checks[name].read()
    async with anyio.create_task_group() as group:
        for check in checks.values():
            group.start_soon(check.watch)
    return [
        ReportPart(source=name, error=errors[name])
        if name in errors
        else ReportPart(source=name, findings=resource_findings(checks[name].facts))
        for name in dict.fromkeys(resources)
    ]


async def _server_facts(cluster: Cluster, timeout_seconds: float) -> ServerFacts:
    config = cluster.config
    login, context = await _login_facts(config)
    network = await measure_network(config, context, timeout_seconds=timeout_seconds)
    version, seconds, error = "", None, ""
    failure: RequestFailure | None = None
    if not (network.error or login.error):
        try:
            version, seconds = await _version(cluster, timeout_seconds)
        except InformerError as refusal:
            error, failure = str(refusal), _kind_of_failure(refusal)
    return ServerFacts(
        source=config.source,
        server=config.server,
        login=login,
        network=network,
        version=version,
        request_seconds=seconds,
        error=error,
        failure=failure,
    )


async def _version(cluster: Cluster, timeout_seconds: float) -> tuple[str, float]:
    """Return the version, empty where it is not served to this user, and the time of a request.

    Raises:
        InformerError: a request failed, or what answers is not an API server.
    """
    answer, taken = b"{}", list[float]()
    refusal: APIStatusError | None = None
    for _ in range(_SAMPLES):
        began_at = loop_time()
        try:
            answer = await _get(cluster, "/version", timeout_seconds)
        except (ForbiddenError, NotFoundError) as error:  # answers as well
            refusal = error
        taken.append(loop_time() - began_at)
    try:
        version = _decode(answer).git_version
    except (msgspec.DecodeError, UnicodeDecodeError):
        version = ""
    if not version:
        await _check_api_server(cluster, refusal, timeout_seconds)
    return version, statistics.median(taken)


async def _check_api_server(
    cluster: Cluster, refusal: APIStatusError | None, timeout_seconds: float
) -> None:
    """Refuse what answers `/version` without a version, unless it answers as API servers do.

    Gateways and ingresses answer any path with a 404 page, or with a success.
    """
    if refusal is not None and refusal.reason:  # of a Status
        return
    try:
        kind = _decode_root(await _get(cluster, "/apis", timeout_seconds)).kind
    except APIStatusError as error:
        is_api_server = bool(error.reason)
    except (msgspec.DecodeError, UnicodeDecodeError):
        is_api_server = False
    else:
        is_api_server = kind.startswith("APIGroup")
    if not is_api_server:
        reason = "the answer names no version, and /apis is not answered as by an API server"
        raise refusal or ProtocolError("GET /version", reason)


async def _get(cluster: Cluster, path: str, timeout_seconds: float) -> bytes:
    return await cluster.connection.request("GET", path, timeout_seconds=timeout_seconds)


def _kind_of_failure(error: InformerError) -> RequestFailure | None:
    if isinstance(error, UnauthorizedError):
        return "credentials"
    if isinstance(error, TLSVerificationError):
        return "certificate"
    if failure_reason(error) == "proxy":
        return "proxy_login" if f"refused: {_PROXY_LOGIN}" in str(error) else "proxy"
    return _OF_STATUS.get(error.status) if isinstance(error, APIStatusError) else None


async def _login_facts(config: ClusterConfig) -> tuple[LoginFacts, ssl.SSLContext | None]:
    """Return what is known of the credentials, and the TLS settings with their certificate."""
    credentials = config.credentials
    try:
        headers = await credentials.headers()
        own = getattr(credentials, "certificate", None)
        context = config.ssl_context(own)
    except ConfigurationError as error:
        return LoginFacts(kind=_kind_of(credentials)[0], error=str(error)), None
    text = b"" if own is None else str(own.certificate).encode()
    if own is None and config.client_certificate_file is not None:
        text = Path(config.client_certificate_file).read_bytes()  # noqa: ASYNC240 - a small file
    certificate = certificate_of(text)
    kind, is_renewed = _kind_of(credentials)
    has_token = "Authorization" in headers
    if not has_token:
        kind = _NONE if certificate is None else "a client certificate"
    facts = LoginFacts(
        kind=kind,
        has_token=has_token,
        is_renewed=is_renewed,
        token_expires_at=_expiry(credentials, headers),
        file_age_seconds=_file_age(credentials),
        certificate=certificate,
    )
    return facts, context


def _kind_of(credentials: object) -> tuple[str, bool]:
    """Return what credentials are, and whether they are renewed; an expiry is known after use."""
    if isinstance(credentials, StaticCredentials):
        return "a token or password that is not renewed", False
    if isinstance(credentials, RenewingCredentials):
        if credentials.expires_at is None:
            return "the token of the kubeconfig, or of an exec plug-in that names no expiry", False
        return "a login of an exec plug-in or auth provider", True
    if isinstance(credentials, TokenFileCredentials):
        return f"the token file {credentials.path}", True
    return _NONE, False


def _expiry(credentials: object, headers: Mapping[str, str]) -> float | None:
    of_login = credentials.expires_at if isinstance(credentials, RenewingCredentials) else None
    return of_login if of_login is not None else token_expiry(headers.get("Authorization", ""))


def _file_age(credentials: object) -> float | None:
    if not isinstance(credentials, TokenFileCredentials):
        return None
    try:
        return wall_time() - credentials.path.stat().st_mtime
    except OSError:
        return None
