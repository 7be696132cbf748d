"""Short names, categories and scale paths of the built-in resources, as discovery lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The paths in an object that its scale subresource reads and writes.

    Attributes:
        spec: the parts of the path of the wanted number.
        status: the path of the current number.
        selector: the path of the selector; None if there is none.
        default: the number if the object has none.
    """

    spec: tuple[str, ...] = ("spec", "replicas")
    status: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] | None = ("spec", "selector")
    default: int = 1


SHORT_NAMES: Final = {
    "configmaps": ("cm",),
    "endpoints": ("ep",),
    "events": ("ev",),
    "limitranges": ("limits",),
    "namespaces": ("ns",),
    "nodes": ("no",),
    "persistentvolumeclaims": ("pvc",),
    "persistentvolumes": ("pv",),
    "pods": ("po",),
    "replicationcontrollers": ("rc",),
    "resourcequotas": ("quota",),
    "serviceaccounts": ("sa",),
    "services": ("svc",),
    "customresourcedefinitions.apiextensions.k8s.io": ("crd", "crds"),
    "daemonsets.apps": ("ds",),
    "deployments.apps": ("deploy",),
    "replicasets.apps": ("rs",),
    "statefulsets.apps": ("sts",),
    "horizontalpodautoscalers.autoscaling": ("hpa",),
    "cronjobs.batch": ("cj",),
    "events.events.k8s.io": ("ev",),
    "ingresses.networking.k8s.io": ("ing",),
    "networkpolicies.networking.k8s.io": ("netpol",),
    "certificatesigningrequests.certificates.k8s.io": ("csr",),
    "poddisruptionbudgets.policy": ("pdb",),
    "priorityclasses.scheduling.k8s.io": ("pc",),
    "storageclasses.storage.k8s.io": ("sc",),
}
ADMISSION_GROUP: Final = "admissionregistration.k8s.io"
ADMISSION_KINDS: Final = {
    "mutatingadmissionpolicies": "MutatingAdmissionPolicy",
    "mutatingadmissionpolicybindings": "MutatingAdmissionPolicyBinding",
    "mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
    "validatingadmissionpolicies": "ValidatingAdmissionPolicy",
    "validatingadmissionpolicybindings": "ValidatingAdmissionPolicyBinding",
    "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
}
"""The resources of that group, and their kinds."""
CATEGORIES: Final = {
    **dict.fromkeys(
        (
            "pods",
            "replicationcontrollers",
            "services",
            "daemonsets.apps",
            "deployments.apps",
            "replicasets.apps",
            "statefulsets.apps",
            "horizontalpodautoscalers.autoscaling",
            "cronjobs.batch",
            "jobs.batch",
        ),
        ("all",),
    ),
    **dict.fromkeys(
        (
            "customresourcedefinitions.apiextensions.k8s.io",
            *(f"{plural}.{ADMISSION_GROUP}" for plural in ADMISSION_KINDS),
        ),
        ("api-extensions",),
    ),
}
SUBRESOURCES: Final = {
    "certificatesigningrequests.certificates.k8s.io": ("approval",),
    "namespaces": ("finalize",),
    "pods": ("binding", "ephemeralcontainers", "eviction", "exec", "log"),
    "serviceaccounts": ("token",),
}
"""The subresources besides status and scale."""

SCALES: Final = dict.fromkeys(
    ("deployments.apps", "replicasets.apps", "statefulsets.apps", "replicationcontrollers"),
    ScalePaths(),
)
