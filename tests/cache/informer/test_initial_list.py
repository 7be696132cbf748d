"""The content of a cache on its way to handlers, against a plain dict."""

from __future__ import annotations

import random
import sys
import tracemalloc
from itertools import pairwise

from pyinformer.cache.informer.delivery import CacheContents, Mailbox
from pyinformer.objects import Added, Deleted, KubeObject, Updated
from tests.pods import make

COUNT = 10_000
OBJECTS = [make(f"ns/p{number}") for number in range(COUNT)]


def preloaded(contents: CacheContents[None]) -> Mailbox[None]:
    """Return the mailbox of a handler whose initial list is this."""
    mailbox: Mailbox[None] = Mailbox(size=1)
    mailbox.preload_nowait(contents)
    return mailbox


def take(mailbox: Mailbox[None]) -> KubeObject:
    """Take the next object of the initial list."""
    event = mailbox.take_nowait()
    assert isinstance(event, Added)
    assert event.is_in_initial_list
    return event.object


def change(mailbox: Mailbox[None], old: KubeObject, version: int) -> KubeObject:
    """Report another version of an object; return it."""
    new = make(old.key, resource_version=f"{version}")
    mailbox.put_nowait(Updated(old, new))
    return new


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
    one, other = preloaded(contents), preloaded(contents)
    for obj in OBJECTS[:5_000]:
        assert take(one) is obj
    one.put_nowait(Deleted(OBJECTS[-1]))
    change(one, OBJECTS[9_000], 2)
    assert [take(other) for _ in range(other.depth)] == OBJECTS


def test_nothing_is_allocated_per_object_before_it_is_taken() -> None:
    contents: CacheContents[None] = CacheContents(OBJECTS)
    tracemalloc.start()
    mailbox = preloaded(contents)
    mailbox.put_nowait(Deleted(OBJECTS[-1]))
    change(mailbox, OBJECTS[9_000], 2)
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert mailbox.depth == COUNT - 1
    assert allocated < COUNT


def test_tables_that_every_handler_has_taken_are_released() -> None:
    contents: CacheContents[None] = CacheContents(OBJECTS)
    mailbox, tables = preloaded(contents), contents.tables
    assert [len(table) for table in tables] == [4096, 4096, COUNT - 2 * 4096]
    before = [sys.getrefcount(table) for table in tables]
    for _ in range(5_000):
        take(mailbox)
    after = [sys.getrefcount(table) for table in tables]
    assert [was - now for was, now in zip(before, after, strict=True)] == [1, 1, 0]


def test_takes_changes_and_removals_in_any_order_are_those_of_a_dict() -> None:
    chance = random.Random(7)
    mailbox, model = preloaded(CacheContents(OBJECTS)), {str(obj.key): obj for obj in OBJECTS}
    told: list[KubeObject] = []
    while model:
        key = f"ns/p{chance.randrange(COUNT)}"
        assert mailbox.holds(key) == (key in model)
        assert mailbox.depth == len(model)
        match chance.randrange(4):
            case 0 if key in model:
                model[key] = change(mailbox, model[key], chance.randrange(2, 9))
            case 1 if key in model:
                mailbox.put_nowait(Deleted(model.pop(key)))
            case _:
                first = next(iter(model))
                told.append(take(mailbox))
                assert told[-1] is model.pop(first)
        if len(told) % 1000 == 1:
            assert {obj.key for obj in OBJECTS if mailbox.holds(obj.key)} == model.keys()
    assert mailbox.take_nowait() is None
