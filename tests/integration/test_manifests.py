"""Manifests in the shape of public projects, sent to both servers: their answers are the same.

What is left out of the comparison here is listed in docs/explanation/embedded-and-real.md.
"""

from __future__ import annotations

import copy
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from pyinformer.testing import APIServer
from tests.integration.objects import unique
from tests.testing.wire import Wire
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.objects import JSONObject
    from pyinformer.testing import KubeAPIServer
    from tests.testing.wire import Answer

FOLDER: Final = Path(__file__).with_name("manifests")
PROJECTS: Final = sorted(path.stem for path in FOLDER.glob("*.yaml"))
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_TABLE: Final = "application/json;as=Table;g=meta.k8s.io;v=v1"
_DEFINITION: Final = "CustomResourceDefinition"
_CHANGING: Final = frozenset(
    ("uid", "resourceVersion", "creationTimestamp", "time", "lastTransitionTime", "selfLink")
)
_OWN_CELLS: Final = ("Age", "Cluster-IP", "Port(s)")
_ADDRESSES: Final = frozenset(("clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"))


def documents(project: str, group: str, namespace: str) -> list[JSONObject]:
    """Return the objects of a project, for a group and a namespace of this test."""
    text = (FOLDER / f"{project}.yaml").read_text()
    text = text.replace("GROUP", group).replace("NAMESPACE", namespace)
    return list(yaml.safe_load_all(text))


class Sender:
    """Sends the same requests to one server, and keeps what is comparable of the answers."""

    def __init__(self, wire: Wire, namespace: str) -> None:
        self._wire = wire
        self._namespace = namespace
        self.answers: dict[str, Any] = {}

    def send(self, body: JSONObject) -> None:
        """Write and read one object in each way that programs do."""
        name, path = body["metadata"]["name"], collection_of(body, self._namespace)
        where, label = f"{path}/{name}", f"{body['kind']} {name}"
        self._keep(f"create {label}", self._wire.request("POST", path, body))
        if body["kind"] == _DEFINITION:
            self._await(body)
            return
        self._keep(f"get {label}", self._wire.get(where))
        self._keep(f"strict {label}", self._strict(path, body))
        again = self._wire.get(where)
        if again.status == 200:
            self._keep(f"put {label}", self._wire.request("PUT", where, again.json))
        patch = {"metadata": {"labels": {"patched": "yes"}}}
        self._keep(f"patch {label}", self._patch(where, patch, _MERGE))
        for manager in ("one", "two"):
            applied = {**body, "metadata": {"name": name, "labels": {"applied": "yes"}}}
            self._keep(f"apply {manager} {label}", self._apply(where, applied, manager))
        odd = {**body, "metadata": {"name": name}, "undeclared": 1}
        self._keep(f"apply undeclared {label}", self._apply(where, odd, "three"))
        if "status" in body:
            status = {"status": body["status"]}
            self._keep(f"status {label}", self._patch(f"{where}/status", status, _MERGE))
        if "example.com/" in body["apiVersion"]:
            self._keep(f"table {label}", self._wire.get(where, headers={"Accept": _TABLE}))

    def _strict(self, path: str, body: JSONObject) -> Answer:
        copied = copy.deepcopy(body)
        copied["metadata"]["name"] += "-strict"
        return self._wire.request("POST", path, copied, dryRun="All", fieldValidation="Strict")

    def _patch(self, path: str, body: JSONObject, kind: str, **query: Any) -> Answer:
        return self._wire.request("PATCH", path, body, content_type=kind, **query)

    def _apply(self, path: str, body: JSONObject, manager: str) -> Answer:
        return self._patch(path, body, _APPLY, fieldManager=manager, force="true")

    def _await(self, body: JSONObject) -> None:
        spec = body["spec"]
        kind = {
            "apiVersion": f"{spec['group']}/{spec['versions'][0]['name']}",
            "kind": spec["names"]["kind"],
        }
        path = collection_of(kind, self._namespace, spec["names"]["plural"])
        assert poll(lambda: self._wire.get(path).status == 200, timeout_seconds=100)

    def _keep(self, label: str, answer: Answer) -> None:
        self.answers[label] = _comparable(answer)


def collection_of(body: JSONObject, namespace: str, plural: str = "") -> str:
    """Return the path of the collection of an object; `plural` names that of an odd kind."""
    api_version, kind = body["apiVersion"], body["kind"]
    root = "apis" if "/" in api_version else "api"
    plural = plural or _PLURALS.get(kind, f"{kind.lower()}s")
    if kind == _DEFINITION:
        return f"/{root}/{api_version}/{plural}"
    return f"/{root}/{api_version}/namespaces/{namespace}/{plural}"


_PLURALS: Final = {
    "Ingress": "ingresses",
    "NetworkPolicy": "networkpolicies",
}


def _comparable(answer: Answer) -> Any:
    body = answer.json
    if body.get("kind") == "Status":
        causes = [cause.get("field") for cause in (body.get("details") or {}).get("causes", ())]
        found = sorted({cause for cause in causes if cause != "<nil>"})
        return answer.status, body.get("reason", ""), found
    if body.get("kind") == "Table":
        names = [column["name"] for column in body["columnDefinitions"]]
        cells = dict(zip(names, body["rows"][0]["cells"], strict=True))
        return answer.status, {key: cell for key, cell in cells.items() if key not in _OWN_CELLS}
    if body.get("kind") == _DEFINITION:
        body.pop("status")  # a controller of the real server sets it a moment later
    return answer.status, _plain(body, str((body.get("metadata") or {}).get("uid")))


def _plain(value: Any, uid: str) -> Any:
    if isinstance(value, list):
        return [_plain(one, uid) for one in value]
    if not isinstance(value, dict):
        return "the uid" if value == uid else value
    found: dict[str, Any] = {}
    for name, below in value.items():
        if name == "managedFields":
            found[name] = {
                f"{one['manager']} {one['operation']} {one.get('subresource', '')}": one["fieldsV1"]
                for one in below
            }
        elif name in _ADDRESSES:
            found[name] = None if below == "None" else type(below).__name__
        elif name not in _CHANGING:
            found[name] = _plain(below, uid)
    return found


@pytest.fixture
def wires(kube_apiserver: KubeAPIServer) -> Iterator[tuple[Wire, Wire]]:
    """A client of the embedded server, and one of the real one."""
    context = ssl.create_default_context(cafile=str(kube_apiserver.ca_file))
    with (
        APIServer(strict_namespaces=True) as embedded,
        Wire(embedded.url) as one,
        Wire(kube_apiserver.url, token=kube_apiserver.token, context=context) as other,
    ):
        yield one, other


@pytest.mark.real
@pytest.mark.timeout(300)
@pytest.mark.parametrize("project", PROJECTS)
def test_both_servers_answer_alike(wires: tuple[Wire, Wire], project: str) -> None:
    group, namespace = f"{unique('g')}.example.com", unique("manifests")
    found = []
    for wire in wires:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        assert wire.request("POST", "/api/v1/namespaces", body).status == 201
        sender = Sender(wire, namespace)
        for document in documents(project, group, namespace):
            sender.send(document)
        found.append(sender.answers)

    embedded, real = found
    for label, answer in real.items():
        assert embedded[label] == answer, label


def test_there_are_twelve_projects() -> None:
    assert len(PROJECTS) == 12
