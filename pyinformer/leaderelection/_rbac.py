"""The rights that leader election needs, as YAML that grants them in the Lease's namespace."""

from __future__ import annotations

from pyinformer.apimachinery import JSONObject, check_role_name, roles_yaml


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
    check_role_name(name)
    rules = [
        _rule("coordination.k8s.io", "leases", "create"),
        {
            **_rule("coordination.k8s.io", "leases", "get", "list", "update", "watch"),
            "resourceNames": [lease],
        },
        _rule("events.k8s.io", "events", "create", "patch"),
    ]
    role = f"{name}-leader-election"
    return roles_yaml({namespace: rules}, name=role, service_account=service_account)


def _rule(group: str, resource: str, *verbs: str) -> JSONObject:
    return {"apiGroups": [group], "resources": [resource], "verbs": [*verbs]}
