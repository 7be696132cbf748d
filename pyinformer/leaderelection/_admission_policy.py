"""The server's own fence: an admission policy whose parameter is the Lease, as YAML.

It also refuses writes that left a replica in time and arrive late. The server compares the pod that
the token of a request is bound to with the holder of the Lease.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, final

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import check_text

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME: Final = 253  # of a policy, a Lease or a service account
# A missing Lease must allow: the server decides that before it looks at the account, so Deny would
# refuse the writes of every client of the cluster.
_POLICY: Final = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: "{name}"
spec:
  failurePolicy: Fail
  paramKind:
    apiVersion: coordination.k8s.io/v1
    kind: Lease
  matchConstraints:
    resourceRules:
    - apiGroups: ["*"]
      apiVersions: ["*"]
      operations: ["CREATE", "UPDATE", "DELETE", "CONNECT"]
      resources: ["*/*"]
    excludeResourceRules:
    - apiGroups: ["coordination.k8s.io"]
      apiVersions: ["*"]
      operations: ["*"]
      resources: ["leases"]
    - apiGroups: ["", "events.k8s.io"]
      apiVersions: ["*"]
      operations: ["*"]
      resources: ["events"]
  matchConditions:
  - name: account
    expression: request.userInfo.username == "system:serviceaccount:{account}"
  variables:
  - name: named
    expression: >-
      {named}
  - name: pods
    expression: >-
      has(request.userInfo.extra)
      && "authentication.kubernetes.io/pod-name" in request.userInfo.extra
      ? request.userInfo.extra["authentication.kubernetes.io/pod-name"] : []
  validations:
  - expression: >-
      variables.pods.exists(pod, {is_named})
    reason: Forbidden
    messageExpression: >-
      "the Lease {lease} {names} '" + variables.named + "', not the pod of this request, " +
      (variables.pods.size() > 0 ? "'" + variables.pods[0] + "'" : "which its token does not name")
      + ": {rule}"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: "{name}"
spec:
  policyName: "{name}"
  validationActions: ["Deny"]
  paramRef:
    namespace: "{namespace}"
    name: "{lease_name}"
    parameterNotFoundAction: Allow
"""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LeasePolicy:
    """Which pods a Lease names, as expressions of CEL."""

    suffix: str
    """The end of the policy's name."""
    named: str
    """The text of the Lease that names pods."""
    is_named: str
    """Whether `variables.named` names `pod`; `{lease_name}` is the name of the Lease."""
    names: str
    """Between the Lease and that text in the refusal."""
    rule: str
    """The end of the refusal."""

    def yaml(self, *, lease: str, service_account: str) -> str:
        """Return a policy and its binding.

        Raises:
            InvalidArgumentError: naming the argument.
        """
        namespace, lease_name = _split("lease", lease)
        name = f"{namespace}.{lease_name}.{self.suffix}"
        if len(name) > _MAX_NAME:
            limit = _MAX_NAME - len(name) + len(lease)
            reason = f"must have at most {limit} characters, got {len(lease)}: {name!r} is too long"
            raise InvalidArgumentError("lease", reason)
        return _POLICY.format(
            name=name,
            namespace=namespace,
            lease_name=lease_name,
            lease=lease,
            account=":".join(_split("service_account", service_account)),
            named=self.named,
            is_named=self.is_named.replace("{lease_name}", lease_name),
            names=self.names,
            rule=self.rule,
        )


LEADER_ALONE: Final = LeasePolicy(
    suffix="leader-only",
    named='has(params.spec.holderIdentity) ? params.spec.holderIdentity : ""',
    is_named='variables.named == pod || variables.named.startsWith(pod + "_")',
    names="is held by",
    rule="a replica that does not lead may not write",
)


def admission_policy_yaml(*, lease: str, service_account: str) -> str:
    """Return an admission policy that lets an account write only from the pod that holds a Lease.

    It needs tokens that are bound to a pod, as Kubernetes mounts them, and identities that begin
    with the pod's name. A LeaderElector takes it from the environment variable `POD_NAME`, or
    else from the host name, which differs for a pod with `hostNetwork`, a `hostname` of its own or
    a name of more than 63 characters. Leases and Events are excepted. Without the Lease everything
    is allowed.

    Args:
        lease: the Lease, as `namespace/name`.
        service_account: whose writes are checked, as `namespace/name`.

    Returns:
        A ValidatingAdmissionPolicy and its binding, as YAML for `kubectl apply`.

    Raises:
        InvalidArgumentError: naming the argument.
    """
    return LEADER_ALONE.yaml(lease=lease, service_account=service_account)


def _split(argument: str, text: str) -> tuple[str, str]:
    check_text(argument, text)
    namespace, _, name = text.partition("/")
    is_name = len(name) <= _MAX_NAME and _NAME.fullmatch(name)
    if not (_NAMESPACE.fullmatch(namespace) and is_name):
        reason = f"must be 'namespace/name', as in 'ops/db-operator', got {text!r}"
        raise InvalidArgumentError(argument, reason)
    return namespace, name
