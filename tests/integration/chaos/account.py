"""The account of the program in a storm: it has rights that can be taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from pyinformer.testing import KubeAPIServer

_RULES: list[JSONObject] = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
    {
        "apiGroups": ["chaos.example.com"],
        "resources": ["widgets", "widgets/status"],
        "verbs": ["*"],
    },
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
]
_RBAC = "rbac.authorization.k8s.io"


def token_of_account(server: KubeAPIServer, namespace: str, *, binding: str) -> str:
    """Make an account in a namespace, bind it to its rights, and return its token."""
    account = {"name": "program", "namespace": namespace}
    server.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    server.create(
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": binding},
            "rules": _RULES,
        }
    )
    server.create(
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": binding},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": binding},
            "subjects": [{"kind": "ServiceAccount", **account}],
        }
    )
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account['name']}/token"
    body: JSONObject = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    answer = server.request("POST", path, body={**body, "spec": {"expirationSeconds": 86_400}})
    return str(answer["status"]["token"])
