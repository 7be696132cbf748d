"""The configurations by which the API server asks hooks."""

from __future__ import annotations

import base64
from typing import Any

import pytest

import pyinformer
from pyinformer.admission import Webhooks
from pyinformer.errors import InvalidArgumentError, InvalidTypeError


def _app(**how: Any) -> pyinformer.Operator:
    app = pyinformer.Operator("db", webhooks=Webhooks(**(how or {"service": "db/hooks"})))
    app.reconcile("acme.io/v1", "databases")(lambda _request, _obj, _cluster: None)
    app.validate(
        "acme.io/v1",
        "databases/scale",
        operations=["update"],
        when={"many": " object.spec.replicas > 3 "},
        timeout_seconds=7,
        ignores_failures=True,
    )(lambda _obj, _review: None)
    app.default("acme.io/v1", "databases")(lambda _obj, _review: None)
    return app


def test_the_server_is_asked_to_call_what_was_registered() -> None:
    mutating, validating = _app().webhook_configurations(
        service_account="db/account", ca_bundle=b"pem"
    )
    assert (mutating["kind"], mutating["metadata"]) == (
        "MutatingWebhookConfiguration",
        {"name": "db"},
    )
    (default,), (validate,) = mutating["webhooks"], validating["webhooks"]
    assert default["name"] == "databases.default.db.webhook"
    assert default["reinvocationPolicy"] == "IfNeeded"
    assert default["rules"] == [
        {
            "apiGroups": ["acme.io"],
            "apiVersions": ["v1"],
            "resources": ["databases"],
            "operations": ["CREATE", "UPDATE"],
            "scope": "*",
        }
    ]
    assert (default["failurePolicy"], default["timeoutSeconds"]) == ("Fail", 5)
    assert default["clientConfig"] == {
        "service": {
            "namespace": "db",
            "name": "hooks",
            "path": "/default/databases",
            "port": 443,
        },
        "caBundle": base64.b64encode(b"pem").decode(),
    }
    assert validate["rules"][0]["resources"] == ["databases/scale"]
    assert (validate["failurePolicy"], validate["timeoutSeconds"]) == ("Ignore", 7)
    conditions = {one["name"]: one["expression"] for one in validate["matchConditions"]}
    assert list(conditions) == ["many", "not-finalizers", "not-the-operator"]
    assert conditions["many"] == "object.spec.replicas > 3"
    assert conditions["not-the-operator"] == (
        "request.userInfo.username != 'system:serviceaccount:db:account'"
    )
    assert validate["namespaceSelector"]["matchExpressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["db", "kube-system"]}
    ]


def test_a_program_outside_the_cluster_is_reached_by_its_url() -> None:
    mutating, _ = _app(url="https://10.0.2.2:9443/").webhook_configurations()
    (webhook,) = mutating["webhooks"]
    assert webhook["clientConfig"] == {"url": "https://10.0.2.2:9443/default/databases"}
    assert "namespaceSelector" not in webhook


@pytest.mark.parametrize("wrong", ["a", "a/b/c", "/a", 5])
def test_a_wrong_account_is_refused(wrong: Any) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="service_account"):
        _app().webhook_configurations(service_account=wrong)
    with pytest.raises(InvalidTypeError, match="ca_bundle"):
        _app().webhook_configurations(ca_bundle=wrong)


def test_the_rights_to_the_secret_are_in_the_namespace_of_the_pod() -> None:
    by_url = _app(url="https://10.0.2.2:9443").required_rbac(service_account="shop/db")
    assert "namespace: shop" in by_url
    assert "namespace: default" not in by_url
    assert "namespace: db" in _app().required_rbac(service_account="shop/db")
