"""The configuration that every pod finds in its service account folder.

What enters is two environment variables and three files; what leaves is a ClusterConfig whose
token is read again as it rotates. kubernetes_asyncio is not needed for it, nor loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyinformer.apimachinery import ConfigurationNotFoundError
from pyinformer.transport._config import ClusterConfig
from pyinformer.transport._credentials import TokenFileCredentials

SERVICE_ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOST = "KUBERNETES_SERVICE_HOST"
_PORT = "KUBERNETES_SERVICE_PORT"


def in_cluster_is_possible(
    environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT_FOLDER
) -> bool:
    """Tell whether this looks like the inside of a pod."""
    return bool(environ.get(_HOST)) and (folder / "token").exists()


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
