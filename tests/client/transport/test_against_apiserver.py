"""The transport against the public test kit: lists, watches and errors arrive as they were sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.client.transport import (
    ClusterConfig,
    LineSplitter,
    ListMetadata,
    ListSplitter,
    ListWatch,
    StaticCredentials,
    find_config,
)
from pyinformer.errors import ForbiddenError, NotFoundError, ResourceExpiredError, UnauthorizedError
from pyinformer.objects import GroupVersionResource
from pyinformer.testing import APIServer, Token
from tests.client.transport.serving import connected

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from pyinformer.client.transport import Body

pytestmark = pytest.mark.every_loop

PODS = GroupVersionResource.of("v1", "pods")
WIDGETS = GroupVersionResource.of("example.com/v1", "widgets")
NAMES = [f"p{i:02d}" for i in range(25)]


def fill(server: APIServer) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    for api_version, kind in (("v1", "Pod"), ("example.com/v1", "Widget")):
        for name in NAMES:
            metadata = {"name": name, "labels": {"half": str(int(name[1:]) % 2)}}
            server.create({"apiVersion": api_version, "kind": kind, "metadata": metadata})


async def read_list(stream: AbstractAsyncContextManager[Body]) -> tuple[list[str], ListMetadata]:
    names: list[str] = []

    def take(buffer: bytes, start: int, end: int) -> None:
        names.append(json.loads(buffer[start:end])["metadata"]["name"])

    splitter = ListSplitter(take)
    async with stream as body:
        while data := await body.read():
            splitter.feed(data)
    return names, splitter.finish()


async def read_events(stream: AbstractAsyncContextManager[Body], count: int) -> list[Any]:
    events: list[Any] = []
    splitter = LineSplitter(lambda b, s, e: events.append(json.loads(b[s:e])))
    async with stream as body:
        while len(events) < count and (data := await body.read()):
            splitter.feed(data)
    return events


@pytest.mark.parametrize("resource", [PODS, WIDGETS])
async def test_lists_come_whole_and_in_pages(resource: GroupVersionResource) -> None:
    with APIServer() as server:
        fill(server)
        async with connected(server.url) as connection:
            source = ListWatch(connection, resource, namespace="default")
            whole, metadata = await read_list(source.list())
            paged: list[str] = []
            token = ""
            while True:
                names, page = await read_list(source.list(limit=10, continue_token=token))
                paged += names
                if not (token := page.continue_token):
                    break
                assert page.remaining_item_count == len(NAMES) - len(paged)
            half = ListWatch(connection, resource, label_selector="half=1")
            odd, _ = await read_list(half.list())

    assert whole == paged == NAMES
    assert odd == NAMES[1::2]
    assert metadata.kind in {"PodList", "WidgetList"}
    assert metadata.api_version == resource.api_version
    assert metadata.resource_version == page.resource_version


async def test_watches_resume_and_watch_lists_begin_with_what_exists() -> None:
    with APIServer() as server:
        fill(server)
        before = server.resource_version
        server.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}})
        async with connected(server.url) as connection:
            source = ListWatch(connection, PODS)
            (event,) = await read_events(
                source.watch(resource_version=before, timeout_seconds=30), 1
            )
            initial = await read_events(
                source.watch(resource_version="", timeout_seconds=30, send_initial_events=True),
                len(NAMES) + 2,
            )

    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "new")
    assert [event["type"] for event in initial] == ["ADDED"] * (len(NAMES) + 1) + ["BOOKMARK"]


async def test_refusals_of_a_server_are_typed(tmp_path: Path) -> None:
    tokens = [Token(value="good"), Token(value="reader", verbs=frozenset({"list"}))]
    with APIServer(tls=True, tokens=tokens) as server:
        path = tmp_path / "kubeconfig"
        path.write_text(server.kubeconfig())
        found = await find_config(path)

        def config(token: str) -> ClusterConfig:
            return ClusterConfig(
                server=server.url,
                ca_file=found.ca_file,
                ca_data=found.ca_data,
                credentials=StaticCredentials.bearer(token),
            )

        async with connected("", config=found) as connection:
            assert (await read_list(ListWatch(connection, PODS).list()))[0] == []
            with pytest.raises(NotFoundError):
                await read_list(ListWatch(connection, WIDGETS).list())
        async with connected("", config=config("reader")) as connection:
            with pytest.raises(ForbiddenError, match=r"^watch pods\.v1: 403"):
                await read_events(
                    ListWatch(connection, PODS).watch(resource_version="1", timeout_seconds=1), 1
                )
        async with connected("", config=config("wrong")) as connection:
            with pytest.raises(UnauthorizedError):
                await read_list(ListWatch(connection, PODS).list())


async def test_an_expired_continue_token_is_typed() -> None:
    with APIServer(page_token_lifetime_seconds=0.0) as server:
        fill(server)
        async with connected(server.url) as connection:
            source = ListWatch(connection, PODS)
            _, page = await read_list(source.list(limit=10))
            with pytest.raises(ResourceExpiredError):
                await read_list(source.list(limit=10, continue_token=page.continue_token))
