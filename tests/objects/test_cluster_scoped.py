"""Which resources of Kubernetes are in no namespace, beside what a server says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer.objects import GroupVersionResource, is_built_in_cluster_scoped

if TYPE_CHECKING:
    from pyinformer.testing import KubeAPIServer

_GROUPS = ("k8s.io", "apps", "autoscaling", "batch", "policy")


@pytest.mark.real
def test_the_table_says_what_the_server_says(kube_apiserver: KubeAPIServer) -> None:
    groups = kube_apiserver.request("GET", "/apis")["groups"]
    versions = [one["groupVersion"] for group in groups for one in group["versions"]]
    found: dict[str, bool] = {}
    for path in ("/api/v1", *(f"/apis/{one}" for one in versions if _is_built_in(one))):
        version = path.removeprefix("/apis/").removeprefix("/api/")
        for one in kube_apiserver.request("GET", path)["resources"]:
            if "/" not in one["name"]:
                resource = GroupVersionResource.of(version, one["name"])
                found[str(resource)] = is_built_in_cluster_scoped(resource) is one["namespaced"]
    assert len(found) > 40
    assert [name for name, is_wrong in found.items() if is_wrong] == []


def _is_built_in(version: str) -> bool:
    return version.partition("/")[0].endswith(_GROUPS)


def test_a_resource_of_another_group_is_not_known() -> None:
    assert not is_built_in_cluster_scoped(GroupVersionResource.of("acme.io/v1", "nodes"))


@pytest.mark.parametrize(
    ("version", "plural"),
    [
        ("v1", "users"),
        ("v1", "groups"),
        ("authentication.k8s.io/v1", "uids"),
        ("authentication.k8s.io/v1", "userextras"),
        ("certificates.k8s.io/v1", "signers"),
        ("authentication.k8s.io/v1", "tokenreviews"),
        ("authorization.k8s.io/v1", "subjectaccessreviews"),
    ],
)
def test_what_only_rights_name_is_known_too(version: str, plural: str) -> None:
    """Discovery has no users: a right to impersonate them is checked without a namespace."""
    assert is_built_in_cluster_scoped(GroupVersionResource.of(version, plural))


@pytest.mark.parametrize(
    ("version", "plural"),
    [("v1", "serviceaccounts"), ("authorization.k8s.io/v1", "localsubjectaccessreviews")],
)
def test_what_is_in_a_namespace_is_not_cluster_scoped(version: str, plural: str) -> None:
    assert not is_built_in_cluster_scoped(GroupVersionResource.of(version, plural))
