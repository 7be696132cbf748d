"""Read a ClusterConfig from kubeconfig files, as kubectl does.

Credentials have to be renewed for days. An error names the file, the context, the entry and its
key, and never a secret.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.client.transport.config._cluster_config import ClusterConfig
from pyinformer.client.transport.config._error_reasons import path_text
from pyinformer.client.transport.config._kubeconfig_files import KubeconfigFiles, Section
from pyinformer.client.transport.config._kubeconfig_users import KubeconfigUser
from pyinformer.client.transport.config._renewing_credentials import RenewingCredentials
from pyinformer.client.transport.config._secret_channels import channel_of, withheld_text
from pyinformer.errors import ConfigurationError, ConfigurationNotFoundError

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject

_log = get_logger(__name__)

KubeconfigPolicy: TypeAlias = Literal["trusted", "data-only"]
"""What a kubeconfig may make this process do: `trusted` allows all that kubectl does, `data-only`
only connections to the server."""

_NOT_DATA: Final = {
    "certificate-authority": "names a file of this host; use certificate-authority-data",
    "proxy-url": "names another host than the server",
    "exec": "runs a command",
    "auth-provider": "logs in at another host, and may write files",
    "tokenFile": "names a file of this host; use token",
    "client-certificate": "names a file of this host; use client-certificate-data",
    "client-key": "names a file of this host; use client-key-data",
}
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_COMMON = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data")


def kubeconfig_config(
    paths: str,
    *,
    context: str | None = None,
    named_by: str = "",
    policy: KubeconfigPolicy = "trusted",
    trust_env: bool = True,
) -> ClusterConfig:
    """Read a kubeconfig, and the files that it names; `log_in_first` does the first login.

    It reads files, which may never answer: call it in a thread.

    Args:
        paths: a file, or several joined by the separator of KUBECONFIG; as in kubectl, the first
            file that sets a value wins, and some of several files may be missing.
        context: the context to use; None for the current one.
        named_by: where the paths come from, for errors: `KUBECONFIG=`.
        policy: `data-only` refuses used entries that run a command, or name a file of this host or
            a host other than the server.
        trust_env: whether an auth provider is reached by a proxy of the environment.

    Raises:
        ConfigurationNotFoundError: none of the files exists.
        ConfigurationError: a file is malformed, an entry does not exist, or the policy does not
            allow an entry; in that case nothing that it names was read.
    """
    source = f"{named_by}{paths}"
    present = _present_files(paths)
    if not present:
        shown = path_text(paths)
        reason = "no such kubeconfig file"
        if shown != paths:
            reason = "must be the path of a kubeconfig file: write the content to one"
        raise ConfigurationNotFoundError(f"{named_by}{shown}", reason)
    files = KubeconfigFiles(present)
    name, chosen = files.context(context)
    cluster = _allowed(files.referred(chosen, "clusters", chosen.text("cluster")), policy)
    config = _cluster_config(cluster, source, namespace=chosen.text("namespace") or "default")
    if config.ca_file or config.ca_data:
        _check(config, cluster)
    if not chosen.text("user") and not files.has_entry("users", ""):
        return config
    user = _allowed(files.referred(chosen, "users", chosen.text("user")), policy)

    def again() -> Section:
        """Read the entry of the context's user again, unless the context has another server by now.

        Many tools give every cluster the same names: what is in the file may be the login of
        another one, which must not be sent to the server of this connection. Only the context says
        which user belongs to its cluster: the name of the earlier one may be another cluster's.
        """
        now = KubeconfigFiles(present)
        context = now.context(name)[1]
        entry = now.referred(context, "clusters", context.text("cluster"))
        if _identity(entry) != _identity(cluster):
            reason = (
                "it describes another cluster than the one that this program is connected to:"
                " its credentials are not used; restart the program to follow the file"
            )
            raise entry.problem(reason)
        user = context.text("user")
        if not user and not now.has_entry("users", ""):
            raise context.problem("it has no user any more; restart the program to follow the file")
        return _allowed(now.referred(context, "users", user), policy)

    found = KubeconfigUser(
        entry=user,
        cluster=_cluster_info(cluster),
        trust_env=trust_env,
        may_log_in=channel_of(config) != "plain",
        again=again,
    )
    if not found.may_log_in and _names_credentials(user):
        _log.warning("%s", withheld_text(config))
    config = replace(config, **found.fields())
    if config.client_certificate_file:  # alone: its check must not load the system's authorities
        _check(replace(config, ca_file=None, ca_data=None, verify_tls=False), user)
    return config


async def log_in_first(config: ClusterConfig) -> None:
    """Do the first login with the credentials of a kubeconfig: one that fails is reported now.

    Raises:
        ConfigurationError: the exec plug-in failed, a token file cannot be used, or an auth
            provider refused.

    Cancellation:
        Safe; an exec plug-in that was started is killed.
    """
    if isinstance(config.credentials, RenewingCredentials):
        await config.credentials.begin()
    else:
        await config.credentials.headers()


def _names_credentials(user: Section) -> bool:
    """Return whether a user's entry has more than a user to impersonate."""
    return any(value and not key.startswith("as") for key, value in user.content.items())


