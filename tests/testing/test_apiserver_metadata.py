"""Metadata-only answers and tables of the embedded server."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import pytest

from pyinformer.testing.apiserver.reads import negotiate
from pyinformer.testing.apiserver.requests.failures import Failure
from pyinformer.testing.apiserver.resources import BUILT_IN
from tests.testing.wire import ALL_PODS, PODS, WATCH_LIST, pod

if TYPE_CHECKING:
    from pyinformer.testing import APIServer

METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


def read(server: APIServer, path: str, accept: str) -> bytes:
    """Read something in a representation."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=100)
    try:
        connection.request("GET", path, headers={"Accept": accept})
        response = connection.getresponse()
        assert response.status == 200
        return response.read()
    finally:
        connection.close()


def get(server: APIServer, path: str, accept: str) -> Any:
    """Read something in a representation, decoded."""
    return json.loads(read(server, path, accept))


@pytest.mark.covers("controller-runtime pkg/client/fake: should be able to retrieve objects by")
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


def shown(accept: str) -> str:
    """Negotiate a list; return the name of the representation."""
    found = negotiate(accept, BUILT_IN[0], is_list=True, include="", now=str)
    return "whole" if found is None else type(found).__name__


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (METADATA, "_Metadata"),
        ("application/json; as=PartialObjectMetadataList; g=meta.k8s.io; v=v1", "_Metadata"),
        (f"application/yaml,{METADATA}", "_Metadata"),
        (f"application/json,{METADATA}", "whole"),
        (f"{TABLE},application/json", "_Table"),
        ("application/json;as=Table;g=meta.k8s.io;v=v1beta1,application/json", "whole"),
        ("application/vnd.kubernetes.protobuf", "whole"),
        ("application/vnd.kubernetes.protobuf;stream=watch,application/json", "whole"),
        ("*/*", "whole"),
        ("", "whole"),
    ],
)
def test_the_first_representation_that_is_known_is_taken(accept: str, expected: str) -> None:
    assert shown(accept) == expected


@pytest.mark.parametrize(
    "accept",
    [
        "application/xml",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v2",
        "application/json;as=Nonsense;g=meta.k8s.io;v=v1",
    ],
)
def test_an_unsupported_accept_header_is_refused(accept: str) -> None:
    with pytest.raises(Failure) as caught:
        shown(accept)
    assert caught.value.code == 406


def test_a_metadata_watch_shows_metadata_in_events_and_bookmarks(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    one = METADATA.replace("List", "")
    query = urlencode({**WATCH_LIST, "timeoutSeconds": "1"})

    lines = [json.loads(line) for line in read(apiserver, f"{ALL_PODS}?{query}", one).splitlines()]
    single = get(apiserver, f"{PODS}/a", one)

    kinds = {(line["object"]["kind"], line["object"]["apiVersion"]) for line in lines}
    assert kinds == {("PartialObjectMetadata", "meta.k8s.io/v1")}
    assert [line["type"] for line in lines][:2] == ["ADDED", "BOOKMARK"]
    assert set(lines[0]["object"]) == {"kind", "apiVersion", "metadata"}
    assert lines[0]["object"] == single


def test_a_table_has_columns_and_cells_and_metadata(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    table = get(apiserver, ALL_PODS, TABLE)
    names = [column["name"] for column in table["columnDefinitions"] if not column["priority"]]
    assert (table["kind"], names) == ("Table", ["Name", "Ready", "Status", "Restarts", "Age"])
    [row] = table["rows"]
    assert row["cells"][:4] == ["a", "0/1", "Pending", "0"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert get(apiserver, f"{PODS}/a?includeObject=None", TABLE)["rows"][0]["object"] is None
    assert get(apiserver, f"{PODS}/a?includeObject=Object", TABLE)["rows"][0]["object"]["spec"]


def test_the_tables_of_a_watch_describe_their_columns_once(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    apiserver.create(pod("b"))
    raw = read(apiserver, f"{ALL_PODS}?watch=1&timeoutSeconds=1", TABLE)
    first, second = [json.loads(line)["object"] for line in raw.splitlines()]
    assert first["columnDefinitions"]
    assert second["columnDefinitions"] is None
    assert [one["rows"][0]["cells"][0] for one in (first, second)] == ["a", "b"]
