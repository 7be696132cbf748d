"""Find the configuration of a cluster.

What is named explicitly comes first, then the KUBECONFIG variable, then the file in the home
folder, then the service account of the pod that this may be. The environment is read here, at the
call, and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from pyinformer.apimachinery import ConfigurationNotFoundError, InvalidArgumentError
from pyinformer.transport._config import ClusterConfig
from pyinformer.transport._in_cluster import (
    SERVICE_ACCOUNT_FOLDER,
    in_cluster_config,
    in_cluster_is_possible,
)
from pyinformer.transport._kubeconfig import KubeconfigPolicy, kubeconfig_config


async def find_config(
    kubeconfig: str | Path | None = None,
    *,
    context: str | None = None,
    policy: KubeconfigPolicy = "trusted",
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    service_account_folder: Path = SERVICE_ACCOUNT_FOLDER,
) -> ClusterConfig:
    """Find the cluster to talk to.

    Args:
        kubeconfig: a kubeconfig file, or several joined as in KUBECONFIG. None: KUBECONFIG, else
            `~/.kube/config`, else the service account of this pod.
        context: the context in the kubeconfig; None for its current one. With a context only
            kubeconfigs are considered.
        policy: what the kubeconfig may make this process do; `data-only` needs a `kubeconfig`.
        environ: the environment variables; None for those of this process.
        home: the home folder; None for the user's.
        service_account_folder: where a pod finds its service account.

    Raises:
        InvalidArgumentError: the policy is not one, or there is no kubeconfig for it.
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
        return await kubeconfig_config(os.fspath(kubeconfig), context=context, policy=policy)
    if variables.get("KUBECONFIG"):
        paths = variables["KUBECONFIG"]
        return await kubeconfig_config(paths, context=context, named_by="KUBECONFIG=")
    default = (home or _home(variables)) / ".kube" / "config"
    if default.exists() or context is not None:
        return await kubeconfig_config(str(default), context=context)
    if in_cluster_is_possible(variables, service_account_folder):
        return in_cluster_config(variables, service_account_folder)
    looked_at = f"KUBECONFIG (not set), {default} (no such file), in-cluster (not in a pod)"
    reason = "found none; pass kubeconfig=, or set KUBECONFIG"
    raise ConfigurationNotFoundError(looked_at, reason)


def check_policy(policy: KubeconfigPolicy, *, has_kubeconfig: bool) -> None:
    """Refuse a policy that is not one, or that would not be applied to anything.

    Raises:
        InvalidArgumentError: it is that.
    """
    if policy not in get_args(KubeconfigPolicy):
        reason = f"must be 'trusted' or 'data-only', got {policy!r}"
        raise InvalidArgumentError("kubeconfig_policy", reason)
    if policy != "trusted" and not has_kubeconfig:
        reason = "'data-only' needs a kubeconfig: no other source is searched for"
        raise InvalidArgumentError("kubeconfig_policy", reason)


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()
