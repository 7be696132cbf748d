"""How indexes read paths: together, once for each object, and apart where one of them fails."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

from pyinformer.cache.store import Indexer
from pyinformer.objects import Added
from tests.cache.store.objects import pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.objects import KubeObject


class Counted:
    """An object that counts how often its body is read."""

    problem = ""

    def __init__(self, obj: KubeObject[Any], *, meanwhile: Callable[[], object] = int) -> None:
        self.obj = obj
        self.meanwhile = meanwhile
        self.reads = 0

    @property
    def raw(self) -> bytes:
        """The body; the reader has begun to read it."""
        self.reads += 1
        meanwhile, self.meanwhile = self.meanwhile, int
        meanwhile()
        return self.obj.raw


def indexed(*names: str) -> Indexer[Any]:
    """Return a cache with indexes by the node, under these names."""
    store: Indexer[Any] = Indexer()
    for name in names:
        store.add_index(name, "spec.nodeName")
    return store


def test_a_path_added_during_a_read_of_another_thread_is_read_correctly() -> None:
    store = indexed("node")
    body = pod("a", "n1", status={"phase": "Running"})
    obj: Any = Counted(body, meanwhile=lambda: store.add_index("phase", "status.phase"))
    assert store.values_of("node", obj) == ("n1",)

    assert store.values_of("node", obj) == ("n1",)
    assert store.values_of("phase", obj) == ("Running",)


def test_the_newest_two_objects_are_remembered_and_no_more() -> None:
    store = indexed("node")
    objects: list[Any] = [Counted(pod(name, name)) for name in "abc"]
    a, b, c = objects

    def read(*some: Any) -> list[str]:
        return [value for one in some for value in store.values_of("node", one)]

    assert read(a, b, a, b) == ["a", "b"] * 2
    assert (a.reads, b.reads) == (1, 1)
    assert read(c, b, a) == ["c", "b", "a"]
    assert (a.reads, b.reads, c.reads) == (2, 1, 1)


def test_the_same_path_is_read_once_for_all_who_ask() -> None:
    names = [str(number) for number in range(3_000)]
    store = indexed(*names)
    obj: Any = Counted(pod("a", "n1"))
    tracemalloc.start()
    assert all(store.values_of(name, obj) == ("n1",) for name in names)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert obj.reads == 1
    assert kept < len(names) * 4  # not a reference for each of them; coverage takes some KB


def test_a_value_that_cannot_be_read_fails_each_time_it_is_asked_for() -> None:
    store = indexed("node")
    store.add_index("phase", "status.phase")
    store.add_index("phase again", "status.phase")
    store.apply_nowait(Added(pod("odd", "n1", status="text")))

    failures = {one.name: one.failures for one in store.indexes()}
    assert failures == {"namespace": 0, "node": 0, "phase": 1, "phase again": 1}
    assert [obj.key for obj in store.by_index("node", "n1")] == ["default/odd"]
