"""Discovery of the embedded server equals that of the real one."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from pyinformer.testing import APIServer, KubeAPIServer
from tests.testing.wire import Answer, Wire
from tests.waiting import poll

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_GROUP = "discovery.example.com"
_COMPARED = ("/api/v1", "/apis/apps/v1", "/apis/batch/v1", "/apis/apiextensions.k8s.io/v1")
_NOT_SERVED = {"bindings", "componentstatuses", "podtemplates"}


def _definition(*versions: str) -> dict[str, Any]:
    names = {
        "plural": "gadgets",
        "singular": "gadget",
        "kind": "Gadget",
        "shortNames": ["gd"],
        "categories": ["all", "mine"],
    }
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = [
        {
            "name": name,
            "served": True,
            "storage": name == versions[0],
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": scale},
        }
        for name in versions
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{_GROUP}"},
        "spec": {"group": _GROUP, "scope": "Namespaced", "names": names, "versions": served},
    }


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        yield running


@pytest.fixture
def wire(server: APIServer) -> Iterator[Wire]:
    with Wire(server.url) as opened:
        yield opened


@contextlib.contextmanager
def _wire_to(server: KubeAPIServer) -> Iterator[Wire]:
    context = ssl.create_default_context(cafile=str(server.ca_file))
    with Wire(server.url, context=context, token=server.token) as opened:
        yield opened


def _aggregated(wire: Wire, path: str = "/apis", **headers: str) -> Answer:
    accept = f"{_AGGREGATED},application/json"
    return wire.request("GET", path, headers={"Accept": accept, **headers})


def _without_hashes(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        entry["name"]: {key: value for key, value in entry.items() if key != "storageVersionHash"}
        for entry in entries
    }


def test_short_names_lead_to_their_resources(wire: Wire) -> None:
    listed = wire.get("/api/v1").json["resources"] + wire.get("/apis/apps/v1").json["resources"]
    short = {name: entry["name"] for entry in listed for name in entry.get("shortNames", ())}

    assert short["po"] == "pods"
    assert short["deploy"] == "deployments"
    assert {short[name] for name in ("svc", "cm", "ns", "no", "sts", "ds", "rs")} == {
        "services",
        "configmaps",
        "namespaces",
        "nodes",
        "statefulsets",
        "daemonsets",
        "replicasets",
    }


def test_a_definition_is_discovered_as_long_as_it_is_there(server: APIServer, wire: Wire) -> None:
    before = _aggregated(wire).headers["etag"]
    server.create(_definition("v1beta1", "v1"))

    group = wire.get(f"/apis/{_GROUP}").json
    assert group["preferredVersion"]["version"] == "v1"
    entries = _without_hashes(wire.get(f"/apis/{_GROUP}/v1").json["resources"])
    assert entries["gadgets"]["shortNames"] == ["gd"]
    assert entries["gadgets"]["categories"] == ["all", "mine"]
    assert entries["gadgets/scale"]["kind"] == "Scale"
    assert _aggregated(wire).headers["etag"] != before

    server.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", f"gadgets.{_GROUP}")
    assert wire.get(f"/apis/{_GROUP}").status == 404
    assert _aggregated(wire).headers["etag"] == before


def test_a_known_document_is_not_sent_again(wire: Wire) -> None:
    first = _aggregated(wire)
    again = _aggregated(wire, **{"If-None-Match": first.headers["etag"]})

    assert first.headers["content-type"] == _AGGREGATED
    assert (again.status, again.body) == (304, b"")


def test_clients_without_aggregated_discovery_get_separate_documents(wire: Wire) -> None:
    for accept in ("application/json", f"application/json,{_AGGREGATED}", "*/*", ""):
        answer = wire.request("GET", "/apis", headers={"Accept": accept})
        assert answer.json["kind"] == "APIGroupList", accept


def test_kubectl_gets_an_empty_openapi_document_in_protobuf(wire: Wire) -> None:
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = wire.request("GET", "/openapi/v2", headers={"Accept": accept})

    assert answer.headers["content-type"].endswith("+protobuf")
    assert answer.body.startswith(b"\x0a\x032.0\x12")
    assert wire.get("/openapi/v2").json["swagger"] == "2.0"


def test_a_client_that_checks_for_dry_run_support_finds_it(wire: Wire) -> None:
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    body = wire.request("GET", "/openapi/v2", headers={"Accept": accept}).body
    paths = wire.get("/openapi/v2").json["paths"]

    patch = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["parameters"][0]["name"] == "dryRun"
    kind = {"group": "apps", "kind": "Deployment", "version": "v1"}
    assert patch["x-kubernetes-group-version-kind"] == kind
    assert b"group: apps\nkind: Deployment\nversion: v1\n" in body
    assert body.count(b"dryRun") == len(paths)


@pytest.mark.real
def test_the_real_server_describes_the_same_resources_in_the_same_words(
    wire: Wire, kube_apiserver: KubeAPIServer
) -> None:
    with _wire_to(kube_apiserver) as real:
        for path in _COMPARED:
            here, there = wire.get(path).json, real.get(path).json
            ours, theirs = map(_without_hashes, (here.pop("resources"), there.pop("resources")))
            assert ours == {name: theirs[name] for name in ours}
            assert here.items() >= there.items()
            missing = {name for name in theirs if name not in ours and "/" not in name}
            assert missing <= _NOT_SERVED


@pytest.mark.real
def test_the_real_server_describes_custom_resources_in_the_same_words(
    server: APIServer, wire: Wire, kube_apiserver: KubeAPIServer
) -> None:
    definition = _definition("v1beta1", "v1", "v2alpha1")
    with _wire_to(kube_apiserver) as real:
        for one in (server, kube_apiserver):
            one.create(json.loads(json.dumps(definition)))
        try:
            assert poll(lambda: _gadgets(real) is not None, timeout_seconds=100)
            assert poll(lambda: _gadgets(real) == _gadgets(wire), timeout_seconds=100)
            assert wire.get(f"/apis/{_GROUP}").json == real.get(f"/apis/{_GROUP}").json
        finally:
            kube_apiserver.delete(
                "apiextensions.k8s.io/v1", "customresourcedefinitions", f"gadgets.{_GROUP}"
            )


def _gadgets(wire: Wire) -> Any:
    items = _aggregated(wire).json["items"]
    found = [item["versions"] for item in items if item["metadata"].get("name") == _GROUP]
    for version in found[0] if found else ():
        for resource in version["resources"]:
            # The two servers name the subresources in orders of their own.
            resource["subresources"].sort(key=lambda one: str(one["subresource"]))
    return found[0] if found else None
