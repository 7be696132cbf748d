"""A comparison names every difference from the server, and a mirror every wrong call."""

from __future__ import annotations

import pytest

from pyinformer.cli.demo._cache_comparison import differences, list_objects
from pyinformer.cli.demo._handler_mirror import HandlerMirror
from pyinformer.objects import JSONObject
from pyinformer.testing import APIServer
from tests.cli.cluster_objects import hold, pod


def test_equal_objects_are_not_a_difference() -> None:
    body = pod("a")

    assert differences("the cache", {"default/a": hold(body)}, {"default/a": body}) == []


@pytest.mark.parametrize(
    ("held", "named"),
    [
        pytest.param(None, "the cache lacks default/a", id="missing"),
        pytest.param(pod("a", uid="v"), "default/a with the uid v, not u", id="uid"),
        pytest.param(
            pod("a", resource_version="2"), "with the resource version 2, not 1", id="version"
        ),
        pytest.param(pod("a", phase="Failed"), "another body at status.phase", id="body"),
    ],
)
def test_each_kind_of_difference_is_named(held: JSONObject | None, named: str) -> None:
    cache = {} if held is None else {"default/a": hold(held)}

    (sentence,) = differences("the cache", cache, {"default/a": pod("a")})

    assert named in sentence


def test_a_difference_of_secrets_shows_no_value() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": pod("s")["metadata"]}
    here, there = {**secret, "data": {"key": "b2xk"}}, {**secret, "data": {"key": "bmV3"}}

    (sentence,) = differences("the cache", {"default/s": hold(here)}, {"default/s": there})

    assert sentence == "the cache has default/s with another body at data.key"


def test_objects_that_the_server_lacks_are_named() -> None:
    (sentence,) = differences("the cache", {"default/a": hold(pod("a"))}, {})

    assert sentence == "the cache has default/a, which the server does not have"


def test_the_server_is_listed_as_caches_keep_objects() -> None:
    fields = [{"manager": "m", "operation": "Update", "apiVersion": "v1"}]
    with APIServer() as server:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
        server.create({**node, "metadata": {"name": "n", "managedFields": fields}})
        server.create(pod("a"))
        nodes = list_objects(server.url, "v1", "nodes")
        pods = list_objects(server.url, "v1", "pods")

    assert (list(nodes), list(pods)) == (["n"], ["default/a"])
    assert (nodes["n"]["apiVersion"], nodes["n"]["kind"]) == ("v1", "Node")
    assert "managedFields" not in nodes["n"]["metadata"]


def test_a_list_that_is_refused_is_an_error_and_not_an_empty_cluster() -> None:
    with APIServer() as server, pytest.raises(OSError, match="404"):
        list_objects(server.url, "v1", "gadgets")


def test_a_mirror_applies_the_calls_that_it_receives() -> None:
    mirror: HandlerMirror[None] = HandlerMirror()
    first, second = hold(pod("a")), hold(pod("a", resource_version="2"))

    mirror.on_add(first)
    mirror.on_update(first, second)
    mirror.on_add(hold(pod("b", uid="b")))
    mirror.on_delete(hold(pod("b", uid="b", resource_version="3")))

    assert mirror.objects == {"default/a": second}
    assert (mirror.calls, mirror.contradictions) == (4, [])


def test_a_mirror_records_calls_in_an_invalid_order() -> None:
    mirror: HandlerMirror[None] = HandlerMirror()
    first, other = hold(pod("a")), hold(pod("a", uid="other"))

    mirror.on_add(first)
    mirror.on_add(first)
    mirror.on_update(other, other)
    mirror.on_delete(first)
    mirror.on_delete(first)

    assert mirror.contradictions == [
        "default/a was added twice",
        "default/a was updated from a state that was never delivered",
        "default/a was deleted but did not exist",
        "default/a was deleted but did not exist",
    ]
