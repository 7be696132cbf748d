"""The replicas of the embedded server differ only in how far their watch caches are."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import pyinformer
from pyinformer.errors import InvalidArgumentError, LifecycleError
from pyinformer.testing import APIServer, ServerReplica
from tests.testing.wire import ALL_PODS, PODS, Wire, pod


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer(replicas=2, patience_seconds=0.05) as running:
        yield running


@pytest.fixture
def replica(server: APIServer) -> ServerReplica:
    (one,) = server.replicas
    return one


@pytest.fixture
def wire(replica: ServerReplica) -> Iterator[Wire]:
    with Wire(replica.url) as opened:
        yield opened


def test_a_replica_that_is_not_held_shows_everything(server: APIServer, wire: Wire) -> None:
    server.create(pod("a"))

    assert wire.get(ALL_PODS).names == ["a"]
    assert wire.get(ALL_PODS, resourceVersion="0").names == ["a"]
    assert "default" in wire.get("/api/v1/namespaces", resourceVersion="0").names


def test_a_write_to_a_replica_is_stored(server: APIServer, wire: Wire) -> None:
    assert wire.request("POST", PODS, pod("a")).status == 201
    assert [one["metadata"]["name"] for one in server.list("v1", "pods")] == ["a"]


def test_a_lagging_replica_answers_only_requests_that_accept_old_data(
    server: APIServer, replica: ServerReplica, wire: Wire
) -> None:
    before = server.create(pod("a"))["metadata"]["resourceVersion"]
    replica.hold()
    now = server.create(pod("b"))["metadata"]["resourceVersion"]

    assert (replica.lag, replica.resource_version) == (1, before)
    old = wire.get(ALL_PODS, resourceVersion="0")
    assert (old.names, old.json["metadata"]["resourceVersion"]) == (["a"], before)
    assert wire.get(f"{PODS}/b", resourceVersion="0").status == 404
    assert wire.get(ALL_PODS).names == ["a", "b"]
    assert wire.get(f"{PODS}/b").status == 200
    exact = wire.get(ALL_PODS, resourceVersion=now, resourceVersionMatch="Exact")
    assert exact.names == ["a", "b"]
    late = wire.get(ALL_PODS, resourceVersion=now, resourceVersionMatch="NotOlderThan")
    assert late.status == 504
    assert late.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"

    replica.release()
    assert wire.get(ALL_PODS, resourceVersion="0").names == ["a", "b"]
    assert replica.lag == 0


def test_a_read_that_is_not_older_than_a_write_waits_for_the_replica() -> None:
    with APIServer(replicas=2, patience_seconds=20) as server, Wire(server.replicas[0].url) as wire:
        (replica,) = server.replicas
        replica.hold()
        version = server.create(pod("a"))["metadata"]["resourceVersion"]

        def release() -> None:
            server.wait_for_request(lambda one: one.verb == "list")
            replica.release()

        releasing = threading.Thread(target=release)
        releasing.start()
        answer = wire.get(ALL_PODS, resourceVersion=version, resourceVersionMatch="NotOlderThan")
        releasing.join()

    assert answer.names == ["a"]


def test_watches_get_as_much_as_is_released_and_in_order(
    server: APIServer, replica: ServerReplica, wire: Wire
) -> None:
    version = server.resource_version
    with wire.watch(ALL_PODS, resourceVersion=version) as stream:
        replica.wait_for_watches(1)
        replica.hold()
        for name in "abc":
            server.create(pod(name))
        replica.release(2)
        assert stream.named(2) == [("ADDED", "a"), ("ADDED", "b")]
        assert replica.lag == 1
        server.delete("v1", "pods", "a")
        replica.release()
        assert stream.named(2) == [("ADDED", "c"), ("DELETED", "a")]
        server.create(pod("d"))
        assert stream.named(1) == [("ADDED", "d")]


def test_a_watch_never_gets_what_its_position_is_past(
    server: APIServer, replica: ServerReplica, wire: Wire
) -> None:
    """A client that comes from another replica may be ahead of this one."""
    replica.hold()
    server.create(pod("a"))
    position = server.resource_version
    with wire.watch(ALL_PODS, resourceVersion=position) as stream:
        replica.wait_for_watches(1)
        server.create(pod("b"))
        replica.release()
        assert stream.named(1) == [("ADDED", "b")]


def test_a_restore_reaches_every_replica(
    server: APIServer, replica: ServerReplica, wire: Wire
) -> None:
    server.create(pod("a"))
    saved = server.save()
    replica.hold()
    server.create(pod("b"))
    server.restore(saved)

    with Wire(replica.url) as anew:
        assert anew.get(ALL_PODS, resourceVersion="0").names == ["a"]
    assert (replica.lag, replica.resource_version) == (0, server.resource_version)


def test_a_compaction_reaches_every_replica(server: APIServer, wire: Wire) -> None:
    position = server.resource_version
    server.create(pod("a"))
    server.compact()

    with wire.watch(ALL_PODS, resourceVersion=position) as stream:
        assert stream.event()[1]["code"] == 410


@pytest.mark.parametrize("keep_history", [True, False])
def test_a_replica_restarts_by_itself(
    server: APIServer, replica: ServerReplica, wire: Wire, *, keep_history: bool
) -> None:
    position, url = server.resource_version, replica.url
    server.create(pod("a"))
    with Wire(server.url) as first, first.watch(ALL_PODS, resourceVersion=position) as other:
        assert other.named(1) == [("ADDED", "a")]
        replica.restart(keep_history=keep_history)
        assert replica.url == url
        with Wire(replica.url) as anew, anew.watch(ALL_PODS, resourceVersion=position) as stream:
            assert stream.event()[0] == ("ADDED" if keep_history else "ERROR")
        server.create(pod("b"))
        assert other.named(1) == [("ADDED", "b")]


def test_watches_of_a_replica_end_by_themselves(
    server: APIServer, replica: ServerReplica, wire: Wire
) -> None:
    position = server.resource_version
    with (
        Wire(server.url) as first,
        first.watch(ALL_PODS, resourceVersion=position),
        wire.watch(ALL_PODS, resourceVersion=position),
    ):
        replica.wait_for_watches(1)
        server.wait_for_watches(1)
        replica.end_watches()
        replica.wait_for_watches(0)
        assert server.open_watches == 1


async def test_an_informer_of_a_replica_is_as_old_as_that_and_catches_up() -> None:
    with APIServer(replicas=2, tls=True) as server:
        (replica,) = server.replicas
        config = pyinformer.client.ClusterConfig(server=replica.url, ca_file=str(server.ca_file))
        async with (
            pyinformer.connect(config=config) as connected,
            pyinformer.SharedInformerFactory(connected) as factory,
        ):
            pods = factory.informer("v1", "pods")
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            replica.hold()
            server.create(pod("a"))
            assert pods.lister.list() == []
            replica.release()
            found = await pods.wait_for("default/a", lambda one: one is not None)
            assert found is not None


def test_contradictory_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="replicas"):
        APIServer(replicas=0)
    (replica,) = APIServer(replicas=2).replicas
    with pytest.raises(LifecycleError, match="started"):
        _ = replica.url
    with pytest.raises(InvalidArgumentError, match="changes"):
        replica.release(-1)
