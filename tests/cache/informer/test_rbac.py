"""`required_rbac`: the least that informers need, as YAML, without asking the server."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

import pyinformer
from pyinformer.client.transport import ClusterConfig
from pyinformer.errors import InvalidArgumentError

PODS = {"api_version": "v1", "plural": "pods"}
SECRETS = {"api_version": "v1", "plural": "secrets"}
DEPLOYMENTS = {"api_version": "apps/v1", "plural": "deployments"}
VERBS = ["list", "watch"]


def roles(
    *needs: dict[str, Any], name: str = "watcher", account: str | None = None
) -> list[dict[str, Any]]:
    """Return what informers with these arguments need, without a server."""
    cluster = pyinformer.Cluster(ClusterConfig(server="http://127.0.0.1:1"))
    factory = pyinformer.SharedInformerFactory(cluster)
    for need in needs:
        factory.informer(**need)
    return list(yaml.safe_load_all(factory.required_rbac(name=name, service_account=account)))


def rule(group: str, *resources: str) -> dict[str, list[str]]:
    """Return a rule of list and watch."""
    return {"apiGroups": [group], "resources": list(resources), "verbs": VERBS}


def test_each_namespace_has_a_role_whose_rules_are_merged_by_group() -> None:
    found = roles(
        {**PODS, "namespaces": ["shop", "bank"]},
        {**SECRETS, "namespaces": ["shop"]},
        {**DEPLOYMENTS, "namespaces": ["shop"]},
        {**PODS, "namespaces": ["shop"]},
    )
    assert [(one["kind"], one["metadata"]) for one in found] == [
        ("Role", {"namespace": "bank", "name": "watcher"}),
        ("Role", {"namespace": "shop", "name": "watcher"}),
    ]
    assert found[0]["rules"] == [rule("", "pods")]
    assert found[1]["rules"] == [rule("", "pods", "secrets"), rule("apps", "deployments")]


def test_following_all_namespaces_needs_only_a_cluster_role() -> None:
    found = roles(PODS, {**PODS, "namespaces": ["shop"]}, {**SECRETS, "namespaces": ["shop"]})
    assert [one["kind"] for one in found] == ["ClusterRole", "Role"]
    assert "namespace" not in found[0]["metadata"]
    assert [one["rules"] for one in found] == [[rule("", "pods")], [rule("", "secrets")]]


def test_following_one_object_needs_a_rule_for_that_object_only() -> None:
    (found,) = roles(
        {**SECRETS, "namespaces": ["shop"], "field_selector": "metadata.name=b"},
        {**SECRETS, "namespaces": ["shop"], "field_selector": "metadata.name=a"},
        {**PODS, "namespaces": ["shop"]},
        {**PODS, "namespaces": ["shop"], "field_selector": "metadata.name=a"},
    )
    named = {**rule("", "secrets"), "resourceNames": ["a", "b"]}
    assert found["rules"] == [rule("", "pods"), named]
    (found,) = roles(
        {**SECRETS, "namespaces": ["shop"], "field_selector": "metadata.name=a"}, SECRETS
    )
    assert (found["kind"], found["rules"]) == ("ClusterRole", [rule("", "secrets")])


@pytest.mark.covers("apimachinery pkg/fields: TestRequiresExactMatch")
@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=one", ["one"]),
        ("metadata.name=one,metadata.namespace=shop", ["one"]),
        ("metadata.name!=one", None),
        ("metadata.namespace=shop", None),
    ],
)
async def test_a_selector_for_a_name_is_seen_in_the_role(
    selector: str, names: list[str] | None
) -> None:
    config = ClusterConfig(server="http://127.0.0.1:1")
    async with (
        pyinformer.connect(config=config) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        factory.informer("v1", "secrets", namespaces="shop", field_selector=selector)
        (found,) = yaml.safe_load_all(factory.required_rbac())
    assert found["rules"][0].get("resourceNames") == names


def test_a_namespace_selector_needs_a_rule_for_namespaces() -> None:
    (found,) = roles({**PODS, "namespace_selector": "team=a"})
    assert found["kind"] == "ClusterRole"
    assert found["rules"] == [rule("", "namespaces", "pods")]


def test_a_service_account_is_bound_to_each_role() -> None:
    found = roles(PODS, {**SECRETS, "namespaces": ["on"]}, name="pods:watch", account="shop/123")
    assert [one["kind"] for one in found] == [
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ]
    for role, binding in zip(found[::2], found[1::2], strict=True):
        assert binding["metadata"] == role["metadata"]
        group, kind = "rbac.authorization.k8s.io", role["kind"]
        assert binding["roleRef"] == {"apiGroup": group, "kind": kind, "name": "pods:watch"}
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "namespace": "shop", "name": "123"}
        ]
    assert found[2]["metadata"]["namespace"] == "on", "quoted, or YAML would take it for true"


@pytest.mark.parametrize(
    ("name", "account", "argument"),
    [
        ("", None, "name"),
        ("a\nb: c", None, "name"),
        ("a", "watcher", "service_account"),
        ("a", "shop/", "service_account"),
        ("a", "a/b/c", "service_account"),
    ],
)
def test_invalid_names_are_refused(name: str, account: str | None, argument: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{argument}: "):
        roles(PODS, name=name, account=account)


async def test_a_factory_lists_required_rights_without_a_server() -> None:
    config = ClusterConfig(server="http://127.0.0.1:1")
    async with (
        pyinformer.connect(config=config) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        assert factory.required_rbac() == ""
        factory.informer("v1", "pods", namespaces="shop")
        factory.informer("v1", "secrets", namespaces="shop", memory="metadata")
        factory.informer("apps/v1", "deployments", namespace_selector="team=a")
        assert factory.required_rbac(name="watcher") == (
            "apiVersion: rbac.authorization.k8s.io/v1\n"
            "kind: ClusterRole\n"
            "metadata:\n"
            "  name: watcher\n"
            "rules:\n"
            "- apiGroups:\n"
            "  - ''\n"
            "  resources:\n"
            "  - namespaces\n"
            "  verbs:\n"
            "  - list\n"
            "  - watch\n"
            "- apiGroups:\n"
            "  - apps\n"
            "  resources:\n"
            "  - deployments\n"
            "  verbs:\n"
            "  - list\n"
            "  - watch\n"
            "---\n"
            "apiVersion: rbac.authorization.k8s.io/v1\n"
            "kind: Role\n"
            "metadata:\n"
            "  namespace: shop\n"
            "  name: watcher\n"
            "rules:\n"
            "- apiGroups:\n"
            "  - ''\n"
            "  resources:\n"
            "  - pods\n"
            "  - secrets\n"
            "  verbs:\n"
            "  - list\n"
            "  - watch\n"
        )
