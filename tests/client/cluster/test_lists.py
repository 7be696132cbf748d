"""What ends a list early, and which requests are refused before they are sent."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

import pyinformer
from pyinformer.client.transport import CURRENT_GUARD
from pyinformer.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    ListInconsistentError,
    ModelMismatchError,
    ProtocolError,
    ResourceExpiredError,
    WriteAnswerError,
)
from tests.cache.reflector.scripted import ScriptedBody, ScriptedConnection
from tests.client.cluster.answering import Answering
from tests.client.transport.serving import Request, always, response, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pyinformer.client.transport import Body, ConnectionProtocol
    from pyinformer.testing import APIServer
    from tests.cache.reflector.scripted import Pieces

_PAGE: dict[str, Any] = {
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


@pytest.mark.parametrize("list_kind", ["ConfigMapList", "List"])
async def test_items_without_a_kind_get_it_where_it_stands_behind_them_or_is_not_named(
    list_kind: str,
) -> None:
    page = {name: value for name, value in _PAGE.items() if name != "kind"}
    page |= {"metadata": {"resourceVersion": "7"}, "kind": list_kind}
    table = {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "v1",
        "resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True}],
    }

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        asked = request.target.partition("?")[0]
        writer.write(response(json.dumps(table if asked == "/api/v1" else page).encode()))

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        found = [one async for one in cluster.list("v1", "configmaps")]
    assert [(one.key, one.gvk.kind) for one in found] == [("default/a", "ConfigMap")]


async def test_a_deletion_of_many_returns_objects_whose_kind_stands_behind_them() -> None:
    page = {name: value for name, value in _PAGE.items() if name != "kind"}
    page |= {"metadata": {"resourceVersion": "7"}, "kind": "ConfigMapList"}
    api = {"name": "configmaps", "kind": "ConfigMap", "namespaced": True}
    table = {"kind": "APIResourceList", "groupVersion": "v1", "resources": [api]}

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        found = page if request.method == "DELETE" else table
        writer.write(response(json.dumps(found).encode()))

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        found = await cluster.delete_collection("v1", "configmaps", namespace="default")
    assert [(one.key, one.gvk.kind) for one in found] == [("default/a", "ConfigMap")]


class _Data(msgspec.Struct):
    number: int


class _Map(msgspec.Struct):
    data: _Data


class _Text(msgspec.Struct):
    number: str


class _Texts(msgspec.Struct):
    data: _Text


async def test_an_object_that_does_not_fit_the_model_is_named(apiserver: APIServer) -> None:
    for name, number in (("a", "1"), ("b", "many"), ("c", "3")):
        metadata = {"name": name, "namespace": "default"}
        data = {"number": number}
        apiserver.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        )
    async with pyinformer.connect(server=apiserver.url) as cluster:
        found = cluster.list("v1", "configmaps", model=_Texts)
        assert [one.data.number async for one in found] == ["1", "many", "3"]
        with pytest.raises(ModelMismatchError) as caught:
            await cluster.list("v1", "configmaps", model=_Map).next_page()
    assert (caught.value.key, caught.value.path) == ("default/a", "data.number")


async def test_a_server_that_repeats_a_page_does_not_make_the_list_endless() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(json.dumps(_PAGE).encode()))

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        found = cluster.list("v1", "configmaps")
        assert [obj.key for obj in await found.next_page()] == ["default/a"]
        with pytest.raises(ProtocolError, match="token of a page again"):
            await found.next_page()
    assert "continue=again" in server.requests[1].target


@pytest.mark.parametrize(
    ("items", "tokens", "versions", "error"),
    [
        pytest.param(1, "ab", "11", "token of a page again", id="in-a-circle"),
        pytest.param(1, "", "12", "at two versions: 1 and 2", id="of-two-states"),
    ],
)
async def test_a_list_whose_pages_cannot_be_right_ends_with_an_error(
    items: int, tokens: str, versions: str, error: str
) -> None:
    numbers = itertools.count()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        number = next(numbers)
        token = tokens[number % len(tokens)] if tokens else f"t{number}"
        metadata = {"resourceVersion": versions[min(number, 1)], "continue": token}
        page = {**_PAGE, "metadata": metadata, "items": _PAGE["items"][:items]}
        writer.write(response(json.dumps(page).encode()))

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        with pytest.raises((ProtocolError, ListInconsistentError), match=error):
            async for _ in cluster.list("v1", "configmaps"):
                pass


class FilteredPages(ScriptedConnection):
    """A server that leaves out of its pages what may not be seen; each has another token.

    Args:
        visible: the pages with an object, from 1 on.
        pages: the number of pages; None for no end.
    """

    def __init__(self, *visible: int, pages: int | None = None) -> None:
        self.sent = 0
        self._visible = visible
        self._pages = pages

    @asynccontextmanager
    async def answer(self, path: str, query: dict[str, str]) -> AsyncIterator[Body]:
        """Answer a list."""
        self.sent += 1
        token = "" if self.sent == self._pages else f"t{self.sent}"
        items = _PAGE["items"] if self.sent in self._visible else []
        page = {**_PAGE, "metadata": {"resourceVersion": "7", "continue": token}, "items": items}
        yield ScriptedBody(_once(json.dumps(page).encode()))


async def _once(piece: bytes) -> Pieces:
    yield piece


@pytest.mark.virtual_time
async def test_empty_pages_without_end_are_requested_slowly_and_not_for_ever() -> None:
    server = FilteredPages()
    connection = cast("ConnectionProtocol", server)
    cluster = pyinformer.Cluster(server.config, connection=connection)
    with pytest.raises(ListInconsistentError, match=r"64 pages brought nothing.*page_size=0"):
        await cluster.list("v1", "configmaps").next_page()
    assert server.sent == 64
    assert asyncio.get_running_loop().time() > 30.0


@pytest.mark.virtual_time
async def test_a_gateway_that_filters_pages_is_followed_to_the_end() -> None:
    server = FilteredPages(1, 24, pages=24)
    connection = cast("ConnectionProtocol", server)
    cluster = pyinformer.Cluster(server.config, connection=connection)
    assert len([one async for one in cluster.list("v1", "configmaps")]) == 2
    assert server.sent == 24
    assert asyncio.get_running_loop().time() < 6.0


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
        ("/apis/apps/v1", None),
        ("/api/v1", None),
        ("/version", None),
    ],
)
async def test_the_resource_of_a_request_is_in_its_path(path: str, resource: str | None) -> None:
    guard = _Guard()
    token = CURRENT_GUARD.set(guard)
    try:
        await Answering().cluster().request("POST", path, body=b"{}")
    finally:
        CURRENT_GUARD.reset(token)
    assert guard.written == ([] if resource is None else [resource])


class _Guard:
    """Lets every write leave, and notes of which resource it was."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def check(self) -> None:
        """Let it leave."""

    def on_end(self, cut_off: Callable[[], None]) -> Callable[[], None]:
        """Never end."""
        return lambda: None

    def record_write(self, resource: str, resource_version: str) -> None:
        """Note it."""
        self.written.append(resource)

    def record_refusal(self, lease: str) -> None:
        """Refuse nothing."""
