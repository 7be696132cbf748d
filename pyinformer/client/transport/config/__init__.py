"""How an API server is reached: configurations, kubeconfigs, and credentials that are renewed.

Importing this package does not load PyYAML; reading a kubeconfig does.
"""

from pyinformer.client.transport.config._blocking_call import BlockingCall
from pyinformer.client.transport.config._cluster_config import ClusterConfig, impersonation_headers
from pyinformer.client.transport.config._config_loader import (
    check_policy,
    find_config,
    in_cluster_config,
)
from pyinformer.client.transport.config._credentials import (
    FILE_SECONDS,
    ClientCertificate,
    Credentials,
    NoCredentials,
    StaticCredentials,
    TokenFileCredentials,
)
from pyinformer.client.transport.config._foreign_client import (
    ClientConfiguration,
    ConfiguredClient,
    ForeignClient,
    config_from_client,
)
from pyinformer.client.transport.config._kubeconfig import KubeconfigPolicy
from pyinformer.client.transport.config._login_metrics import LoginMetrics
from pyinformer.client.transport.config._proxy_environment import with_environment_proxy
from pyinformer.client.transport.config._renewing_credentials import Login, RenewingCredentials
from pyinformer.client.transport.config._secret_channels import channel_of, withheld_text

__all__ = [
    "FILE_SECONDS",
    "BlockingCall",
    "ClientCertificate",
    "ClientConfiguration",
    "ClusterConfig",
    "ConfiguredClient",
    "Credentials",
    "ForeignClient",
    "KubeconfigPolicy",
    "Login",
    "LoginMetrics",
    "NoCredentials",
    "RenewingCredentials",
    "StaticCredentials",
    "TokenFileCredentials",
    "channel_of",
    "check_policy",
    "config_from_client",
    "find_config",
    "impersonation_headers",
    "in_cluster_config",
    "with_environment_proxy",
    "withheld_text",
]
