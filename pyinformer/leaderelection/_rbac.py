"""The rights that leader election needs, as YAML that grants them in the Lease's namespace."""

from __future__ import annotations

from pyinformer.objects import Access, check_role_name, roles_yaml


def lease_accesses(lease: str, namespace: str) -> tuple[Access, ...]:
    """Return the rights that leader election needs.

    A right to create cannot be limited to a name; everything else is limited to this Lease.

    Args:
        lease: the name of the Lease.
        namespace: its namespace.
    """
    group, where = "coordination.k8s.io", frozenset({namespace})
    verbs = ("get", "list", "update", "watch")
    return (
        Access(group, "leases", ("create",), where),
        Access(group, "leases", verbs, where, lease),
        Access("events.k8s.io", "events", ("create", "patch"), where),
    )


def rbac_yaml(lease: str, namespace: str, *, name: str, service_account: str | None) -> str:
    """Return a Role for one Lease, with a binding if there is a service account.

    Args:
        lease: the name of the Lease.
        namespace: its namespace.
        name: the role's name, to which `-leader-election` is added.
        service_account: gets the rights, as `namespace/name`; None for no binding.

    Raises:
        InvalidArgumentError: Kubernetes does not accept a name.
    """
    check_role_name(name)
    role = f"{name}-leader-election"
    return roles_yaml(lease_accesses(lease, namespace), name=role, service_account=service_account)
