"""The rights that leader election needs, as YAML that grants them in the Lease's namespace."""

from __future__ import annotations

import re
from typing import Final

from pyinformer.errors import InvalidArgumentError

_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9:]*[a-z0-9])?")
_ROLE: Final = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  namespace: "{namespace}"
  name: "{role}"
rules:
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  verbs: ["create"]
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  resourceNames: ["{lease}"]
  verbs: ["get", "list", "update", "watch"]
- apiGroups: ["events.k8s.io"]
  resources: ["events"]
  verbs: ["create", "patch"]
"""
_BINDING: Final = """\
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  namespace: "{namespace}"
  name: "{role}"
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: "{role}"
subjects:
- kind: ServiceAccount
  namespace: "{account_namespace}"
  name: "{account}"
"""


def rbac_yaml(lease: str, namespace: str, *, name: str, service_account: str | None) -> str:
    """Return a Role for one Lease, with a binding if there is a service account.

    A right to create cannot be limited to a name; everything else is limited to this Lease.

    Args:
        lease: the name of the Lease.
        namespace: its namespace.
        name: the role's name, to which `-leader-election` is added.
        service_account: gets the rights, as `namespace/name`; None for no binding.

    Raises:
        InvalidArgumentError: Kubernetes does not accept a name.
    """
    if not _NAME.fullmatch(name):
        reason = f"must be a name that Kubernetes accepts for a role, got {name!r}"
        raise InvalidArgumentError("name", reason)
    role = f"{name}-leader-election"
    text = _ROLE.format(namespace=namespace, role=role, lease=lease)
    if service_account is None:
        return text
    account_namespace, _, account = service_account.partition("/")
    if not (_NAME.fullmatch(account_namespace) and _NAME.fullmatch(account)):
        reason = f"must be 'namespace/name', as in 'shop/watcher', got {service_account!r}"
        raise InvalidArgumentError("service_account", reason)
    return text + _BINDING.format(
        namespace=namespace, role=role, account_namespace=account_namespace, account=account
    )
