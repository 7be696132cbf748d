"""Garbage is collected as a cluster's controller does it, for those who ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyinformer.testing import APIServer, World
from pyinformer.testing._polling import poll
from tests.testing.wire import Wire

_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        yield running


def _make(server: APIServer | World, name: str, *owners: dict[str, Any], **metadata: Any) -> Any:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": list(owners), **metadata},
    }
    return server.create(body)


def _owned_by(owner: Any, *, blocks: bool = False, **changed: Any) -> dict[str, Any]:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return {**reference, **({"blockOwnerDeletion": True} if blocks else {}), **changed}


def _names(server: APIServer | World) -> list[str]:
    return [one["metadata"]["name"] for one in server.list("v1", "configmaps")]


def _delete(server: APIServer, name: str, policy: str) -> int:
    with Wire(server.url) as wire:
        return wire.request("DELETE", f"{_MAPS}/{name}", propagationPolicy=policy).status


def test_without_being_asked_nobody_collects(server: APIServer) -> None:
    owner = _make(server, "owner")
    _make(server, "dependent", _owned_by(owner))

    _delete(server, "owner", "Background")
    assert _names(server) == ["dependent"]


def test_dependents_follow_their_last_owner_and_their_own_dependents_them(
    server: APIServer,
) -> None:
    one, two = _make(server, "one"), _make(server, "two")
    shared = _make(server, "shared", _owned_by(one), _owned_by(two))
    _make(server, "leaf", _owned_by(shared))

    _delete(server, "one", "Background")
    assert server.collect_garbage() == 0
    kept = server.get("v1", "configmaps", "shared")["metadata"]["ownerReferences"]
    assert [reference["name"] for reference in kept] == ["two"]

    _delete(server, "two", "Background")
    assert server.collect_garbage() == 2
    assert _names(server) == []


def test_an_owner_is_the_one_with_the_uid(server: APIServer) -> None:
    owner = _make(server, "owner")
    _make(server, "dependent", _owned_by(owner))
    server.delete("v1", "configmaps", "owner")
    _make(server, "owner")

    assert server.collect_garbage() == 1
    assert _names(server) == ["owner"]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param({"name": "never"}, [], id="never-there"),
        pytest.param({"kind": "Strange"}, ["dependent"], id="of-an-unknown-kind"),
    ],
)
def test_an_owner_that_never_was_is_gone_and_an_unknown_one_may_be_there(
    server: APIServer, changed: dict[str, Any], expected: list[str]
) -> None:
    owner = _make(server, "owner")
    _make(server, "dependent", _owned_by(owner, **changed))
    server.delete("v1", "configmaps", "owner")

    server.collect_garbage()
    assert _names(server) == expected


def test_owners_in_other_namespaces_do_not_count(server: APIServer) -> None:
    owner = _make(server, "owner", namespace="elsewhere")
    _make(server, "dependent", _owned_by(owner))

    server.collect_garbage()
    assert _names(server) == ["owner"]


def test_a_namespaced_object_may_be_owned_by_a_node(server: APIServer) -> None:
    node = server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    _make(server, "dependent", _owned_by(node))
    assert server.collect_garbage() == 0

    server.delete("v1", "nodes", "n")
    assert server.collect_garbage() == 1


def test_foreground_deletion_waits_for_those_that_block_it(server: APIServer) -> None:
    owner = _make(server, "owner")
    _make(server, "blocking", _owned_by(owner, blocks=True), finalizers=["acme.io/slow"])
    _make(server, "loose", _owned_by(owner))

    _delete(server, "owner", "Foreground")
    server.collect_garbage()
    assert _names(server) == ["blocking", "owner"]
    assert "deletionTimestamp" in server.get("v1", "configmaps", "blocking")["metadata"]

    server.patch("v1", "configmaps", "blocking", {"metadata": {"finalizers": None}})
    server.collect_garbage()
    assert _names(server) == []


def test_foreground_deletion_goes_down_before_it_comes_up(server: APIServer) -> None:
    owner = _make(server, "owner")
    middle = _make(server, "middle", _owned_by(owner, blocks=True))
    _make(server, "leaf", _owned_by(middle, blocks=True), finalizers=["acme.io/slow"])

    _delete(server, "owner", "Foreground")
    server.collect_garbage()
    finalizers = server.get("v1", "configmaps", "middle")["metadata"]["finalizers"]
    assert finalizers == ["foregroundDeletion"]

    server.patch("v1", "configmaps", "leaf", {"metadata": {"finalizers": None}})
    server.collect_garbage()
    assert _names(server) == []


def test_orphans_are_left_behind_without_the_reference(server: APIServer) -> None:
    owner, other = _make(server, "owner"), _make(server, "other")
    _make(server, "orphan", _owned_by(owner))
    _make(server, "shared", _owned_by(owner), _owned_by(other))

    _delete(server, "owner", "Orphan")
    server.collect_garbage()

    assert _names(server) == ["orphan", "other", "shared"]
    assert "ownerReferences" not in server.get("v1", "configmaps", "orphan")["metadata"]
    (kept,) = server.get("v1", "configmaps", "shared")["metadata"]["ownerReferences"]
    assert kept["name"] == "other"


def test_two_that_own_each_other_keep_each_other(server: APIServer) -> None:
    first = _make(server, "first")
    second = _make(server, "second", _owned_by(first))
    references = {"metadata": {"ownerReferences": [_owned_by(second)]}}
    server.patch("v1", "configmaps", "first", references)

    assert server.collect_garbage() == 0
    server.delete("v1", "configmaps", "first")
    assert server.collect_garbage() == 1
    assert _names(server) == []


def test_a_server_that_collects_does_it_soon_after_the_write() -> None:
    server = APIServer(garbage_collection=True)
    before = _make(server, "before")
    _make(server, "of-before", _owned_by(before))
    server.delete("v1", "configmaps", "before")  # nothing runs yet
    with server:
        assert poll(lambda: _names(server) == [], timeout_seconds=10)
        owner = _make(server, "owner")
        with Wire(server.url) as wire, wire.watch(_MAPS) as stream:
            assert stream.named(1) == [("ADDED", "owner")]
            _make(server, "dependent", _owned_by(owner))
            _delete(server, "owner", "Background")
            assert stream.named(3) == [
                ("ADDED", "dependent"),
                ("DELETED", "owner"),
                ("DELETED", "dependent"),
            ]


def test_a_world_collects_when_it_is_told_to() -> None:
    with World() as world:
        owner = _make(world, "owner")
        _make(world, "dependent", _owned_by(owner))
        world.delete("v1", "configmaps", "owner")

        assert world.collect_garbage() == 1
        assert _names(world) == []
