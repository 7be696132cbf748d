"""The content of a cache on its way to handlers, against a plain dict."""

from __future__ import annotations

import random
import sys
import tracemalloc
from itertools import pairwise

from pyinformer.cache.informer.delivery import CacheContents
from pyinformer.cache.informer.delivery._initial_list import InitialList
from pyinformer.objects import KubeObject
from tests.pods import make

COUNT = 10_000
OBJECTS = [make(f"ns/p{number}") for number in range(COUNT)]


def test_contents_are_merged_in_short_steps() -> None:
    contents: CacheContents[None] = CacheContents()
    sizes = [0, *(len(contents) for _ in contents.fill(OBJECTS))]
    assert sizes[-1] == COUNT
    assert max(after - before for before, after in pairwise(sizes)) <= 4096


def test_contents_are_the_objects_in_their_order() -> None:
    contents: CacheContents[None] = CacheContents(OBJECTS)
    assert list(contents) == OBJECTS
    assert OBJECTS[-1] in contents
    assert make("ns/other") not in contents
    assert "ns/p0" not in contents


def test_handlers_take_and_change_the_initial_list_independently() -> None:
    contents: CacheContents[None] = CacheContents(OBJECTS)
    one, other = InitialList(contents), InitialList(contents)
    for obj in OBJECTS[:5_000]:
        assert one.take() is obj
    one.remove(OBJECTS[-1].key)
    one.change(make("ns/p9000", resource_version="2"))
    assert [other.take() for _ in range(len(other))] == OBJECTS


def test_nothing_is_allocated_per_object_before_it_is_taken() -> None:
    contents: CacheContents[None] = CacheContents(OBJECTS)
    removed, changed = OBJECTS[-1].key, make("ns/p9000", resource_version="2")
    tracemalloc.start()
    initial = InitialList(contents)
    initial.remove(removed)
    initial.change(changed)
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(initial) == COUNT - 1
    assert allocated < COUNT


def test_tables_that_every_handler_has_taken_are_released() -> None:
    contents: CacheContents[None] = CacheContents(OBJECTS)
    initial, tables = InitialList(contents), contents.tables
    assert [len(table) for table in tables] == [4096, 4096, COUNT - 2 * 4096]
    before = [sys.getrefcount(table) for table in tables]
    for _ in range(5_000):
        initial.take()
    after = [sys.getrefcount(table) for table in tables]
    assert [was - now for was, now in zip(before, after, strict=True)] == [1, 1, 0]


def test_takes_changes_and_removals_in_any_order_are_those_of_a_dict() -> None:
    chance = random.Random(7)
    initial, model = InitialList(CacheContents(OBJECTS)), {str(obj.key): obj for obj in OBJECTS}
    told: list[KubeObject] = []
    while model:
        key = f"ns/p{chance.randrange(COUNT)}"
        assert (key in initial) == (key in model)
        assert len(initial) == len(model)
        match chance.randrange(4):
            case 0 if key in model:
                model[key] = make(key, resource_version=str(chance.randrange(2, 9)))
                initial.change(model[key])
            case 1 if key in model:
                del model[key]
                initial.remove(key)
            case _:
                first = next(iter(model))
                told.append(initial.take())
                assert told[-1] is model.pop(first)
        if len(told) % 1000 == 1:
            assert initial.keys() == model.keys()
    assert not initial.keys()