def _allowed(section: Section, policy: KubeconfigPolicy) -> Section:
    """Return an entry that the policy allows.

    Raises:
        ConfigurationError: the policy does not allow it.
    """
    if policy == "trusted":
        return section
    for key, why in _NOT_DATA.items():
        if section.content.get(key):
            reason = f"{key}: {why}; kubeconfig_policy='data-only' does not allow it"
            raise section.problem(reason)
    return section


def _present_files(paths: str) -> list[str]:
    # Absolute, since they are read again when this process may be in another folder.
    files = [Path(path).expanduser().absolute() for path in paths.split(os.pathsep) if path]
    return [str(file) for file in files if _is_there(file)]


def _is_there(file: Path) -> bool:
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:  # else reading the file reports what is wrong
        return error.errno != errno.ENAMETOOLONG  # as the content of a file may be
    return True


def _cluster_config(cluster: Section, source: str, *, namespace: str) -> ClusterConfig:
    server = cluster.text("server")
    if not server:
        raise cluster.problem("server is missing")
    cluster.check_alternatives("certificate-authority")
    ca_data = cluster.data("certificate-authority-data")
    insecure = cluster.flag("insecure-skip-tls-verify")
    if insecure and (ca_data or cluster.text("certificate-authority")):
        # As kubectl: naming an authority contradicts trusting any certificate.
        reason = "insecure-skip-tls-verify: must not be true beside a certificate authority"
        raise cluster.problem(reason)
    # Read outside of the block below: their errors name the entry already.
    ca_file = None if ca_data else cluster.path("certificate-authority") or None
    tls_server_name = cluster.text("tls-server-name") or None
    proxy_url = cluster.text("proxy-url") or None
    try:
        return ClusterConfig(
            server=server,
            ca_file=ca_file,
            ca_data=ca_data or None,
            verify_tls=not insecure,
            tls_server_name=tls_server_name,
            proxy_url=proxy_url,
            namespace=namespace,
            source=source,
        )
    except ConfigurationError as error:
        if error.source != source:
            raise
        raise cluster.problem(error.reason) from None


def _check(config: ClusterConfig, section: Section) -> None:
    """Refuse certificates that TLS cannot use."""
    try:
        config.ssl_context()
    except ConfigurationError as error:
        raise section.problem(error.reason) from None


def _identity(cluster: Section) -> JSONObject:
    """Return what says which server an entry means, and how it is known."""
    return {key: value for key, value in cluster.content.items() if key != "extensions"}


def _cluster_info(cluster: Section) -> JSONObject:
    """Return the description of the cluster that an exec plug-in may ask for."""
    info: dict[str, Any] = {key: cluster.content[key] for key in _COMMON if key in cluster.content}
    if "certificate-authority-data" not in info and cluster.text("certificate-authority"):
        import base64

        authority = cluster.file_content("certificate-authority")
        info["certificate-authority-data"] = base64.b64encode(authority).decode("ascii")
    if cluster.text("proxy-url"):
        info["proxy-url"] = cluster.text("proxy-url")
    extensions = cluster.content.get("extensions")
    for one in extensions if isinstance(extensions, list) else ():
        if isinstance(one, dict) and one.get("name") == _EXEC_EXTENSION:
            info["config"] = one.get("extension")
    return info
