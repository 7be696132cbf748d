"""Answers with the objects of another resource of the same group and version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import json

from pyinformer.objects import GroupVersionResource, JSONObject
from pyinformer.testing import APIServer, Fault
from tests.cache.reflector.running import is_load, listed, options, put, reflecting
from tests.cache.reflector.samples import bookmark, line
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.testing import RequestRecord

NAMES = {"v1": ("Pod", "ConfigMap"), "example.com/v1": ("Foo", "Bar")}


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        running.register("example.com/v1", "Foo", "foos")
        running.register("example.com/v1", "Bar", "bars")
        yield running


def an_object(api_version: str, kind: str, name: str, **more: str) -> JSONObject:
    """Return an object."""
    metadata: JSONObject = {"name": name, "namespace": "default", **more}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def wrong_list(api_version: str, kind: str, version: str) -> Fault:
    """Return a fault that answers two lists with those of another kind."""
    items = [an_object(api_version, kind, "wrong", uid="u", resourceVersion=version)]
    if api_version == "v1":  # a built-in resource's items name no kind
        items = [{"metadata": item["metadata"]} for item in items]
    body = {
        "kind": f"{kind}List",
        "apiVersion": api_version,
        "metadata": {"resourceVersion": version},
        "items": items,
    }
    return Fault(match=is_load, body=json.encode(body), times=2)


def discoveries(server: APIServer) -> int:
    """Count the requests for the resources of a group and version."""
    return sum(one.path in {"/api/v1", "/apis/example.com/v1"} for one in server.requests)


@pytest.mark.parametrize("api_version", NAMES)
async def test_the_first_list_of_another_resource_is_refused(
    server: APIServer, api_version: str
) -> None:
    kind, other = NAMES[api_version]
    plural = f"{kind.lower()}s"
    server.create(an_object(api_version, kind, "a"))
    server.faults.add(wrong_list(api_version, other, server.resource_version))
    resource = GroupVersionResource.of(api_version, plural)
    async with reflecting(server, resource=resource) as running:
        await running.until_watching()
        await running.until_equal(api_version, plural)
        assert "default/wrong" not in running.sink.history
        assert {obj.gvk.kind for obj in running.sink.objects.values()} == {kind}
        assert running.reflector.status().loads == 1
    assert discoveries(server) == 2


@pytest.mark.parametrize("api_version", NAMES)
async def test_a_later_list_of_another_resource_deletes_nothing(
    server: APIServer, api_version: str
) -> None:
    kind, other = NAMES[api_version]
    plural = f"{kind.lower()}s"
    server.create(an_object(api_version, kind, "a"))
    resource = GroupVersionResource.of(api_version, plural)
    async with reflecting(server, resource=resource) as running:
        await running.until_watching()
        server.faults.add(wrong_list(api_version, other, server.resource_version))
        running.reflector.request_relist("a test")
        await until(lambda: f"answered with {other} objects" in str(running.reflector.status()))
        await running.until_watching(loads=2)
        server.create(an_object(api_version, kind, "b"))
        await running.until_equal(api_version, plural)
        assert [words.split()[0] for words in running.sink.history["default/a"]] == ["add"]
        assert "default/wrong" not in running.sink.history


async def test_a_watch_list_of_another_resource_is_refused(server: APIServer) -> None:
    put(server, "a")
    lines = [line("ADDED", "wrong", "1"), bookmark("1", ends_initial_events=True)]
    wrong = b"\n".join(one.replace(b'"Pod"', b'"ConfigMap"') for one in lines) + b"\n"
    server.faults.add(Fault(verb="watch", match=_sends_all, frames=(wrong,), times=2))
    async with reflecting(server, with_options=options(use_watch_list=True)) as running:
        await running.until_watching()
        await running.until_equal()
        assert "default/wrong" not in running.sink.history


def _sends_all(request: RequestRecord) -> bool:
    return request.resource == "pods" and "sendInitialEvents" in request.query


async def test_the_kind_of_a_resource_with_a_regular_name_needs_no_discovery(
    server: APIServer,
) -> None:
    put(server, "a")
    async with reflecting(server) as running:
        await running.until_watching()
        assert running.sink.versions() == listed(server)
    assert discoveries(server) == 0


async def test_a_kind_that_no_other_resource_has_is_read_from_discovery_once(
    server: APIServer,
) -> None:
    server.register("example.com/v1", "Measurement", "readings")
    server.create(an_object("example.com/v1", "Measurement", "a"))
    resource = GroupVersionResource.of("example.com/v1", "readings")
    async with reflecting(server, resource=resource) as running:
        await running.until_watching()
        running.reflector.request_relist("a test")
        await running.until_watching(loads=2)
        await running.until_equal("example.com/v1", "readings")
    assert discoveries(server) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 406])
async def test_a_server_that_refuses_discovery_is_followed(server: APIServer, status: int) -> None:
    """A proxy may pass on the requests of one resource alone."""
    server.register("example.com/v1", "Measurement", "readings")
    server.create(an_object("example.com/v1", "Measurement", "a"))
    server.faults.add(Fault(match=_is_discovery, status=status, times=None))
    resource = GroupVersionResource.of("example.com/v1", "readings")
    async with reflecting(server, resource=resource) as running:
        await running.until_watching()
        await running.until_equal("example.com/v1", "readings")


def _other_list(kind: str, *items: JSONObject) -> Fault:
    """Return a fault that answers lists with a kind behind the items, as for custom resources."""
    body = {
        "apiVersion": "example.com/v1",
        "items": items,
        "kind": kind,
        "metadata": {"resourceVersion": "7"},
    }
    return Fault(match=is_load, body=json.encode(body), times=2)


async def test_a_list_of_a_custom_resource_may_have_any_kind(server: APIServer) -> None:
    """A CustomResourceDefinition may name any `listKind`."""
    foo = an_object("example.com/v1", "Foo", "a", uid="u", resourceVersion="5")
    server.faults.add(_other_list("FooCollection", foo))
    resource = GroupVersionResource.of("example.com/v1", "foos")
    async with reflecting(server, resource=resource) as running:
        await until(lambda: running.sink.versions() == {"default/a": "5"})


@pytest.mark.parametrize("kind", ["Foo", "Bar"])
async def test_one_object_in_place_of_a_list_is_refused(server: APIServer, kind: str) -> None:
    server.create(an_object("example.com/v1", "Foo", "a"))
    resource = GroupVersionResource.of("example.com/v1", "foos")
    async with reflecting(server, resource=resource) as running:
        await running.until_watching()
        server.faults.add(_other_list(kind))
        running.reflector.request_relist("a test")
        await until(lambda: f"one {kind}, not a list" in str(running.reflector.status()))
        await running.until_watching(loads=2)
        assert [words.split()[0] for words in running.sink.history["default/a"]] == ["add"]


def _without_kinds(server: APIServer, kind: str, *, is_last: bool) -> Fault:
    """Return a fault that lists the pods of now without their kind, as API servers do."""
    items = [{"metadata": one["metadata"]} for one in server.list("v1", "pods")]
    head: JSONObject = {"kind": kind, "apiVersion": "v1"}
    rest: JSONObject = {"items": items, "metadata": {"resourceVersion": server.resource_version}}
    body = {**rest, **head} if is_last else {**head, **rest}
    return Fault(match=is_load, body=json.encode(body), times=None)


@pytest.mark.parametrize(
    ("list_kind", "is_last", "asked"),
    [
        pytest.param("PodList", True, 0, id="the-kind-is-behind-the-items"),
        pytest.param("List", False, 2, id="a-list-of-anything"),
        pytest.param("List", True, 2, id="a-list-of-anything-behind-the-items"),
    ],
)
async def test_the_first_list_is_complete_if_items_lack_a_kind_that_comes_later_or_never(
    server: APIServer, list_kind: str, is_last: bool, asked: int
) -> None:
    """The order of the members of a JSON object means nothing, and gateways answer with List."""
    put(server, "a")
    server.faults.add(_without_kinds(server, list_kind, is_last=is_last))
    async with reflecting(server) as running:
        await running.until_watching()
        await running.until_equal()
        assert running.sink.objects["default/a"].to_dict()["kind"] == "Pod"
        assert ("undecodable", "skipped") not in running.reflector.counts()
        assert running.reflector.status().loads == 1
        put(server, "a", "b")
        await running.until_equal()
        assert {str(one.gvk) for one in running.sink.objects.values()} == {"v1/Pod"}
    assert discoveries(server) == asked


async def test_items_whose_kind_nothing_names_are_skipped_after_a_second_list(
    server: APIServer,
) -> None:
    put(server, "a")
    server.faults.add(Fault(match=lambda one: one.path == "/api/v1", status=403, times=None))
    server.faults.add(_without_kinds(server, "List", is_last=False))
    async with reflecting(server) as running:
        await running.until_watching()
        assert running.sink.versions() == {}
        assert running.reflector.counts()["undecodable", "skipped"] == 1
        assert sum(is_load(one) for one in server.requests) == 2
        put(server, "b")
        await until(lambda: "default/b" in running.sink.versions())


def _is_discovery(request: RequestRecord) -> bool:
    return request.path == "/apis/example.com/v1"
