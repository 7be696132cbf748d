"""Informers of a share of the objects: the same, whether the server filters or ignores that."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer.cache.informer import informer_in_range
from pyinformer.objects import UidRange
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import HURRIED, Notes, cluster_of, listed, pod
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pyinformer.cache.informer import SharedInformer

_SHARES = 3
_PODS = 30


@pytest.fixture(params=[False, True], ids=["ignored", "followed"])
def server(request: pytest.FixtureRequest) -> Iterator[APIServer]:
    """A server that ignores the parameter, and one that follows it."""
    with APIServer(shard_selectors=request.param, bookmark_interval_seconds=0.5) as server:
        for number in range(_PODS):
            server.create(pod(f"p{number}"))
        yield server


@asynccontextmanager
async def _shares(
    server: APIServer, *, use_watch_list: bool = True, page_size: int = 4
) -> AsyncIterator[list[tuple[SharedInformer[None], Notes]]]:
    """Run an informer of each share, with a handler that notes events."""
    options = replace(HURRIED, use_watch_list=use_watch_list, page_size=page_size)
    async with cluster_of(server) as cluster, AsyncExitStack() as stack:
        found = []
        factory = pyinformer.SharedInformerFactory(cluster, options=options)
        for index in range(_SHARES):
            informer: SharedInformer[None] = informer_in_range(
                factory, "v1", "pods", uid_range=UidRange(index, _SHARES)
            )
            notes = Notes()
            informer.add_event_handler(notes)
            found.append((informer, notes))
        await stack.enter_async_context(factory)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=30)
        yield found


def _cached(informer: SharedInformer[None]) -> dict[str, tuple[str, str]]:
    return {
        obj.key: (obj.metadata.uid, obj.metadata.resource_version) for obj in informer.lister.list()
    }


async def _until_shared(
    server: APIServer, shares: list[tuple[SharedInformer[None], Notes]]
) -> None:
    """Wait until the caches are those of the server, and each object is in one of them."""

    def is_shared() -> bool:
        caches = [_cached(informer) for informer, _ in shares]
        together = {key: of for cache in caches for key, of in cache.items()}
        is_disjoint = sum(map(len, caches)) == len(together)
        mirrors = [notes.mirror for _, notes in shares]
        return is_disjoint and together == listed(server) and mirrors == caches

    await until(is_shared)
    assert [notes.faults for _, notes in shares] == [[]] * len(shares)


@pytest.mark.parametrize("use_watch_list", [False, True], ids=["list", "watch-list"])
async def test_each_object_is_in_one_cache(server: APIServer, *, use_watch_list: bool) -> None:
    async with _shares(server, use_watch_list=use_watch_list) as shares:
        await _until_shared(server, shares)
        assert all(_cached(informer) for informer, _ in shares)


@pytest.mark.parametrize("use_watch_list", [False, True], ids=["list", "watch-list"])
async def test_changes_reach_one_cache(server: APIServer, *, use_watch_list: bool) -> None:
    async with _shares(server, use_watch_list=use_watch_list) as shares:
        for number in range(0, _PODS, 2):
            server.update(pod(f"p{number}", node="n1"))
        for number in range(0, _PODS, 3):
            server.delete("v1", "pods", f"p{number}")
        for number in range(_PODS, _PODS + 10):
            server.create(pod(f"p{number}"))
        await _until_shared(server, shares)
        deleted = [one for _, notes in shares for one in notes.heard if one.startswith("delete")]
        assert len(deleted) == _PODS / 3


async def test_a_name_that_is_used_again_may_change_its_share(server: APIServer) -> None:
    async with _shares(server) as shares:
        for _ in range(8):
            server.delete("v1", "pods", "p1")
            server.create(pod("p1"))
            await _until_shared(server, shares)
        had = [notes for _, notes in shares if "add default/p1" in notes.heard]
        assert len(had) > 1


@pytest.mark.parametrize("keep_history", [False, True], ids=["relist", "resume"])
async def test_what_a_restart_hid_is_found(server: APIServer, *, keep_history: bool) -> None:
    async with _shares(server) as shares:
        await _until_shared(server, shares)
        server.restart(keep_history=keep_history)
        for number in range(0, _PODS, 2):
            server.delete("v1", "pods", f"p{number}")
        server.create(pod("p0"))
        await _until_shared(server, shares)


async def test_what_others_have_and_bookmarks_move_the_position(server: APIServer) -> None:
    """A filter that drops control events has an old position, and lists again after each break."""
    async with _shares(server) as shares:
        await _until_shared(server, shares)
        newest = int(server.update(pod("p0", node="n2"))["metadata"]["resourceVersion"])
        await until(
            lambda: all(int(one.observed_resource_version or "0") >= newest for one, _ in shares)
        )
        loads = [one.status().reflector.loads for one, _ in shares]
        server.drop_connections()
        server.update(pod("p1", node="n2"))
        await _until_shared(server, shares)
        assert [one.status().reflector.loads for one, _ in shares] == loads


async def test_an_audit_compares_with_the_share(server: APIServer) -> None:
    async with _shares(server) as shares:
        for informer, _ in shares:
            report = await informer.audit(timeout_seconds=30)
            assert report.verdict == "consistent", report
            assert report.checked == len(informer.lister.list())


async def test_a_share_without_objects_is_loaded_once() -> None:
    """What others have shows that the watch-list was answered, so no list has to confirm it."""
    with APIServer() as server:
        server.create(pod("p0"))
        async with _shares(server) as shares:
            await _until_shared(server, shares)
        assert not [one for one in server.requests if one.verb == "list"]


async def test_a_server_that_refuses_the_parameter_holds_up_no_start(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.faults.add(Fault(parameter="shardSelector", status=400, times=None))
    async with _shares(server) as shares:
        await _until_shared(server, shares)
        server.update(pod("p0", node="n1"))
        await _until_shared(server, shares)
    lines = [one.getMessage() for one in caplog.records if "shardSelector" in one.getMessage()]
    assert len(lines) == _SHARES


async def test_the_parameter_is_in_each_page(server: APIServer) -> None:
    async with _shares(server, use_watch_list=False):
        pass
    reads = [one for one in server.requests if one.verb in {"list", "watch"}]
    pages = [one for one in reads if "continue" in one.query]
    assert pages
    assert all("shardSelector" in one.query for one in pages)
    assert any("shardSelector" in one.query for one in reads if one.verb == "watch")


async def test_explain_says_that_another_share_has_it(server: APIServer) -> None:
    async with _shares(server) as shares:
        others = [one for one, _ in shares if one.lister.get("default/p1") is None]
        assert len(others) == _SHARES - 1
        found = str(await others[0].explain_live("default/p1"))
        assert "its uid is not in shard" in found
