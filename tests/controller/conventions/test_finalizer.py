"""Finalizers on a server: added before the work, removed behind the clean-up, no other lost.

Conflicts are made by a second writer, who is quicker than the cache that the reconcile read.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pyinformer.client.cluster import connect, state_of
from pyinformer.controller.conventions import finalizer
from pyinformer.errors import ConflictError, InvalidArgumentError, InvalidTypeError, NotFoundError
from pyinformer.objects import JSONObject, KubeObject
from pyinformer.operator import custom_resource, custom_resource_definition
from pyinformer.testing import APIServer, Fault
from tests.pods import make

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.client.cluster import Cluster

OURS = "acme.io/backups"
THEIRS = "example.com/audit"


@custom_resource("acme.io/v1", "buckets", kind="Bucket")
class _Bucket(msgspec.Struct):
    """A custom resource."""

    spec: dict[str, str] = {}


@asynccontextmanager
async def _shop(**metadata: Any) -> AsyncIterator[tuple[APIServer, Cluster]]:
    """Serve one config map, `default/a`, with this metadata."""
    with APIServer() as server:
        server.create(_config_map(**metadata))
        async with connect(server=server.url) as cluster:
            yield server, cluster


def _config_map(**metadata: Any) -> JSONObject:
    place = {"name": "a", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place | metadata}


async def _cached(cluster: Cluster) -> KubeObject:
    return await cluster.get("v1", "configmaps", "default/a")


def _finalizers(server: APIServer) -> list[str]:
    stored = server.get("v1", "configmaps", "a")
    found: list[str] = stored["metadata"].get("finalizers", [])
    return found


def _touch(server: APIServer, **metadata: Any) -> None:
    """Change the object after the reconcile has read it."""
    server.patch("v1", "configmaps", "a", {"data": {"x": "y"}, "metadata": metadata})


def _is_gone(server: APIServer) -> bool:
    try:
        server.get("v1", "configmaps", "a")
    except NotFoundError:
        return True
    return False


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should add the finalizer when not",
    "controller-runtime pkg/finalizer: TestFinalizer",
)
async def test_the_finalizer_is_there_before_the_work_begins() -> None:
    async with _shop(finalizers=[THEIRS]) as (server, cluster):
        async with finalizer(cluster, await _cached(cluster), OURS) as held:
            assert held.phase == "active"
            assert _finalizers(server) == [THEIRS, OURS]
            assert held.object is not None
            assert held.object.metadata.finalizers == (THEIRS, OURS)

        assert _finalizers(server) == [THEIRS, OURS]


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should add the finalizer when not",
    "controller-runtime pkg/finalizer: TestFinalizer",
)
async def test_an_object_that_has_it_is_not_written_again() -> None:
    async with _shop(finalizers=[OURS]) as (server, cluster):
        obj = await _cached(cluster)
        server.clear_requests()

        async with finalizer(cluster, obj, OURS) as held:
            assert held.phase == "active"

        assert [record.verb for record in server.requests if record.verb != "get"] == []


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should add the finalizer when not",
    "controller-runtime pkg/finalizer: TestFinalizer",
)
async def test_leaving_the_block_releases_a_deleted_object() -> None:
    async with _shop(finalizers=[OURS]) as (server, cluster):
        server.delete("v1", "configmaps", "a")

        async with finalizer(cluster, await _cached(cluster), OURS) as held:
            assert held.phase == "deleting"
            assert not _is_gone(server), "it waits until the cleaning up is over"

        assert _is_gone(server)


@pytest.mark.covers("controller-runtime pkg/finalizer: TestFinalizer")
async def test_a_deleted_object_continues_waiting_for_others() -> None:
    async with _shop(finalizers=[THEIRS, OURS]) as (server, cluster):
        server.delete("v1", "configmaps", "a")
        async with finalizer(cluster, await _cached(cluster), OURS) as held:
            assert held.phase == "deleting"
        assert _finalizers(server) == [THEIRS]

        async with finalizer(cluster, await _cached(cluster), OURS) as held:
            assert held.phase == "gone", "it is cleaned up once"
        assert _finalizers(server) == [THEIRS]


@pytest.mark.covers("controller-runtime pkg/finalizer: TestFinalizer")
async def test_a_failed_clean_up_keeps_the_finalizer() -> None:
    async with _shop(finalizers=[OURS]) as (server, cluster):
        server.delete("v1", "configmaps", "a")

        with pytest.raises(ValueError, match="bucket"):
            async with finalizer(cluster, await _cached(cluster), OURS):
                raise ValueError("the bucket is not empty")

        assert _finalizers(server) == [OURS]


async def test_a_clean_up_may_continue_in_a_later_reconcile() -> None:
    async with _shop(finalizers=[OURS]) as (server, cluster):
        server.delete("v1", "configmaps", "a")

        async with finalizer(cluster, await _cached(cluster), OURS) as held:
            held.keep()

        assert _finalizers(server) == [OURS]


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should add the finalizer when not",
    "controller-runtime pkg/finalizer: TestFinalizer",
)
async def test_an_object_that_is_deleted_without_it_is_left_alone() -> None:
    async with _shop(finalizers=[THEIRS]) as (server, cluster):
        server.delete("v1", "configmaps", "a")

        async with finalizer(cluster, await _cached(cluster), OURS) as held:
            assert held.phase == "gone"

        assert _finalizers(server) == [THEIRS]


async def test_no_object_is_handled_as_deleted() -> None:
    async with (
        _shop() as (_, cluster),
        finalizer(cluster, None, OURS) as held,
    ):
        assert held.phase == "gone"
        assert held.object is None


@pytest.mark.covers(
    "controller-runtime pkg/client: Patch / Metadata Client / should merge patch with options"
)
async def test_a_finalizer_that_was_added_meanwhile_is_kept_when_ours_is_added() -> None:
    async with _shop() as (server, cluster):
        stale = await _cached(cluster)
        _touch(server, finalizers=[THEIRS])

        async with finalizer(cluster, stale, OURS) as held:
            assert held.phase == "active"

        assert _finalizers(server) == [THEIRS, OURS]


async def test_a_finalizer_that_was_removed_meanwhile_does_not_come_back() -> None:
    async with _shop(finalizers=[THEIRS, OURS]) as (server, cluster):
        server.delete("v1", "configmaps", "a")

        async with finalizer(cluster, await _cached(cluster), OURS):
            _touch(server, finalizers=[OURS])

        assert _is_gone(server)


async def test_an_object_that_was_deleted_meanwhile_gets_no_finalizer() -> None:
    async with _shop(finalizers=[THEIRS]) as (server, cluster):
        stale = await _cached(cluster)
        server.delete("v1", "configmaps", "a")

        async with finalizer(cluster, stale, OURS) as held:
            assert held.phase == "gone"

        assert _finalizers(server) == [THEIRS]


@pytest.mark.parametrize("is_recreated", [False, True], ids=["gone", "recreated"])
async def test_another_object_of_that_name_is_not_touched(is_recreated: bool) -> None:
    async with _shop() as (server, cluster):
        stale = await _cached(cluster)
        server.delete("v1", "configmaps", "a")
        if is_recreated:
            server.create(_config_map())

        async with finalizer(cluster, stale, OURS) as held:
            assert held.phase == "gone"
            assert held.object is None

        assert _is_gone(server) or _finalizers(server) == []


async def test_an_object_deleted_during_the_clean_up_is_not_an_error() -> None:
    async with _shop(finalizers=[OURS]) as (server, cluster):
        server.delete("v1", "configmaps", "a")

        async with finalizer(cluster, await _cached(cluster), OURS) as held:
            _touch(server, finalizers=None)

        assert held.object is None
        assert _is_gone(server)


@pytest.mark.parametrize(
    ("obj", "name", "argument"),
    [
        pytest.param(make("default/a").to_dict(), "acme.io/x", "obj", id="a-dict"),
        pytest.param(make("default/a"), None, "name", id="no-name"),
    ],
)
async def test_an_invalid_object_or_finalizer_name_is_refused(
    obj: Any, name: Any, argument: str
) -> None:
    async with connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises((InvalidTypeError, InvalidArgumentError), match=f"^{argument}: "):
            async with finalizer(cluster, obj, name):
                raise AssertionError


async def test_repeated_conflicts_end_with_the_conflict_error() -> None:
    async with _shop() as (server, cluster):
        obj = await _cached(cluster)
        server.faults.add(Fault(verb="patch", status=409, times=None))

        with pytest.raises(ConflictError):
            async with finalizer(cluster, obj, OURS):
                pytest.fail("the work must not begin without the finalizer")

        assert server.faults.struck == 5


async def test_a_404_that_does_not_name_the_object_is_an_error_and_keeps_the_finalizer() -> None:
    """A gateway answers so; the next reconcile releases the object."""
    async with _shop(finalizers=[OURS]) as (server, cluster):
        server.delete("v1", "configmaps", "a")
        obj = await _cached(cluster)
        server.faults.add(Fault(verb="patch", status=404, body=b"default backend - 404"))

        with pytest.raises(NotFoundError, match="default backend"):
            async with finalizer(cluster, obj, OURS) as held:
                assert held.phase == "deleting"

        assert _finalizers(server) == [OURS]
        async with finalizer(cluster, obj, OURS) as held:
            assert held.phase == "deleting"
        assert _is_gone(server)


async def test_a_read_after_a_conflict_that_does_not_name_the_object_is_an_error() -> None:
    async with _shop() as (server, cluster):
        obj = await _cached(cluster)
        server.faults.add(Fault(verb="patch", status=409))
        server.faults.add(Fault(verb="get", resource="configmaps", status=404, reason="NotFound"))

        with pytest.raises(NotFoundError):
            async with finalizer(cluster, obj, OURS):
                pytest.fail("the work must not begin without the finalizer")


@pytest.mark.parametrize("name", ["cluster.cluster.x-k8s.io", "backups", "in-use.crossplane.io"])
async def test_a_finalizer_without_a_domain_can_be_held_and_released(name: str) -> None:
    """Servers accept them of custom resources, and public operators use them."""
    with APIServer() as server:
        server.create(custom_resource_definition(_Bucket))
        async with connect(server=server.url) as cluster:
            bucket = await cluster.create(
                {
                    "apiVersion": "acme.io/v1",
                    "kind": "Bucket",
                    "metadata": {"name": "a", "namespace": "default"},
                }
            )
            async with finalizer(cluster, bucket, name) as held:
                assert held.phase == "active"
            await cluster.delete(bucket)
            doomed = await cluster.get("acme.io/v1", "buckets", "default/a")
            assert list(doomed.metadata.finalizers) == [name]
            async with finalizer(cluster, doomed, name, add=False) as held:
                assert held.phase == "deleting"
            with pytest.raises(NotFoundError):
                await cluster.get("acme.io/v1", "buckets", "default/a")


@pytest.mark.parametrize(
    "name",
    [
        *("", "acme.io/", "/x", "Acme.io/x", "a/b/c", "a..b/x", "acme-.io/x", "x ", "x" * 64),
        f"{'a' * 254}/x",
    ],
)
async def test_an_invalid_name_is_refused(name: str) -> None:
    async with _shop() as (_, cluster):
        with pytest.raises(InvalidArgumentError, match=r"^name: "):
            async with finalizer(cluster, await _cached(cluster), name):
                pytest.fail("the work must not begin")


async def test_an_object_that_is_given_up_loses_the_finalizer_and_lives() -> None:
    async with _shop(finalizers=[THEIRS, OURS]) as (server, cluster):
        async with finalizer(cluster, await _cached(cluster), OURS) as held:
            assert held.phase == "active"
            held.keep()
            held.release()
            assert _finalizers(server) == [THEIRS, OURS]
        assert _finalizers(server) == [THEIRS]
        assert held.object is not None
        assert held.object.metadata.finalizers == (THEIRS,)


async def test_the_last_call_of_keep_or_release_counts() -> None:
    async with _shop(finalizers=[OURS]) as (server, cluster):
        server.delete("v1", "configmaps", "a")
        async with finalizer(cluster, await _cached(cluster), OURS) as held:
            held.release()
            held.keep()
        assert _finalizers(server) == [OURS]


async def test_an_object_is_not_given_up_by_a_block_that_raises() -> None:
    async with _shop(finalizers=[OURS]) as (server, cluster):
        with pytest.raises(ZeroDivisionError):
            async with finalizer(cluster, await _cached(cluster), OURS) as held:
                held.release()
                raise ZeroDivisionError
        assert _finalizers(server) == [OURS]


async def test_an_object_without_the_finalizer_can_be_left_alone() -> None:
    async with _shop(finalizers=[THEIRS]) as (server, cluster):
        server.clear_requests()
        async with finalizer(cluster, await _cached(cluster), OURS, add=False) as held:
            assert held.phase == "gone"
            held.release()
        assert [record.verb for record in server.requests if record.verb != "get"] == []


async def test_the_cluster_knows_the_finalizers_of_this_process() -> None:
    async with _shop() as (_, cluster):
        for number in range(100):
            async with finalizer(cluster, None, f"{OURS}-{number}"):
                pass
        assert f"{OURS}-0" in state_of(cluster).finalizers
        assert len(state_of(cluster).finalizers) == 64
