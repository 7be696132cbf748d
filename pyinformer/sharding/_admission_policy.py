"""The server's own fence for replicas that share keys: its parameter has the table."""

from __future__ import annotations

from typing import Final

from pyinformer.leaderelection import UUID, LeasePolicy
from pyinformer.sharding._table import MEMBERS_ANNOTATION

_OWNERS_ALONE: Final = LeasePolicy(
    suffix="owners-only",
    named=(
        f'has(params.metadata.annotations) && "{MEMBERS_ANNOTATION}" in params.metadata.annotations'
        f' ? params.metadata.annotations["{MEMBERS_ANNOTATION}"] : ""'
    ),
    is_named=(
        f'variables.named.matches(",{{lease_name}}[.]" + pod.replace(".", "[.]") + "-{UUID},")'
    ),
    names="names",
    rule="a replica without a bucket may not write",
)


def sharing_policy_yaml(*, lease: str, service_account: str) -> str:
    """Return an admission policy that lets an account write only from pods that own a bucket.

    It also refuses writes that left a replica in time and arrive after its buckets are another's.
    It needs tokens that are bound to a pod, as Kubernetes mounts them, and identities as a replica
    makes them if none is given: the name of the pod and a UUID. Leases and Events are excepted.
    Without the Lease everything is allowed.

    Args:
        lease: the Lease with the table, as `namespace/name`; its name is the operator's.
        service_account: whose writes are checked, as `namespace/name`.

    Returns:
        A ValidatingAdmissionPolicy and its binding, as YAML for `kubectl apply`.

    Raises:
        InvalidArgumentError: naming the argument.
    """
    return _OWNERS_ALONE.yaml(lease=lease, service_account=service_account)
