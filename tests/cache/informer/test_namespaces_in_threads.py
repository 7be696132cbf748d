"""Readers in other threads while namespaces come and go: an answer is true, or it is an error."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest

from pyinformer import SharedInformer
from pyinformer.errors import CacheNotSyncedError, NotCachedError, StaleCacheError
from tests.cache.informer.clusters import HURRIED, cluster_of, pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyinformer import Lister
    from pyinformer.testing import APIServer

_ROUNDS = 40


@pytest.fixture
def tiny_switch_interval() -> Iterator[None]:
    """Let threads alternate as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _reads(lister: Lister[None], fresh: Lister[None]) -> list[Callable[[], bool]]:
    """Return reads, each of which is true if its answer is."""
    return [
        lambda: lister.get("a/x") is not None,
        lambda: "b/y" in lister,
        lambda: len(lister.namespace("a").list()) == 3,
        lambda: len(lister.namespace("c").list()) == 3,
        lambda: _is_whole([obj.key for obj in lister.list()]),
        lambda: _is_whole(lister.keys()),
        lambda: _is_whole([obj.key for obj in lister.by_index("node", "n")]),
        lambda: _is_whole([obj.key for obj in fresh.list()]),
        lambda: fresh.get("a/x") is not None,
    ]


def _is_whole(found: list[str]) -> bool:
    """Return whether of each namespace there is everything, or nothing."""
    return all(sum(key.startswith(one) for key in found) in {0, 3} for one in "abc")


def _read_until(stop: threading.Event, reads: list[Callable[[], bool]], said: list[str]) -> None:
    while not stop.is_set():
        for number, one in enumerate(reads):
            try:
                said.append("" if one() else f"read {number}")
            except (NotCachedError, CacheNotSyncedError, StaleCacheError):
                continue


@pytest.mark.usefixtures("tiny_switch_interval")
async def test_an_object_that_always_exists_is_in_every_read(apiserver: APIServer) -> None:
    for namespace in "abc":
        for name in "xyz":
            apiserver.create(pod(name, namespace=namespace, node="n"))
    said: list[str] = []
    stop = threading.Event()

    async with cluster_of(apiserver) as cluster:
        pods = SharedInformer(cluster, "v1", "pods", namespaces=["a", "b"], options=HURRIED)
        pods.add_index("node", "spec.nodeName")
        lister = pods.lister
        fresh = lister.fresh(max_age_seconds=60)

        reads = _reads(lister, fresh)
        threads = [threading.Thread(target=_read_until, args=(stop, reads, said)) for _ in range(2)]
        async with pods:
            await pods.wait_for_cache_sync(timeout_seconds=100)
            for thread in threads:
                thread.start()
            try:
                rounds = 0
                while rounds < _ROUNDS // 4 or not said:  # a busy machine may give few turns
                    rounds += 1
                    for wish in ("ab", "b", "bc", "c"):
                        await pods.set_namespaces(list(wish))
                    await pods.wait_for_cache_sync(timeout_seconds=100)
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
    assert set(said) == {""}
