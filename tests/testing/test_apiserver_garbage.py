"""Garbage collection of the embedded server, on request, as a cluster's controller does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyinformer.errors import ForbiddenError
from pyinformer.testing import APIServer, World
from tests.testing.wire import Wire
from tests.waiting import poll

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


def test_without_the_option_nothing_is_collected(server: APIServer) -> None:
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
def test_an_owner_of_a_known_kind_is_absent_and_one_of_an_unknown_kind_may_exist(
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


def test_two_objects_that_own_each_other_are_kept(server: APIServer) -> None:
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
        assert poll(lambda: _names(server) == [], timeout_seconds=100)
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


def test_a_world_collects_garbage_on_request() -> None:
    with World() as world:
        owner = _make(world, "owner")
        _make(world, "dependent", _owned_by(owner))
        world.delete("v1", "configmaps", "owner")

        assert world.collect_garbage() == 1
        assert _names(world) == []


def test_owners_in_a_circle_do_not_wait_for_each_other(server: APIServer) -> None:
    one = _make(server, "one")
    two = _make(server, "two", _owned_by(one, blocks=True))
    changes = {"metadata": {"ownerReferences": [_owned_by(two, blocks=True)]}}
    server.patch("v1", "configmaps", "one", changes)
    assert server.collect_garbage() == 0

    _delete(server, "one", "Foreground")

    assert server.collect_garbage() == 1
    assert _names(server) == []


def test_an_object_is_kept_while_one_of_its_owners_cannot_be_read(
    server: APIServer,
) -> None:
    gone = _owned_by(_make(server, "gone"))
    server.delete("v1", "configmaps", "gone")
    unknown = {**gone, "kind": "Unknown", "uid": "unknown"}
    node = {"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"}
    _make(server, "unknown", gone, unknown)
    volume = {"apiVersion": "v1", "kind": "PersistentVolume"}
    server.create({**volume, "metadata": {"name": "v", "ownerReferences": [gone, node]}})

    assert server.collect_garbage() == 0

    for plural, name in (("configmaps", "unknown"), ("persistentvolumes", "v")):
        assert len(server.get("v1", plural, name)["metadata"]["ownerReferences"]) == 2


def test_an_owner_of_the_cluster_may_own_what_is_in_a_namespace(server: APIServer) -> None:
    node = server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    _make(server, "dependent", _owned_by(node))
    assert server.collect_garbage() == 0
    server.delete("v1", "nodes", "n")
    assert server.collect_garbage() == 1


def test_an_owner_in_another_namespace_is_not_an_owner(server: APIServer) -> None:
    owner = _make(server, "owner", namespace="elsewhere")
    _make(server, "dependent", _owned_by(owner))
    assert server.collect_garbage() == 1


def _fill(server: APIServer | World) -> None:
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    _make(server, "plain", namespace="shop")
    _make(server, "held", namespace="shop", finalizers=["acme.io/hold"])
    _make(server, "elsewhere")


def _terminating(server: APIServer | World) -> bool:
    names = [one["metadata"]["name"] for one in server.list("v1", "namespaces")]
    return "shop" in names


def test_a_namespace_is_deleted_once_its_objects_are_gone(
    server: APIServer,
) -> None:
    _fill(server)
    with Wire(server.url) as wire:
        assert wire.request("DELETE", "/api/v1/namespaces/shop").status == 200
    assert _names(server) == ["elsewhere", "held", "plain"]

    assert server.collect_garbage() == 2
    assert _names(server) == ["elsewhere", "held"]
    assert _terminating(server)
    why = "unable to create new content in namespace shop because it is being terminated"
    with pytest.raises(ForbiddenError, match=f'configmaps "late" is forbidden: {why}'):
        _make(server, "late", namespace="shop")

    server.patch("v1", "configmaps", "held", {"metadata": {"finalizers": None}}, "shop")
    assert server.collect_garbage() == 0
    assert _names(server) == ["elsewhere"]
    assert not _terminating(server)


def test_a_namespace_goes_by_itself_where_garbage_is_collected() -> None:
    with APIServer(garbage_collection=True) as server:
        _fill(server)
        server.delete("v1", "namespaces", "shop")
        assert poll(lambda: _names(server) == ["elsewhere", "held"], timeout_seconds=100)
        server.patch("v1", "configmaps", "held", {"metadata": {"finalizers": None}}, "shop")
        assert poll(lambda: not _terminating(server), timeout_seconds=100)


def test_a_world_empties_a_namespace_that_its_program_has_deleted() -> None:
    with World() as world:
        _fill(world)

        async def delete() -> None:
            await world.cluster.delete("v1", "namespaces", "shop")

        world.run(delete)
        assert world.collect_garbage() == 2
        assert _names(world) == ["elsewhere", "held"]
