"""Rights and definitions that are taken away, and put back as they were: on both servers."""

from __future__ import annotations

import secrets
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pyinformer.errors import InformerError, KubeAPIServerError, NotFoundError
from pyinformer.testing import APIServer, ChangingFacts
from tests.integration.accounts import ACCOUNT, embedded_with_roles, token_of
from tests.integration.servers import RealServer
from tests.testing.wire import Wire
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

DEFINITIONS = ("apiextensions.k8s.io/v1", "customresourcedefinitions")
RBAC = "rbac.authorization.k8s.io"
BINDING = "facts-of-a-program"


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Either server, with roles."""
    if request.param != "real":
        yield from embedded_with_roles()
    else:
        yield RealServer(request.getfixturevalue("kube_apiserver"))


@dataclass
class Gadgets:
    """A definition of its own, on a server."""

    server: Server
    facts: ChangingFacts
    group: str
    namespace: str

    @property
    def resource(self) -> tuple[str, str]:
        """The version and the plural name."""
        return f"{self.group}/v1", "gadgets"

    def definition(self) -> JSONObject:
        """Return the definition as it is now."""
        return self.server.api.get(*DEFINITIONS, f"gadgets.{self.group}")

    def is_defined(self) -> bool:
        """Return whether there is one, perhaps one that is being deleted."""
        try:
            return bool(self.definition())
        except NotFoundError:
            return False

    def create(self, finalizers: Sequence[str] = ()) -> str:
        """Create an object, and return its uid."""
        metadata: JSONObject = {
            "name": "a",
            "namespace": self.namespace,
            "finalizers": list(finalizers),
        }
        obj: JSONObject = {"apiVersion": self.resource[0], "kind": "Gadget", "metadata": metadata}
        return str(self.server.api.create(obj)["metadata"]["uid"])

    def uids(self) -> list[str]:
        """Return the uids of all objects."""
        return [one["metadata"]["uid"] for one in self.server.api.list(*self.resource)]


@pytest.fixture
def gadgets(server: Server) -> Iterator[Gadgets]:
    group = f"facts-{secrets.token_hex(4)}.example.com"
    name = f"gadgets.{group}"
    version: JSONObject = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
        "subresources": {"status": {}},
    }
    server.api.create(
        {
            "apiVersion": DEFINITIONS[0],
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
                "versions": [version],
            },
        }
    )
    facts = ChangingFacts(server.api, definitions=[name])
    made = Gadgets(server, facts, group, server.namespace())
    assert poll(lambda: _is_served(made), timeout_seconds=100)
    yield made
    server.api.delete(*DEFINITIONS, name)


def _is_served(gadgets: Gadgets) -> bool:
    try:
        return gadgets.uids() == []
    except InformerError:
        return False


def test_a_definition_goes_with_its_objects_and_comes_back_without_them(gadgets: Gadgets) -> None:
    before = gadgets.definition()["spec"]
    gadgets.create()

    gadgets.facts.delete_definitions()
    assert poll(lambda: not gadgets.is_defined(), timeout_seconds=100)
    gadgets.facts.restore()

    assert gadgets.definition()["spec"] == before
    assert gadgets.uids() == []
    assert gadgets.create()


def test_finalizers_that_no_program_ends_are_removed(
    gadgets: Gadgets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyinformer.testing.faults._changing_facts._PATIENCE_SECONDS", 0.2)
    gadgets.create(finalizers=["example.com/held"])

    gadgets.facts.delete_definitions()
    assert gadgets.is_defined()
    gadgets.facts.restore()

    assert gadgets.uids() == []


class LaggingServer:
    """A server that accepted an object late, and keeps the definition that it deletes for it."""

    def __init__(self) -> None:
        version: JSONObject = {"name": "v1", "served": True}
        established: JSONObject = {"type": "Established", "status": "True"}
        self._status: JSONObject = {"conditions": [established]}
        self._definition: JSONObject | None = {
            "metadata": {"name": "gadgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "gadgets"},
                "versions": [version],
            },
            "status": self._status,
        }
        self.objects: list[JSONObject] = [{"metadata": {"name": "late", "namespace": "a"}}]

    def get(self, api_version: str, plural: str, name: str, _: str | None = None) -> JSONObject:
        if self._definition is None:
            raise NotFoundError(status=404, message=f"{api_version} has no {plural} {name}")
        return self._definition

    def list(self, _api_version: str, _plural: str) -> list[JSONObject]:
        return list(self.objects)

    def create(self, obj: JSONObject) -> JSONObject:
        self._definition = {**obj, "status": self._status}
        return self._definition

    def update(self, obj: JSONObject) -> JSONObject:
        return obj

    def patch(
        self,
        api_version: str,
        plural: str,
        name: str,
        changes: JSONObject,
        namespace: str | None = None,
    ) -> JSONObject:
        return self.get(api_version, plural, name, namespace)

    def delete(
        self, api_version: str, plural: str, name: str, namespace: str | None = None
    ) -> JSONObject:
        found = self.get(api_version, plural, name)
        if plural == "customresourcedefinitions":
            found["metadata"]["deletionTimestamp"] = "2026-11-28T12:00:00Z"
        else:
            place = {"name": name, "namespace": namespace}
            self.objects = [one for one in self.objects if one["metadata"] != place]
            self._definition = None if not self.objects else self._definition
        return found


def test_an_object_that_a_lagging_server_accepted_late_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or its definition would never go, and never come back."""
    monkeypatch.setattr("pyinformer.testing.faults._changing_facts._PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr("pyinformer.testing.faults._changing_facts._SETTLED_SECONDS", 10.0)
    server, name = LaggingServer(), "gadgets.example.com"
    facts = ChangingFacts(server, definitions=[name])

    facts.delete_definitions()
    assert "deletionTimestamp" in server.get(*DEFINITIONS, name)["metadata"]
    facts.restore()

    assert server.objects == []
    assert "deletionTimestamp" not in server.get(*DEFINITIONS, name)["metadata"]


def test_a_definition_that_does_not_go_is_changed_so_that_its_server_looks_again(
    gadgets: Gadgets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyinformer.testing.faults._changing_facts._PATIENCE_SECONDS", 0.2)
    api, name = gadgets.server.api, f"gadgets.{gadgets.group}"
    api.patch(*DEFINITIONS, name, {"metadata": {"finalizers": ["example.com/held"]}})
    gadgets.facts.delete_definitions()
    api.get(*DEFINITIONS, name)

    with ThreadPoolExecutor(1) as pool:
        restored = pool.submit(gadgets.facts.restore)
        assert poll(lambda: _annotations(gadgets), timeout_seconds=100)
        api.patch(*DEFINITIONS, name, {"metadata": {"finalizers": None}})
        restored.result(100)

    assert gadgets.uids() == []
    assert _annotations(gadgets) == {}


def _annotations(gadgets: Gadgets) -> JSONObject:
    found: JSONObject = gadgets.definition()["metadata"].get("annotations") or {}
    return found


def test_a_definition_of_the_other_scope_stands_in_between(gadgets: Gadgets) -> None:
    gadgets.facts.delete_definitions(other_scope=True)
    assert gadgets.definition()["spec"]["scope"] == "Cluster"
    gadgets.facts.restore()

    assert gadgets.definition()["spec"]["scope"] == "Namespaced"


def test_the_status_subresource_goes_and_comes_back(gadgets: Gadgets) -> None:
    before, uid = gadgets.definition()["spec"], gadgets.create()

    gadgets.facts.take_status()
    (version,) = gadgets.definition()["spec"]["versions"]
    assert "status" not in version.get("subresources", {})
    gadgets.facts.restore()

    assert gadgets.definition()["spec"] == before
    assert gadgets.uids() == [uid]


def test_another_version_is_served_for_a_while_and_no_object_is_lost(gadgets: Gadgets) -> None:
    before, uid = gadgets.definition()["spec"], gadgets.create()

    gadgets.facts.take_versions()
    served = {one["name"]: one["served"] for one in gadgets.definition()["spec"]["versions"]}
    assert served == {"v1": False, "v9": True}
    gadgets.facts.restore()

    assert gadgets.definition()["spec"] == before
    assert gadgets.uids() == [uid]


def test_rights_are_withdrawn_and_returned(server: Server) -> None:
    namespace = server.namespace()
    with _account(server, namespace) as user:
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        facts = ChangingFacts(server.api, bindings=[BINDING])
        assert poll(lambda: user.get(path).status == 200, timeout_seconds=100)

        facts.withdraw_rights()
        assert poll(lambda: user.get(path).status == 403, timeout_seconds=100)
        facts.restore()

        assert poll(lambda: user.get(path).status == 200, timeout_seconds=100)
    for plural in ("clusterrolebindings", "clusterroles"):
        server.api.delete(f"{RBAC}/v1", plural, BINDING)


@contextmanager
def _account(server: Server, namespace: str) -> Iterator[Wire]:
    """Bind an account to the right to read config maps."""
    token = token_of(server, namespace)
    role: JSONObject = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
    shared: JSONObject = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": BINDING}}
    subject: JSONObject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": BINDING}
    server.api.create({**shared, "kind": "ClusterRole", "rules": [role]})
    server.api.create(
        {**shared, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
    )
    context = ssl.create_default_context(cafile=str(server.api.ca_file))
    with Wire(server.api.url, context=context, token=token) as user:
        yield user


def test_what_the_server_never_does_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with APIServer() as server:
        facts = ChangingFacts(server, definitions=["nothing.example.com"])
        monkeypatch.setattr("pyinformer.testing.faults._changing_facts._SETTLED_SECONDS", 0.2)
        with pytest.raises(KubeAPIServerError, match=r"nothing.example.com is read: .*404"):
            facts.delete_definitions()
