"""The resources of Kubernetes itself that are in no namespace, for use without discovery.

A resource of any other group may be either: a definition, or the server's discovery, says it.
"""

from __future__ import annotations

from typing import Final

from pyinformer.objects._keys_and_kinds import GroupVersionResource

_CLUSTER_SCOPED: Final = {
    "": {
        "componentstatuses",
        "groups",  # as those of users, uids, userextras and signers: only rights name them
        "namespaces",
        "nodes",
        "persistentvolumes",
        "users",
    },
    "admissionregistration.k8s.io": {
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    },
    "apiextensions.k8s.io": {"customresourcedefinitions"},
    "apiregistration.k8s.io": {"apiservices"},
    "authentication.k8s.io": {"selfsubjectreviews", "tokenreviews", "uids", "userextras"},
    "authorization.k8s.io": {
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
    },
    "certificates.k8s.io": {"certificatesigningrequests", "clustertrustbundles", "signers"},
    "flowcontrol.apiserver.k8s.io": {"flowschemas", "prioritylevelconfigurations"},
    "internal.apiserver.k8s.io": {"storageversions"},
    "metrics.k8s.io": {"nodes"},  # of the metrics server
    "networking.k8s.io": {"ingressclasses", "ipaddresses", "servicecidrs"},
    "node.k8s.io": {"runtimeclasses"},
    "rbac.authorization.k8s.io": {"clusterrolebindings", "clusterroles"},
    "resource.k8s.io": {
        "deviceclasses",
        "devicetaintrules",
        "resourcepoolstatusrequests",
        "resourceslices",
    },
    "scheduling.k8s.io": {"priorityclasses"},
    "storage.k8s.io": {
        "csidrivers",
        "csinodes",
        "storageclasses",
        "volumeattachments",
        "volumeattributesclasses",
    },
    "storagemigration.k8s.io": {"storageversionmigrations"},
}
"""Plural names, by their group."""


def is_built_in_cluster_scoped(resource: GroupVersionResource) -> bool:
    """Return whether a resource of Kubernetes itself is in no namespace; False for any other."""
    return resource.resource in _CLUSTER_SCOPED.get(resource.group, ())
