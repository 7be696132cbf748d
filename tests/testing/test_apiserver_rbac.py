"""RBAC of both servers: the same decisions, with the same wording."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pyinformer.errors import LifecycleError
from pyinformer.testing import APIServer, KubeAPIServer, Token
from tests.testing.wire import Answer, Wire
from tests.waiting import poll

_RBAC = "rbac.authorization.k8s.io"
_TOKEN_REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
_REVIEWS = "/apis/authorization.k8s.io/v1"


@dataclass
class _Cluster:
    """A server, and a service account without rights."""

    api: APIServer | KubeAPIServer
    admin: Wire
    user: Wire
    namespace: str

    def role(self, name: str, *rules: dict[str, Any]) -> None:
        """Create a Role, and bind the account to it."""
        metadata = {"name": name, "namespace": self.namespace}
        shared = {"apiVersion": f"{_RBAC}/v1", "metadata": metadata}
        self.api.create({**shared, "kind": "Role", "rules": list(rules)})
        self.bind(name)

    def bind(self, role: str) -> None:
        """Bind the account to a Role, which need not exist."""
        subject = {"kind": "ServiceAccount", "name": "worker", "namespace": self.namespace}
        self.api.create(
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": f"to-{role}", "namespace": self.namespace},
                "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": role},
                "subjects": [subject],
            }
        )

    def pods(self, name: str = "") -> str:
        """Return a path."""
        return f"/api/v1/namespaces/{self.namespace}/pods{name and '/'}{name}"

    def becomes(self, path: str, status: int, **query: Any) -> Answer:
        """Return the answer as soon as it has a status; the real server takes a moment."""
        asked: Callable[[], Answer] = lambda: self.user.get(path, **query)  # noqa: E731 - asked twice
        assert poll(lambda: asked().status == status, timeout_seconds=100), asked().body
        return asked()


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def cluster(request: pytest.FixtureRequest) -> Iterator[_Cluster]:
    """Make an account on either server."""
    if request.param == "embedded":
        with APIServer(rbac=True) as embedded:
            yield from _cluster(embedded, None)
        return
    real: KubeAPIServer = request.getfixturevalue("kube_apiserver")
    yield from _cluster(real, ssl.create_default_context(cafile=str(real.ca_file)))


def _cluster(api: APIServer | KubeAPIServer, context: ssl.SSLContext | None) -> Iterator[_Cluster]:
    namespace = f"rbac-{secrets.token_hex(4)}"
    api.ensure_namespace(namespace)
    metadata = {"name": "worker", "namespace": namespace}
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    with Wire(api.url, context=context, token=api.token) as admin:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/worker/token"
        answer = admin.request("POST", path, _TOKEN_REQUEST)
        assert answer.status == 201, answer.body
        token = answer.json["status"]["token"]
        with Wire(api.url, context=context, token=token) as user:
            yield _Cluster(api, admin, user, namespace)


def _message(cluster: _Cluster, what: str) -> str:
    return what.replace("$", cluster.namespace)


def test_without_a_role_nothing_is_allowed_and_the_message_names_the_request(
    cluster: _Cluster,
) -> None:
    ns = cluster.namespace
    who = f'User "system:serviceaccount:{ns}:worker"'
    core = 'in API group ""'
    expected = {
        cluster.pods(): f'pods is forbidden: {who} cannot list resource "pods" {core}'
        f' in the namespace "{ns}"',
        cluster.pods("a"): f'pods "a" is forbidden: {who} cannot get resource "pods" {core}'
        f' in the namespace "{ns}"',
        "/api/v1/pods": f'pods is forbidden: {who} cannot list resource "pods" {core}'
        " at the cluster scope",
        f"/api/v1/namespaces/{ns}": f'namespaces "{ns}" is forbidden: {who} cannot get resource'
        f' "namespaces" {core} in the namespace "{ns}"',
        "/api/v1/nodes/a": f'nodes "a" is forbidden: {who} cannot get resource "nodes" {core}'
        " at the cluster scope",
        "/apis/no.example.com/v1/things": f"things.no.example.com is forbidden: {who} cannot list"
        ' resource "things" in API group "no.example.com" at the cluster scope',
        "/metrics": f'forbidden: {who} cannot get path "/metrics"',
    }
    for path, message in expected.items():
        answer = cluster.user.get(path)
        assert (answer.status, answer.json["message"]) == (403, message)
        assert answer.json["reason"] == "Forbidden"
    assert cluster.user.get("/metrics").json["details"] == {}
    assert cluster.user.get(cluster.pods("a")).json["details"] == {"name": "a", "kind": "pods"}


def test_every_user_may_discover(cluster: _Cluster) -> None:
    for path in ("/api", "/apis", "/api/v1", "/apis/apps/v1", "/version", "/healthz"):
        assert cluster.user.get(path).status == 200, path


def test_rules_name_verbs_groups_resources_names_and_subresources(cluster: _Cluster) -> None:
    cluster.role(
        "some",
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        {
            "apiGroups": [""],
            "resources": ["pods"],
            "verbs": ["get", "list"],
            "resourceNames": ["a"],
        },
        {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get"]},
        {"apiGroups": ["batch"], "resources": ["*"], "verbs": ["list"]},
    )
    base = f"/namespaces/{cluster.namespace}"
    cluster.becomes(f"/api/v1{base}/configmaps", 200)
    expected = {
        cluster.pods(): 403,
        cluster.pods("a"): 404,
        cluster.pods("b"): 403,
        f"{cluster.pods('a')}/status": 403,
        f"{cluster.pods()}?fieldSelector=metadata.name%3Da": 200,
        f"{cluster.pods()}?fieldSelector=metadata.name%3Db": 403,
        f"/apis/apps/v1{base}/deployments/d": 403,
        f"/apis/apps/v1{base}/deployments/d/scale": 404,
        f"/apis/batch/v1{base}/jobs": 200,
        f"/apis/batch/v1{base}/jobs/a": 403,
        "/apis/batch/v1/jobs": 403,
    }
    assert {path: cluster.user.get(path).status for path in expected} == expected
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    path = f"/api/v1{base}/configmaps"
    assert cluster.user.request("POST", path, body).status == 201
    assert cluster.user.request("DELETE", path).status == 200


def test_a_binding_to_a_role_that_is_missing_is_named(cluster: _Cluster) -> None:
    cluster.bind("missing")
    suffix = 'rbac: RBAC: role.rbac.authorization.k8s.io "missing" not found'

    assert poll(
        lambda: cluster.user.get(cluster.pods()).json["message"].endswith(suffix),
        timeout_seconds=100,
    )


def test_rights_come_and_go_with_their_binding(cluster: _Cluster) -> None:
    cluster.role("reader", {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]})
    cluster.becomes(cluster.pods(), 200)

    cluster.api.delete(f"{_RBAC}/v1", "rolebindings", "to-reader", cluster.namespace)
    cluster.becomes(cluster.pods(), 403)


def test_impersonation_without_the_right_is_forbidden(cluster: _Cluster) -> None:
    headers = {"Impersonate-User": "jane"}
    answer = cluster.user.request("GET", cluster.pods(), headers=headers)
    lonely = cluster.user.request("GET", cluster.pods(), headers={"Impersonate-Group": "devs"})

    assert answer.status == 403
    assert 'cannot impersonate-on:user-info:list resource "pods"' in answer.json["message"]
    assert lonely.status == 400
    assert lonely.json["message"].endswith("without impersonating a user name")


def test_an_impersonated_request_has_the_rights_of_the_other_user(cluster: _Cluster) -> None:
    cluster.role("reader", {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]})
    cluster.becomes(cluster.pods(), 200)
    account = {"Impersonate-User": f"system:serviceaccount:{cluster.namespace}:worker"}
    jane = {"Impersonate-User": "jane", "Impersonate-Group": "devs"}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

    as_account = cluster.admin.request("GET", cluster.pods(), headers=account)
    as_jane = cluster.admin.request("GET", cluster.pods(), headers=jane)
    who = cluster.admin.request("POST", path, review, headers=jane).json["status"]["userInfo"]

    assert (as_account.status, as_jane.status) == (200, 403)
    assert 'User "jane" cannot list' in as_jane.json["message"]
    assert who == {"username": "jane", "groups": ["devs", "system:authenticated"]}


def test_a_program_can_list_its_own_rights(cluster: _Cluster) -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    cluster.role("reader", rule)
    cluster.becomes(cluster.pods(), 200)

    def may(**spec: Any) -> Any:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": spec,
        }
        answer = cluster.user.request("POST", f"{_REVIEWS}/selfsubjectaccessreviews", body)
        assert answer.status == 201
        return answer.json["status"]

    pods = {"namespace": cluster.namespace, "resource": "pods"}
    account = f"worker/{cluster.namespace}"
    assert may(resourceAttributes={**pods, "verb": "list"}) == {
        "allowed": True,
        "reason": f'RBAC: allowed by RoleBinding "to-reader/{cluster.namespace}" of Role "reader"'
        f' to ServiceAccount "{account}"',
    }
    assert may(resourceAttributes={**pods, "verb": "get"}) == {"allowed": False}
    assert may(nonResourceAttributes={"path": "/apis", "verb": "get"})["allowed"] is True
    rules = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": cluster.namespace},
    }
    answer = cluster.user.request("POST", f"{_REVIEWS}/selfsubjectrulesreviews", rules)
    assert rule in answer.json["status"]["resourceRules"]
    assert answer.json["status"]["incomplete"] is False
    assert cluster.admin.get(f"{_REVIEWS}/selfsubjectaccessreviews").status == 405


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer(rbac=True) as running:
        yield running


def _bind(server: APIServer, subject: dict[str, str]) -> None:
    for one in ("ClusterRole", "ClusterRoleBinding"):
        server.create(
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": one,
                "metadata": {"name": "nodes"},
                "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}],
                "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "nodes"},
                "subjects": [subject],
            }
        )


@pytest.mark.parametrize(
    "subject",
    [
        {"kind": "User", "name": "jane"},
        {"kind": "Group", "name": "devs"},
        {"kind": "Group", "name": "system:authenticated"},
    ],
    ids=lambda one: one["name"],
)
def test_a_user_is_bound_by_name_or_by_group(server: APIServer, subject: dict[str, str]) -> None:
    with Wire(server.url, token=server.token_for("jane", ["devs"])) as wire:
        assert wire.get("/api/v1/nodes").status == 403
        _bind(server, subject)
        assert wire.get("/api/v1/nodes").status == 200


@pytest.mark.parametrize("group", ["system:serviceaccounts", "system:serviceaccounts:shop"])
def test_service_accounts_are_groups(server: APIServer, group: str) -> None:
    with Wire(server.url, token=server.token_for_service_account("a", "shop")) as wire:
        _bind(server, {"kind": "Group", "name": group})
        assert wire.get("/api/v1/nodes").status == 200


def test_the_token_of_a_deleted_account_is_not_a_token(server: APIServer) -> None:
    with Wire(server.url, token=server.token_for_service_account("a", "shop")) as wire:
        assert wire.get("/api").status == 200
        server.delete("v1", "serviceaccounts", "a", "shop")
        server.token_for_service_account("a", "shop")  # another account of this name
        assert wire.get("/api").status == 401


def test_a_request_without_a_token_is_anonymous(server: APIServer) -> None:
    with Wire(server.url) as wire:
        assert wire.get("/version").status == 200
        answer = wire.get("/api")
        assert answer.json["message"] == (
            'forbidden: User "system:anonymous" cannot get path "/api"'
        )


def test_discovery_can_be_taken_away(server: APIServer) -> None:
    with Wire(server.url, token=server.token_for("jane")) as wire:
        assert wire.get("/apis").status == 200
        server.delete(f"{_RBAC}/v1", "clusterrolebindings", "system:discovery")
        assert wire.get("/apis").status == 403


def test_an_open_watch_outlives_the_right_to_open_it(server: APIServer) -> None:
    token = server.token_for("jane")
    _bind(server, {"kind": "User", "name": "jane"})
    with Wire(server.url, token=token) as wire, wire.watch("/api/v1/nodes") as stream:
        server.wait_for_watches(1)
        server.delete(f"{_RBAC}/v1", "clusterrolebindings", "nodes")
        assert wire.get("/api/v1/nodes").status == 403
        server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
        assert stream.event()[0] == "ADDED"


def test_tokens_keep_the_rights_of_their_own_beside_roles() -> None:
    own = Token(value="own", verbs=["list"], resources=["pods"])
    with APIServer(rbac=True, tokens=[own]) as server, Wire(server.url, token="own") as wire:
        assert wire.get("/api/v1/pods").status == 200
        assert wire.get("/api/v1/nodes").status == 403
        _bind(server, {"kind": "User", "name": "tester"})
        assert wire.get("/api/v1/nodes").status == 200


def test_a_server_without_roles_makes_no_tokens_of_users(apiserver: APIServer) -> None:
    with pytest.raises(LifecycleError, match="rbac=True"):
        apiserver.token_for("jane")
    with Wire(apiserver.url) as wire:  # it still allows every request
        path = "/api/v1/namespaces/default/serviceaccounts/a/token"
        apiserver.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}})
        assert wire.request("POST", path, _TOKEN_REQUEST).status == 201
        assert wire.get("/api/v1/pods").status == 200
