"""Find the configuration of a cluster.

The order is: a kubeconfig that the caller names, the KUBECONFIG variable, the file in the home
folder, the service account of this pod. The environment is read at the call, and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

from pyinformer.apimachinery import check_choice
from pyinformer.errors import ConfigurationNotFoundError, InvalidArgumentError
from pyinformer.transport.config._cluster_config import ClusterConfig
from pyinformer.transport.config._credentials import TokenFileCredentials
from pyinformer.transport.config._kubeconfig import KubeconfigPolicy, kubeconfig_config

SERVICE_ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOST = "KUBERNETES_SERVICE_HOST"
_PORT = "KUBERNETES_SERVICE_PORT"


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
    if kubeconfig is not None:
        return await kubeconfig_config(
            os.fspath(kubeconfig), context=context, policy=policy, trust_env=trust_env
        )
    if variables.get("KUBECONFIG"):
        paths = variables["KUBECONFIG"]
        return await kubeconfig_config(
            paths, context=context, named_by="KUBECONFIG=", trust_env=trust_env
        )
    default = (home or _home(variables)) / ".kube" / "config"
    if default.exists() or context is not None:
        return await kubeconfig_config(str(default), context=context, trust_env=trust_env)
    has_token = (service_account_folder / "token").exists()
    if variables.get(_HOST) and has_token:
        return in_cluster_config(variables, service_account_folder)
    pod = f"{_HOST} is not set" if has_token else "not in a pod"
    if variables.get(_HOST) and not has_token:
        pod = f"{service_account_folder} has no token"
    searched = f"KUBECONFIG (not set), {default} (no such file), in-cluster ({pod})"
    reason = "found none; pass kubeconfig=, or set KUBECONFIG"
    raise ConfigurationNotFoundError(searched, reason)


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
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()
