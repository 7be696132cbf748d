"""The hooks of one operator, and the configurations that make the API server ask them."""

# Pure: it knows no event loop.

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from pyinformer.admission._hooks import OWN
from pyinformer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pyinformer.admission._hooks import Hook, HookKind
    from pyinformer.admission._reviews import Reviews
    from pyinformer.admission._webhooks import Webhooks
    from pyinformer.objects import JSONObject

_GROUP: Final = "admissionregistration.k8s.io/v1"
ConfigurationKind: TypeAlias = Literal[
    "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
]

_CONFIGURATIONS: Final[dict[HookKind, ConfigurationKind]] = {
    "default": "MutatingWebhookConfiguration",
    "validate": "ValidatingWebhookConfiguration",
}
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"  # the server sets it on every Namespace
_SYSTEM: Final = "kube-system"  # what it runs may have to start before any hook can answer
_SERVICE_PORT: Final = 443
_NOT_IN_A_LABEL: Final = re.compile(r"[^a-z0-9-]")

# A write that only removes a finalizer, or that the operator itself sends, must pass also when
# no replica answers: else the operator cannot be uninstalled, nor repair what is wrong.
_NOT_OF_METADATA: Final = (
    "request.operation != 'UPDATE' || !has(object.metadata.deletionTimestamp)"
    " || !has(oldObject.metadata.finalizers)"
    " || (has(object.metadata.finalizers)"
    " && object.metadata.finalizers.size() >= oldObject.metadata.finalizers.size())"
    # ... and something else is changed, too.
    " || size(object) != size(oldObject)"
    " || !object.all(k, k == 'metadata' || (k in oldObject && object[k] == oldObject[k]))"
)


@final
class HookSet:
    """The hooks of one operator, in the order of their registration.

    Args:
        operator: its name, which the configurations and their hooks have.
    """

    def __init__(self, operator: str) -> None:
        self._operator = operator
        self._hooks: list[Hook] = []

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def __iter__(self) -> Iterator[Hook]:
        return iter(self._hooks)

    def add(self, hook: Hook) -> None:
        """Register one more; without a name it gets its plural name, with more if that is taken.

        Raises:
            InvalidArgumentError: its name is taken, or another default is asked about the same
                requests, so that their order would decide.
        """
        for other in self._hooks:
            if hook.name and (other.kind, other.name) == (hook.kind, hook.name):
                reason = f"{hook.name!r} is registered already: give this one a name= of its own"
                raise InvalidArgumentError("name", reason)
            if hook.kind == "default" and hook.overlaps(other):
                reason = (
                    f"{other.name!r} sets defaults of {hook.resource} already: one function sets"
                    " all, or each has operations= of its own"
                )
                raise InvalidArgumentError("operations", reason)
        self._hooks.append(hook if hook.name else replace(hook, name=self._name_for(hook)))

    def _name_for(self, hook: Hook) -> str:
        taken = {one.name for one in self._hooks if one.kind == hook.kind}
        resource = hook.resource
        words = (resource.resource, hook.subresource, resource.group, resource.version)
        names = (_as_label("-".join(filter(None, words[:count]))) for count in range(1, 5))
        free = (name for name in names if name not in taken)
        return next(free, f"{hook.kind}-{len(self._hooks)}")

    def reviews(self) -> dict[str, Reviews]:
        """Return what answers the reviews of each path."""
        from pyinformer.admission._reviews import Reviews

        return {one.path: Reviews(one) for one in self._hooks}

    def names(self) -> dict[ConfigurationKind, str]:
        """Return the kinds of the configurations that are needed, with their names."""
        found = {_CONFIGURATIONS[one.kind] for one in self._hooks}
        return {kind: configuration_name(self._operator) for kind in sorted(found)}

    def configurations(
        self, webhooks: Webhooks, *, service_account: str | None, ca_bundle: str = ""
    ) -> list[JSONObject]:
        """Return the configurations for the API server.

        Args:
            webhooks: how the hooks are reached.
            service_account: of the operator, as `namespace/name`: it is not asked about what that
                writes, nor about the namespace; None asks about all.
            ca_bundle: the base64 of the PEM of what clients trust; empty if it is set elsewhere.
        """
        found: list[JSONObject] = []
        for kind, configuration in _CONFIGURATIONS.items():
            hooks = [one for one in self._hooks if one.kind == kind]
            if hooks:
                metadata = {"name": configuration_name(self._operator)}
                found.append(
                    {
                        "apiVersion": _GROUP,
                        "kind": configuration,
                        "metadata": metadata,
                        "webhooks": [
                            self._webhook(one, webhooks, service_account, ca_bundle)
                            for one in hooks
                        ],
                    }
                )
        return found

    def _webhook(
        self, hook: Hook, webhooks: Webhooks, service_account: str | None, ca_bundle: str
    ) -> JSONObject:
        resource = hook.resource
        path = f"{resource.resource}/{hook.subresource}" if hook.subresource else resource.resource
        found: JSONObject = {
            "name": f"{hook.name}.{hook.kind}.{configuration_name(self._operator)}.webhook",
            "clientConfig": client_config(webhooks, hook.path, ca_bundle=ca_bundle),
            "rules": [
                {
                    "apiGroups": [resource.group],
                    "apiVersions": [resource.version],
                    "resources": [path],
                    "operations": [one.upper() for one in hook.operations],
                    "scope": "*",
                }
            ],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore" if hook.ignores_failures else "Fail",
            "timeoutSeconds": int(hook.timeout_seconds),
            "matchPolicy": "Equivalent",
        }
        if hook.kind == "default":
            found["reinvocationPolicy"] = "IfNeeded"
        finalizers, operator = OWN
        conditions = {finalizers: _NOT_OF_METADATA}
        if service_account:
            namespace, _, name = service_account.partition("/")
            user = f"system:serviceaccount:{namespace}:{name}"
            conditions[operator] = f"request.userInfo.username != {user!r}"
            spared = sorted({namespace, _SYSTEM})
            outside = {"key": _NAMESPACE_LABEL, "operator": "NotIn", "values": spared}
            found["namespaceSelector"] = {"matchExpressions": [outside]}
        found["matchConditions"] = [
            {"name": name, "expression": text.strip()}
            for name, text in {**hook.when, **conditions}.items()
        ]
        return found


def configuration_name(operator: str) -> str:
    """Return the name of an operator as its configurations have it."""
    return _as_label(operator) or "operator"


def _as_label(text: str) -> str:
    return _NOT_IN_A_LABEL.sub("-", text.lower()).strip("-")


def client_config(
    webhooks: Webhooks, path: str, *, ca_bundle: str = "", converts: bool = False
) -> JSONObject:
    """Return how the API server reaches a path of the webhooks.

    Args:
        webhooks: how they are reached.
        path: of the URL.
        ca_bundle: the base64 of the PEM of what it trusts; empty if it is set elsewhere.
        converts: whether the path is that of conversions.
    """
    if webhooks.url is not None:
        found: JSONObject = {"url": webhooks.url.rstrip("/") + path}
    else:
        service = webhooks.conversion_service if converts else webhooks.service
        namespace, _, name = (service or "").partition("/")
        found = {
            "service": {"namespace": namespace, "name": name, "path": path, "port": _SERVICE_PORT}
        }
    return {**found, "caBundle": ca_bundle} if ca_bundle else found
