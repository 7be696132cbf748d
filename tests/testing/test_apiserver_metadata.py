"""Lists of metadata only, as the embedded server gives them to those who ask for that."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from pyinformer.testing._listing import wants_metadata
from tests.testing.wire import ALL_PODS, pod

if TYPE_CHECKING:
    from pyinformer.testing import APIServer

METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


def get(server: APIServer, path: str, accept: str) -> Any:
    """List something in a representation."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    try:
        connection.request("GET", path, headers={"Accept": accept})
        response = connection.getresponse()
        assert response.status == 200
        return json.loads(response.read())
    finally:
        connection.close()


@pytest.mark.parametrize("custom", [False, True], ids=["built-in", "custom"])
def test_a_metadata_list_has_the_items_metadata_and_nothing_else(
    apiserver: APIServer, custom: bool
) -> None:
    if custom:
        apiserver.register("example.com/v1", "Widget", "widgets")
    head = ("example.com/v1", "Widget") if custom else ("v1", "Pod")
    for name in "abc":
        body = {**pod(name, labels={"x": "y"}), "apiVersion": head[0], "kind": head[1]}
        apiserver.create(body)
    path = "/apis/example.com/v1/widgets" if custom else ALL_PODS
    whole = get(apiserver, path, "application/json")

    found = get(apiserver, path, METADATA)

    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert found["metadata"]["resourceVersion"] == whole["metadata"]["resourceVersion"]
    assert found["items"] == [
        {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": item["metadata"],
        }
        for item in whole["items"]
    ]


def test_a_metadata_list_has_pages_too(apiserver: APIServer) -> None:
    for name in "abc":
        apiserver.create(pod(name))

    page = get(apiserver, f"{ALL_PODS}?limit=2", METADATA)
    token = page["metadata"]["continue"]
    rest = get(apiserver, f"{ALL_PODS}?limit=2&continue={token}", METADATA)

    assert [len(one["items"]) for one in (page, rest)] == [2, 1]
    assert rest["kind"] == "PartialObjectMetadataList"


@pytest.mark.parametrize(
    ("accept", "only_metadata"),
    [
        (METADATA, True),
        ("application/json; as=PartialObjectMetadataList; g=meta.k8s.io; v=v1", True),
        ("application/yaml,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", True),
        ("application/json,application/json;as=PartialObjectMetadataList;g=meta.k8s.io", False),
        ("application/json;as=Table;g=meta.k8s.io;v=v1,application/json", False),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v2", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_the_first_representation_that_is_known_is_taken(accept: str, only_metadata: bool) -> None:
    assert wants_metadata(accept) is only_metadata
