"""What ends a list early, and which requests are refused before they are sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer.cluster._targets import resource_of
from pyinformer.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    ProtocolError,
    ResourceExpiredError,
    WriteAnswerError,
)
from tests.transport.serving import Request, always, response, serving

if TYPE_CHECKING:
    import asyncio

    from pyinformer.testing import APIServer

_PAGE = {
    "kind": "ConfigMapList",
    "apiVersion": "v1",
    "metadata": {"resourceVersion": "7", "continue": "again"},
    "items": [{"metadata": {"name": "a", "namespace": "default"}}],
}


async def test_a_list_that_expires_between_its_pages_names_the_cure(
    apiserver: APIServer,
) -> None:
    for name in "abc":
        metadata = {"name": name, "namespace": "default"}
        apiserver.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    async with pyinformer.connect(server=apiserver.url) as cluster:
        found = cluster.list("v1", "configmaps", page_size=1)
        await found.next_page()
        assert found.remaining_item_count == 2
        apiserver.delete("v1", "configmaps", "a", "default")
        apiserver.compact()
        with pytest.raises(ResourceExpiredError, match="page_size=0"):
            await found.next_page()


async def test_a_server_that_repeats_a_page_does_not_make_the_list_endless() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(json.dumps(_PAGE).encode()))

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        found = cluster.list("v1", "configmaps")
        assert [obj.key for obj in await found.next_page()] == ["default/a"]
        with pytest.raises(ProtocolError, match="token of the same page"):
            await found.next_page()
    assert "continue=again" in server.requests[1].target


async def test_a_delete_collection_with_an_unreadable_answer_is_reported_as_done(
    apiserver: APIServer,
) -> None:
    api = {"name": "configmaps", "kind": "ConfigMap", "namespaced": True, "verbs": ["list"]}
    resources = {"kind": "APIResourceList", "groupVersion": "v1", "resources": [api]}

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        body = b"[]" if request.method == "DELETE" else json.dumps(resources).encode()
        writer.write(response(body))

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        with pytest.raises(WriteAnswerError):
            await cluster.delete_collection("v1", "configmaps", namespace="default")


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("get", "/version", "method"),
        ("HEAD", "/version", "method"),
        ("GET", "version", "path"),
        ("GET", "/version?a=b", "path"),
        ("GET", "/a b", "path"),
        ("GET", "/ä", "path"),
        ("GET", "/a\r\nb", "path"),
        ("DELETE", "/api/v1/namespaces/a/pods/b#c", "path"),
        ("DELETE", "/api/v1/namespaces/../pods", "path"),
        ("DELETE", "/api/v1/nodes/.", "path"),
    ],
)
async def test_a_malformed_request_is_refused(method: str, path: str, words: str) -> None:
    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises(InvalidArgumentError, match=words):
            await cluster.request(method, path)
        with pytest.raises(InvalidArgumentError, match="body"):
            await cluster.request("GET", "/version", body={})
        with pytest.raises(InvalidArgumentError, match="content_type"):
            await cluster.request("POST", "/version", content_type="text/plain\r\nA: b")
        with pytest.raises(InvalidTypeError, match="body"):
            await cluster.request("POST", "/version", body="text")  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["/..a/b.", "/a/...", "/a/%2E", "/"])
async def test_a_request_may_have_dots_in_its_path(path: str) -> None:
    async with (
        serving(always(response(b"x"))) as server,
        pyinformer.connect(server=server.url) as cluster,
    ):
        assert await cluster.request("GET", path) == b"x"
        assert server.requests[0].target == path


@pytest.mark.parametrize("namespace", ["..", ".", "\ud800"])
async def test_a_namespace_that_would_change_the_path_is_refused(namespace: str) -> None:
    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises(InvalidArgumentError, match="namespace"):
            cluster.list("v1", "configmaps", namespace=namespace)
        with pytest.raises(InvalidArgumentError, match="namespace"):
            await cluster.delete_collection("v1", "configmaps", namespace=namespace)


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/namespaces/a/pods/b", "pods.v1"),
        ("/api/v1/namespaces/a/pods/b/eviction", "pods.v1"),
        ("/api/v1/nodes/n/proxy/healthz", "nodes.v1"),
        ("/api/v1/namespaces", "namespaces.v1"),
        ("/api/v1/namespaces/a", "namespaces.v1"),
        ("/api/v1/namespaces/a/finalize", "namespaces.v1"),
        ("/apis/apps/v1/deployments", "deployments.v1.apps"),
        ("/apis/apps/v1/namespaces/a/deployments/b/scale", "deployments.v1.apps"),
        ("/apis/apps/v1", "None"),
        ("/api/v1", "None"),
        ("/version", "None"),
    ],
)
def test_the_resource_of_a_request_is_in_its_path(path: str, resource: str) -> None:
    assert str(resource_of(path)) == resource
