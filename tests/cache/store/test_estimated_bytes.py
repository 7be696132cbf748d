"""The size of a cache: exact for few objects, estimated from a bounded sample for many."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from pyinformer.cache.store import Indexer, JointIndexer
from pyinformer.objects import Added, Deleted, GroupVersionKind, KubeObject, ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Iterable

_GVK = GroupVersionKind("", "v1", "Pod")
_MEASURED = 128  # how many objects are measured at most, unless the caller chooses another number


class _Body(bytes):
    """A body that counts how often one is measured."""

    measured = 0

    def __len__(self) -> int:
        _Body.measured += 1
        return bytes.__len__(self)


def sized(key: str, size: int) -> KubeObject:
    """Make an object with a body of so many bytes."""
    namespace, _, name = key.rpartition("/")
    body = _Body(b" " * size)
    return KubeObject(key, ObjectMeta(namespace, name, f"uid-{name}", "1"), None, body, _GVK)


def cache_of(sizes: Iterable[tuple[str, int]]) -> Indexer[None]:
    indexer: Indexer[None] = Indexer()
    for key, size in sizes:
        indexer.apply_nowait(Added(sized(key, size)))
    return indexer


def test_an_empty_cache_has_no_bytes() -> None:
    assert cache_of(()).estimated_bytes() == 0


def test_the_size_of_few_objects_is_exact() -> None:
    sizes = [(f"a/{number}", 100 + number) for number in range(_MEASURED)]
    assert cache_of(sizes).estimated_bytes() == sum(size for _, size in sizes)


@pytest.mark.parametrize("namespaces", [1, 7, 3_000])
def test_a_sample_is_bounded_and_the_estimate_is_near(namespaces: int) -> None:
    """Sizes depend on the namespace, and one namespace has half of all objects."""
    sizes: list[tuple[str, int]] = []
    for number in range(9_000):
        place = 0 if number % 2 else number % namespaces
        sizes.append((f"n{place}/{number}", 1_000 if place % 3 else 300))
    indexer, exact = cache_of(sizes), sum(size for _, size in sizes)
    _Body.measured = 0
    assert indexer.estimated_bytes() == pytest.approx(exact, rel=0.1)
    assert _MEASURED - 1 <= _Body.measured <= _MEASURED + 1


def test_the_oldest_and_the_newest_objects_are_measured() -> None:
    indexer = cache_of((f"a/{number}", 100 if number < 5_000 else 900) for number in range(10_000))
    assert indexer.estimated_bytes() == 5_000_000


def test_objects_without_a_namespace_are_measured() -> None:
    assert cache_of((f"node-{number}", 10) for number in range(1_000)).estimated_bytes() == 10_000


def test_several_caches_add_up() -> None:
    caches = {
        name: cache_of((f"{name}/{number}", size) for number in range(count))
        for name, count, size in (("a", 3, 5), ("b", 2_000, 7), ("c", 0, 9))
    }
    assert JointIndexer(caches).estimated_bytes() == 3 * 5 + 2_000 * 7


def test_another_thread_may_measure_while_objects_come_and_go() -> None:
    indexer = cache_of((f"a/{number}", 10) for number in range(2_000))
    done = threading.Event()
    failures: list[BaseException] = []

    def measure() -> None:
        while not done.is_set():
            try:
                assert 0 < indexer.estimated_bytes() <= 3_000 * 10
            except BaseException as error:
                failures.append(error)
                return

    reader = threading.Thread(target=measure)
    reader.start()
    for round_ in range(20):
        for number in range(500):
            indexer.apply_nowait(Added(sized(f"b{round_}/{number}", 10)))
        for number in range(500):
            indexer.apply_nowait(Deleted(sized(f"b{round_}/{number}", 10)))
    done.set()
    reader.join()
    assert not failures
