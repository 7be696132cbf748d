"""How indexes read paths: together, once for each object, and apart where one of them fails."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.cache.store._index_readers import SharedPaths
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
        self.meanwhile()
        return self.obj.raw


def test_a_path_added_during_a_read_of_another_thread_is_read_correctly() -> None:
    paths = SharedPaths()
    node = paths.reader("spec.nodeName")
    body = pod("a", "n1", status={"phase": "Running"})
    obj: Any = Counted(body, meanwhile=lambda: paths.reader("status.phase"))
    assert node(obj) == "n1"
    phase = paths.reader("status.phase")

    assert (node(obj), phase(obj)) == ("n1", "Running")


def test_the_newest_two_objects_are_remembered_and_no_more() -> None:
    paths = SharedPaths()
    node = paths.reader("spec.nodeName")
    objects: list[Any] = [Counted(pod(name, name)) for name in "abc"]
    a, b, c = objects
    assert [node(obj) for obj in (a, b, a, b)] == ["a", "b"] * 2
    assert (a.reads, b.reads) == (1, 1)
    assert [node(obj) for obj in (c, b, a)] == ["c", "b", "a"]
    assert (a.reads, b.reads, c.reads) == (2, 1, 1)


def test_the_same_path_is_read_once_for_all_who_ask() -> None:
    paths = SharedPaths()
    obj: Any = Counted(pod("a", "n1"))
    readers = [paths.reader("spec.nodeName") for _ in range(10_000)]
    tracemalloc.start()
    assert all(reader(obj) == "n1" for reader in readers)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert obj.reads == 1
    assert kept < len(readers) * 4  # not a reference for each of them; coverage takes some KB


def test_a_value_that_cannot_be_read_fails_each_time_it_is_asked_for() -> None:
    paths = SharedPaths()
    node, phase = paths.reader("spec.nodeName"), paths.reader("status.phase")
    odd = pod("a", "n1", status="text")
    for _ in range(2):
        assert node(odd) == "n1"
        with pytest.raises(ValueError, match="Expected `object"):
            phase(odd)
