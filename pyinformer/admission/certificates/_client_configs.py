"""Where webhook configurations and definitions have the authorities that the server trusts."""

# Pure: it knows no event loop.

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, final

from pyinformer.objects import GroupVersionResource

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject

ConfigurationKind: TypeAlias = Literal[
    "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "CustomResourceDefinition"
]

_RESOURCES: Final[dict[str, tuple[str, str]]] = {
    "ValidatingWebhookConfiguration": (
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
    ),
    "MutatingWebhookConfiguration": (
        "admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
    ),
    "CustomResourceDefinition": ("apiextensions.k8s.io/v1", "customresourcedefinitions"),
}
_INJECTED_BY: Final = tuple(
    f"cert-manager.io/inject-{source}" for source in ("ca-from", "ca-from-secret", "apiserver-ca")
)


@final
class Target(NamedTuple):
    """An object that names the operator's webhooks."""

    kind: ConfigurationKind
    name: str

    @property
    def resource(self) -> GroupVersionResource:
        """The resource of its kind."""
        return GroupVersionResource.of(*_RESOURCES[self.kind])

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def bundles_in(obj: JSONObject) -> list[str]:
    """Return the authorities of each webhook as PEM; empty texts where there are none."""
    return [
        base64.b64decode(config.get("caBundle") or "").decode("ascii", "replace")
        for config in _client_configs(obj)
    ]


def put_bundle(obj: JSONObject, bundle: str) -> None:
    """Set the authorities of each webhook in an object."""
    for config in _client_configs(obj):
        config["caBundle"] = base64.b64encode(bundle.encode()).decode()


def is_injected(obj: JSONObject) -> bool:
    """Return whether cert-manager writes the authorities of an object."""
    annotations = obj["metadata"].get("annotations") or {}
    return any(name in annotations for name in _INJECTED_BY)


def _client_configs(obj: JSONObject) -> list[dict[str, Any]]:
    if obj["kind"] == "CustomResourceDefinition":
        conversion = obj["spec"].get("conversion") or {}
        webhooks = [conversion.get("webhook") or {}]
    else:
        webhooks = obj.get("webhooks") or []
    return [one["clientConfig"] for one in webhooks if one.get("clientConfig")]
