"""Find the configuration of a cluster.

The order is: a kubeconfig that the caller names, the KUBECONFIG variable, the file in the home
folder, the service account of this pod. The environment is read at the call, and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

import anyio

from pyinformer.client.transport.config._blocking_call import run_in_turn
from pyinformer.client.transport.config._cluster_config import ClusterConfig
from pyinformer.client.transport.config._credentials import TokenFileCredentials
from pyinformer.client.transport.config._error_reasons import path_text
from pyinformer.client.transport.config._kubeconfig import (
    KubeconfigPolicy,
    kubeconfig_config,
    log_in_first,
)
from pyinformer.errors import (
    ConfigurationError,
    ConfigurationNotFoundError,
    InvalidArgumentError,
)
from pyinformer.objects import check_choice

SERVICE_ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOST = "KUBERNETES_SERVICE_HOST"
_PORT = "KUBERNETES_SERVICE_PORT"
_READ_SECONDS = 60.0  # a kubeconfig of 15,000 clusters takes seconds, more on a busy machine


async def find_config(
    kubeconfig: str | Path | None = None,
    *,
    context: str | None = None,
    policy: KubeconfigPolicy = "trusted",
    trust_env: bool = True,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    service_account_folder: Path = SERVICE_ACCOUNT_FOLDER,
) -> ClusterConfig:
    """Find the configuration of the cluster to connect to.

    Args:
        kubeconfig: a kubeconfig file, or several joined as in KUBECONFIG. None: KUBECONFIG, else
            `~/.kube/config`, else the service account of this pod.
        context: the context in the kubeconfig; None for its current one. With a context only
            kubeconfigs are considered.
        policy: what the kubeconfig may make this process do; `data-only` needs a `kubeconfig`.
        trust_env: whether a proxy of the environment leads to an auth provider of the kubeconfig.
        environ: the environment variables; None for those of this process.
        home: the home folder; None for the user's.
        service_account_folder: where a pod finds its service account.

    Raises:
        InvalidArgumentError: the policy is unknown, or there is no kubeconfig to apply it to.
        ConfigurationNotFoundError: nothing was found, or a file that was named does not exist.
        ConfigurationError: what was found cannot be used.

    Cancellation:
        Safe; an exec plug-in that runs for the kubeconfig is killed.

    Source:
        client-go tools/clientcmd/loader.go, client_config.go.
    """
    check_policy(policy, has_kubeconfig=kubeconfig is not None)
    variables = os.environ if environ is None else environ
    named_by, is_named = "", True
    if kubeconfig is not None:
        paths = os.fspath(kubeconfig)
    elif variables.get("KUBECONFIG"):
        named_by, paths = "KUBECONFIG=", variables["KUBECONFIG"]
    else:
        paths = str((home or _home(variables)) / ".kube" / "config")
        is_named = context is not None  # which only a kubeconfig has

    def read() -> tuple[ClusterConfig, bool]:
        """Return what was found, and whether it is a kubeconfig."""
        if not (is_named or Path(paths).exists()):
            return _of_pod(variables, service_account_folder, searched=paths), False
        config = kubeconfig_config(
            paths, context=context, named_by=named_by, policy=policy, trust_env=trust_env
        )
        return config, True

    try:
        with anyio.fail_after(_READ_SECONDS):
            # In a thread: a file system of a network may never answer.
            config, is_kubeconfig = await run_in_turn(
                (paths, context), "pyinformer reads a kubeconfig", read
            )
    except TimeoutError:
        reason = f"has not been read within {_READ_SECONDS:g} s: its file system does not answer"
        raise ConfigurationError(f"{named_by}{path_text(paths)}", reason) from None
    if is_kubeconfig:
        await log_in_first(config)
    return config


def _of_pod(environ: Mapping[str, str], folder: Path, *, searched: str) -> ClusterConfig:
    """Return the configuration of this pod's service account, since there is no kubeconfig.

    Raises:
        ConfigurationNotFoundError: this is not such a pod: names all places that were searched.
    """
    has_token = (folder / "token").exists()
    if environ.get(_HOST) and has_token:
        return in_cluster_config(environ, folder)
    pod = f"{_HOST} is not set" if has_token else "not in a pod"
    if environ.get(_HOST) and not has_token:
        pod = f"{folder} has no token"
    places = f"KUBECONFIG (not set), {searched} (no such file), in-cluster ({pod})"
    reason = (
        "found none; pass kubeconfig= (--kubeconfig on the command line), or set KUBECONFIG;"
        " `pyinformer serve` starts a server to try with, and prints it"
    )
    raise ConfigurationNotFoundError(places, reason)


def check_policy(policy: KubeconfigPolicy, *, has_kubeconfig: bool) -> None:
    """Refuse a policy that is unknown, or that would not be applied to anything.

    Raises:
        InvalidArgumentError: as described.
    """
    check_choice("kubeconfig_policy", policy, get_args(KubeconfigPolicy))
    if policy != "trusted" and not has_kubeconfig:
        reason = "'data-only' needs a kubeconfig: no other source is searched for"
        raise InvalidArgumentError("kubeconfig_policy", reason)


def in_cluster_config(
    environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT_FOLDER
) -> ClusterConfig:
    """Read the configuration of the cluster that this pod runs in.

    Args:
        environ: the environment variables.
        folder: the service account's folder.

    Raises:
        ConfigurationNotFoundError: a variable or a file is missing.

    Source:
        client-go rest/config.go, InClusterConfig.
    """
    host, port = environ.get(_HOST, ""), environ.get(_PORT, "") or "443"
    if not host:
        reason = "is not set: this process does not run in a pod with a service account"
        raise ConfigurationNotFoundError(_HOST, reason)
    for name in ("token", "ca.crt"):
        if not (folder / name).exists():
            reason = "does not exist; is automountServiceAccountToken off?"
            raise ConfigurationNotFoundError(str(folder / name), reason)
    return ClusterConfig(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca_file=str(folder / "ca.crt"),
        credentials=TokenFileCredentials(folder / "token"),
        namespace=_namespace(folder / "namespace"),
        source=f"in-cluster ({folder})",
    )


def _namespace(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


def _home(environ: Mapping[str, str]) -> Path:
    """Return the home folder; where a user has none, one as shells write it, which has no file."""
    try:
        return Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    except RuntimeError:  # a number as user, as OpenShift runs pods, and no HOME
        return Path("~")
