"""Requests that no good client makes: both servers refuse them, or take them, in the same way."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import pytest

from tests.testing.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.servers import Server

_COLLECTION = "/api/v1/namespaces/{namespace}/configmaps"
_JSON = "application/json"
_TOO_LARGE = "9" * 24

# What is asked after the collection's path, and the status that answers.
READS = {
    "?foo=bar": 200,
    "/": 200,
    "?limit=-1": 200,
    "?limit=9223372036854775807": 200,
    f"?limit={_TOO_LARGE}": 400,
    "?limit=x": 400,
    "?limit=": 400,
    "?limit=1.5": 400,
    "?limit=1&limit=x": 200,
    "?continue=x": 400,
    "?continue=e30": 400,
    "?resourceVersion=x": 400,
    "?resourceVersion=-1": 400,
    "?resourceVersion=0": 200,
    f"?resourceVersion={_TOO_LARGE}": 400,
    "?resourceVersionMatch=Exact": 422,
    "?resourceVersion=0&resourceVersionMatch=Exact": 422,
    "?resourceVersion=0&resourceVersionMatch=nonsense": 422,
    "?labelSelector=%3D": 400,
    "?labelSelector=a%20in%20(": 400,
    "?labelSelector=a%3Ex": 400,
    "?labelSelector=,": 400,
    "?fieldSelector=x": 400,
    "?fieldSelector=x%3Dy": 400,
    "?fieldSelector=metadata.name!%3Dodd": 200,
    "?timeoutSeconds=x": 400,
    "?sendInitialEvents=true": 422,
    "?watch=1&timeoutSeconds=1&continue=x": 422,
    "?watch=1&timeoutSeconds=1&resourceVersion=x": 500,
    "?watch=1&timeoutSeconds=1&sendInitialEvents=true": 422,
    "?watch=1&timeoutSeconds=1&fieldSelector=x%3Dy": 400,
    "?watch=1&watch=0&timeoutSeconds=1": 200,
    "/odd?resourceVersion=0": 200,
    "/odd?resourceVersion=x": 500,
    "/odd/nonsense": 404,
    "/absent": 404,
}
METHODS = [
    ("PATCH", _COLLECTION, 405),
    ("PUT", _COLLECTION, 405),
    ("POST", f"{_COLLECTION}/odd", 405),
    ("OPTIONS", _COLLECTION, 405),
    ("HEAD", f"{_COLLECTION}/odd", 405),
    ("DELETE", "/api/v1/configmaps", 405),
    ("DELETE", "/api/v1/namespaces", 405),
    ("POST", "/api/v1/configmaps", 405),
    ("POST", "/version", 405),
    ("DELETE", "/api", 405),
    ("GET", "/apis/nonsense/v1/things", 404),
    ("GET", "/api/v1/namespaces/{namespace}/nodes", 404),
    ("DELETE", f"{_COLLECTION}?labelSelector=a%20in%20(", 400),
    ("DELETE", f"{_COLLECTION}?fieldSelector=x%3Dy", 400),
    ("DELETE", f"{_COLLECTION}?labelSelector=absent", 200),
    ("DELETE", f"{_COLLECTION}/odd?gracePeriodSeconds=x", 400),
    ("DELETE", f"{_COLLECTION}/odd?propagationPolicy=x", 422),
    ("DELETE", f"{_COLLECTION}/odd?dryRun=", 422),
    ("DELETE", f"{_COLLECTION}/odd?dryRun=All", 200),
]
ACCEPTS = {
    "": 200,
    "*/*": 200,
    "application/*": 406,
    "application/xml": 406,
    "text/html, */*;q=0.1": 200,
    "application/json;as=Nonsense;g=meta.k8s.io;v=v1": 406,
    "application/json;as=Table;g=meta.k8s.io;v=v1": 200,
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1": 200,
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1": 406,
}


@pytest.fixture
def collection(server: Server) -> str:
    """The path of config maps in a namespace with one, called odd."""
    namespace = server.namespace()
    metadata = {"name": "odd", "namespace": namespace}
    server.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    return _COLLECTION.format(namespace=namespace)


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    """A plain client."""
    context = ssl.create_default_context(cafile=str(server.api.ca_file))
    with Wire(server.api.url, token=server.token, context=context) as made:
        yield made


def test_odd_reads_have_the_status_of_kubernetes(wire: Wire, collection: str) -> None:
    assert {asked: wire.get(f"{collection}{asked}").status for asked in READS} == READS


def test_methods_that_do_not_fit_are_refused(wire: Wire, collection: str) -> None:
    namespace = collection.split("/")[4]
    found = [
        (method, path, wire.request(method, path.format(namespace=namespace)).status)
        for method, path, _ in METHODS
    ]
    assert found == METHODS


def test_only_representations_that_exist_are_given(wire: Wire, collection: str) -> None:
    found = {
        accept: wire.request("GET", collection, headers={"Accept": accept}).status
        for accept in ACCEPTS
    }
    assert found == ACCEPTS


def test_an_object_may_come_as_yaml(wire: Wire, collection: str) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\ndata: {a: '1'}\n"
    created: Any = wire.request("POST", collection, body, content_type="application/yaml")
    assert (created.status, created.json["data"]) == (201, {"a": "1"})
    text = wire.request("POST", collection, body, content_type="text/plain")
    assert (text.status, text.headers["content-type"]) == (415, _JSON)


def test_orphan_dependents_is_the_older_name_of_a_policy(wire: Wire, collection: str) -> None:
    held: Any = wire.request("DELETE", f"{collection}/odd", orphanDependents="true")
    assert (held.status, held.json["metadata"]["finalizers"]) == (200, ["orphan"])
