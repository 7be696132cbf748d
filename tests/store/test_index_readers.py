"""How indexes read paths: together, once for each object, and apart where one of them fails."""

from __future__ import annotations

import pytest

from pyinformer.store._index_readers import SharedPaths
from tests.store.objects import pod


def test_a_path_added_during_a_read_of_another_thread_is_read_correctly() -> None:
    obj, paths = pod("a", "n1", status={"phase": "Running"}), SharedPaths()
    node = paths.reader("spec.nodeName")
    node(obj)
    left_behind = paths._recent  # as a thread writes it that began before the next line
    phase = paths.reader("status.phase")
    paths._recent = left_behind

    assert (node(obj), phase(obj)) == ("n1", "Running")


def test_the_newest_two_objects_are_remembered_and_no_more() -> None:
    objects, paths = [pod(name, name) for name in "abc"], SharedPaths()
    node = paths.reader("spec.nodeName")
    assert [node(obj) for obj in (*objects, *objects)] == ["a", "b", "c"] * 2
    assert len(paths._recent) == 2


def test_the_same_path_is_read_once_for_all_who_ask() -> None:
    paths = SharedPaths()
    obj = pod("a", "n1")
    readers = [paths.reader("spec.nodeName") for _ in range(3)]
    assert [reader(obj) for reader in readers] == ["n1"] * 3
    assert len(paths._recent[0][1]) == 1


def test_a_value_that_cannot_be_read_fails_each_time_it_is_asked_for() -> None:
    paths = SharedPaths()
    node, phase = paths.reader("spec.nodeName"), paths.reader("status.phase")
    odd = pod("a", "n1", status="text")
    for _ in range(2):
        assert node(odd) == "n1"
        with pytest.raises(ValueError, match="Expected `object"):
            phase(odd)
