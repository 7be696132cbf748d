"""The fields that a real server sets in policies and in the configurations of webhooks.

Nothing but the argument is changed, and that in place.

Source:
    k8s.io/kubernetes pkg/apis/admissionregistration/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyinformer.objects import JSONObject

_GROUP: Final = "admissionregistration.k8s.io"
CONFIGURATIONS: Final = (
    f"mutatingwebhookconfigurations.{_GROUP}",
    f"validatingwebhookconfigurations.{_GROUP}",
)
_WEBHOOK: Final[JSONObject] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
_MATCH: Final[JSONObject] = {
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
}


def complete_configuration(body: JSONObject) -> None:
    """Set the defaults of each webhook of a configuration."""
    mutates = body["kind"] == "MutatingWebhookConfiguration"
    found = {**_WEBHOOK, "reinvocationPolicy": "Never"} if mutates else _WEBHOOK
    body["webhooks"] = [
        {
            **found,
            **one,
            "clientConfig": _client_config(one.get("clientConfig") or {}),
            "rules": _rules(one.get("rules") or []),
        }
        for one in body.get("webhooks") or ()
    ]


def complete_policy(spec: JSONObject) -> None:
    """Set the defaults of a policy."""
    spec.setdefault("failurePolicy", "Fail")
    if isinstance(spec.get("matchConstraints"), dict):
        spec["matchConstraints"] = _match(spec["matchConstraints"])


def complete_binding(spec: JSONObject) -> None:
    """Set the defaults of the binding of a policy."""
    if isinstance(spec.get("matchResources"), dict):
        spec["matchResources"] = _match(spec["matchResources"])


SPECS: Final[dict[str, Callable[[JSONObject], None]]] = {
    f"{kind}{plural}.{_GROUP}": complete
    for kind in ("mutatingadmission", "validatingadmission")
    for plural, complete in (("policies", complete_policy), ("policybindings", complete_binding))
}
"""What completes the spec of each resource, in place."""


def _match(given: JSONObject) -> JSONObject:
    found = {**_MATCH, **given}
    for name in ("resourceRules", "excludeResourceRules"):
        if given.get(name):
            found[name] = _rules(given[name])
    return found


def _rules(given: list[JSONObject]) -> list[JSONObject]:
    return [{"scope": "*", **one} for one in given]


def _client_config(given: JSONObject) -> JSONObject:
    service = given.get("service")
    return {**given, "service": {"port": 443, **service}} if isinstance(service, dict) else given
