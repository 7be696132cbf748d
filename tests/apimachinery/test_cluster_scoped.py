"""Which resources of Kubernetes are in no namespace, beside what a server says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer.apimachinery import GroupVersionResource, is_built_in_cluster_scoped

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
            if "list" in one["verbs"]:  # a subresource or a review cannot be followed
                resource = GroupVersionResource.of(version, one["name"])
                found[str(resource)] = is_built_in_cluster_scoped(resource) is one["namespaced"]
    assert len(found) > 40
    assert [name for name, is_wrong in found.items() if is_wrong] == []


def _is_built_in(version: str) -> bool:
    return version.partition("/")[0].endswith(_GROUPS)


def test_a_resource_of_another_group_is_not_known() -> None:
    assert not is_built_in_cluster_scoped(GroupVersionResource.of("acme.io/v1", "nodes"))
