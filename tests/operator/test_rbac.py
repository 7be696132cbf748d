"""`Operator.required_rbac`: the least rights for what is declared, without a server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from pyinformer import LeaderElection
from pyinformer.errors import InvalidArgumentError
from pyinformer.operator import Operator, Owns, custom_resource

_READS = ["get", "list", "watch"]
_ALL = ["create", "delete", "get", "list", "patch", "update", "watch"]
_EVENTS = ("events.k8s.io/events", ["create", "get", "patch"])


class Spec(msgspec.Struct):
    size: int = 1


@custom_resource("acme.io/v1", "planets", scope="Cluster")
class Planet(msgspec.Struct):
    spec: Spec


async def reconcile(*_: Any) -> None:
    """Do nothing."""


def operator(plural: str = "databases", api_version: str = "acme.io/v1", **more: Any) -> Operator:
    """Return an operator of one resource."""
    app = Operator("db-operator")
    app.reconcile(api_version, plural, **more)(reconcile)
    return app


def roles(app: Operator, **arguments: Any) -> dict[str, dict[str, list[str]]]:
    """Return what the roles grant: resource to verbs, by namespace; "" is the ClusterRole."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in yaml.safe_load_all(app.required_rbac(**arguments)):
        if "rules" in one:
            assert one["metadata"]["name"] == arguments.get("name", app.name)
            place = found.setdefault(one["metadata"].get("namespace", ""), {})
            place |= {name: rule["verbs"] for rule in one["rules"] for name in _named(rule)}
    return found


def _named(rule: dict[str, Any]) -> list[str]:
    (group,) = rule["apiGroups"]
    only = "".join(f"={name}" for name in rule.get("resourceNames", ()))
    return [f"{group}/{resource}{only}".removeprefix("/") for resource in rule["resources"]]


def test_the_role_is_derived_from_what_is_declared() -> None:
    app = operator(
        owns=[("apps/v1", "statefulsets")], watches=[("v1", "secrets", lambda _: ["default/a"])]
    )
    granted = {
        "acme.io/databases": _READS,
        "acme.io/databases/finalizers": ["update"],
        "acme.io/databases/status": ["patch", "update"],
        "apps/statefulsets": _ALL,
        "events.k8s.io/events": ["create", "get", "patch"],
        "secrets": _READS,
    }
    assert roles(app) == {"": granted}
    assert roles(app, namespaces=["shop", "bank"]) == {"bank": granted, "shop": granted}


def test_what_is_only_read_is_in_the_role() -> None:
    app = operator(owns=[Owns("v1", "secrets", label_selector="app=db")])
    app.follow("v1", "nodes")
    app.follow("v1", "configmaps", field_selector="metadata.name=settings")
    app.index("v1", "pods", "node", "spec.nodeName")
    found = roles(app, namespaces="shop")
    assert found["shop"]["secrets"] == _ALL
    assert found["shop"]["configmaps=settings"] == _READS
    assert found["shop"]["pods"] == _READS
    assert found[""] == {"nodes": _READS}


def test_declared_writes_are_added_to_what_is_read() -> None:
    app = Operator(
        "db-operator",
        writes=[
            ("v1", "secrets"),
            ("v1", "pods/eviction", "create"),
            ("acme.io/v1", "databases", "patch"),
            ("v1", "nodes", "patch"),
        ],
    )
    app.reconcile("acme.io/v1", "databases")(reconcile)
    found = roles(app, namespaces="shop")
    assert found["shop"]["secrets"] == ["create", "delete", "patch", "update"]
    assert found["shop"]["pods/eviction"] == ["create"]
    assert found["shop"]["acme.io/databases"] == ["get", "list", "patch", "watch"]
    assert found[""] == {"nodes": ["patch"]}, "nodes are in no namespace"


def test_resources_without_namespaces_need_a_cluster_role() -> None:
    app = operator("planets", model=Planet, owns=[("v1", "namespaces"), ("v1", "configmaps")])
    found = roles(app, namespaces="shop")
    assert found[""]["acme.io/planets"] == _READS
    assert found[""]["namespaces"] == _ALL
    assert found["shop"] == dict([("configmaps", _ALL), _EVENTS])
    assert found["default"] == dict([_EVENTS]), "there are the Events about such objects"


def test_a_selector_for_a_name_is_seen_in_the_role() -> None:
    found = roles(operator(field_selector="metadata.name=one"))
    assert found[""]["acme.io/databases=one"] == _READS
    assert "acme.io/databases" not in found[""]


def test_the_lease_is_in_the_namespace_of_the_account() -> None:
    app = Operator("db-operator", leader_election=LeaderElection())
    app.reconcile("acme.io/v1", "databases")(reconcile)
    found = roles(app, service_account="ops/db", name="db")
    assert found["ops"] == {
        "coordination.k8s.io/leases": ["create"],
        "coordination.k8s.io/leases=db-operator": ["get", "list", "update", "watch"],
    }, "its Events are granted by the ClusterRole"
    with pytest.raises(InvalidArgumentError, match=r"service_account: must be given.*namespace="):
        app.required_rbac()


def test_the_namespace_of_the_lease_may_be_declared() -> None:
    app = Operator("db-operator", leader_election=LeaderElection(namespace="leases"))
    app.reconcile("acme.io/v1", "databases")(reconcile)
    assert "coordination.k8s.io/leases" in roles(app)["leases"]


@pytest.mark.parametrize(
    ("writes", "words"),
    [
        pytest.param("secrets", "must be a list of tuples", id="text"),
        pytest.param([("v1",)], 'entries like ("v1", "secrets")', id="short"),
        pytest.param(["v1", "secrets"], 'entries like ("v1", "secrets")', id="flat"),
        pytest.param([("v1", "secrets", 3)], 'entries like ("v1", "secrets")', id="number"),
        pytest.param([("v1", "secrets", "write")], "'write' is not a verb of RBAC", id="verb"),
        pytest.param([("secrets", "v1")], "arguments swapped", id="swapped"),
        pytest.param([("v1", "pods/")], "'pods/' must be like", id="no-subresource"),
        pytest.param([("v1", "pods/a/log")], "'pods/a/log' must be like", id="object"),
    ],
)
def test_an_invalid_write_is_refused_when_it_is_declared(writes: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Operator("db-operator", writes=writes)
    assert words in str(caught.value)


def test_an_operator_without_a_function_has_no_rights() -> None:
    with pytest.raises(InvalidArgumentError, match="no function is registered"):
        Operator("db-operator").required_rbac()
