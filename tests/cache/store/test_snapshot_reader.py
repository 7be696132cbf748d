"""Every read is one moment: the cache as it was at some time between the call and its return.

Both sides are stepped bytecode by bytecode, so that no interleaving depends on chance. Between any
two bytecodes of a writer, all reads together show the state before the change or the one after it.
Between bytecodes of a reader something is written, and what the reader returns is one of the states
that existed meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyinformer.cache.store import Indexer, JointIndexer, Lister, Overlay, OverlayEntries
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated
from tests.cache.store.label_limits import lower_limits
from tests.cache.store.written import node_of, record
from tests.soak import examples

_NODES = ("n1", "n2", "n3")
_NAMESPACES = ("a", "b")
_KEYS = tuple(f"{namespace}/{name}" for namespace in _NAMESPACES for name in "xyz")

Shown = dict[str, KubeObject[Any]]
Answer = tuple[tuple[str, str], ...] | tuple[str, ...]


def _answer(objects: list[KubeObject[Any]]) -> Answer:
    return tuple(sorted((obj.key, obj.metadata.resource_version) for obj in objects))


READS: dict[str, tuple[Callable[[Lister[Any]], Answer], Callable[[Shown], Answer]]] = {
    "list": (
        lambda lister: _answer(lister.list()),
        lambda shown: _answer([*shown.values()]),
    ),
    "keys": (
        lambda lister: tuple(sorted(lister.keys())),
        lambda shown: tuple(sorted(shown)),
    ),
    "namespace": (
        lambda lister: _answer(lister.namespace("a").list()),
        lambda shown: _answer([obj for obj in shown.values() if obj.metadata.namespace == "a"]),
    ),
    "by_index": (
        lambda lister: _answer(lister.by_index("node", "n1")),
        lambda shown: _answer([obj for obj in shown.values() if node_of(obj) == "n1"]),
    ),
    "selector": (
        lambda lister: _answer(lister.list(label_selector="node=n1")),
        lambda shown: _answer([obj for obj in shown.values() if node_of(obj) == "n1"]),
    ),
    "selector of two values": (
        lambda lister: _answer(lister.list(label_selector="node in (n1,n3)")),
        lambda shown: _answer([obj for obj in shown.values() if node_of(obj) != "n2"]),
    ),
    "selector in a namespace": (
        lambda lister: _answer(lister.namespace("a").list(label_selector="node=n1")),
        lambda shown: _answer(
            [obj for obj in shown.values() if obj.key[0] == "a" and node_of(obj) == "n1"]
        ),
    ),
    "index_values": (
        lambda lister: tuple(sorted(lister.index_values("node"))),
        lambda shown: tuple(sorted({node_of(obj) for obj in shown.values()})),
    ),
    "get": (
        lambda lister: _answer([obj for obj in [lister.get("a/x")] if obj is not None]),
        lambda shown: _answer([obj for key, obj in shown.items() if key == "a/x"]),
    ),
}


@pytest.fixture(autouse=True, scope="module")
def _label_indexes_from_the_first_read() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        lower_limits(patch)
        yield


class World:
    """One cache or two that are read as one, and what a reader should see of them."""

    def __init__(self, *, is_joint: bool) -> None:
        self.version = 0
        self.position = 0
        self.stored: Shown = {}
        self.written: Shown = {}
        """Own writes that the cache has not received."""
        entries: OverlayEntries[Any] = OverlayEntries()
        self.caches: dict[str, Indexer[Any]] = {}
        self.overlays: dict[str, Overlay[Any]] = {}
        for name in _NAMESPACES if is_joint else ("",):
            cache: Indexer[Any] = Indexer()
            cache.add_index("node", node_of)
            self.caches[name] = cache
            self.overlays[name] = Overlay(cache.get, lambda: str(self.position), shown=entries)
        whole = JointIndexer(self.caches) if is_joint else self.caches[""]
        self.lister: Lister[Any] = Lister(whole, resource="pods", written=entries)

    @property
    def shown(self) -> Shown:
        """What a reader should see."""
        return {**self.stored, **self.written}

    def _of(self, key: str) -> str:
        return key.partition("/")[0] if len(self.caches) > 1 else ""

    def _new(self, key: str, node: str) -> KubeObject[Any]:
        self.version += 1
        return record(key, key, self.version, node)

    def apply(self, event: Event[Any]) -> None:
        """Take an event, as the informer's sink does."""
        name = self._of(event.key)
        self.caches[name].apply_nowait(event)
        self.overlays[name].observe(event)
        self.position = self.version

    def put(self, key: str, node: str) -> None:
        """Add or update an object."""
        if key in self.written:
            self.receive(key)
            return
        new = self._new(key, node)
        old = self.stored.get(key)
        self.stored[key] = new
        self.apply(Added(new) if old is None else Updated(old, new))

    def delete(self, key: str, node: str) -> None:
        """Delete an object."""
        del node
        old = None if key in self.written else self.stored.pop(key, None)
        if old is not None:
            self.version += 1
            self.apply(Deleted(old))

    def write(self, key: str, node: str) -> None:
        """Write an object; its event comes later."""
        new = self._new(key, node)
        self.written[key] = new
        self.overlays[self._of(key)].put(new)

    def receive(self, key: str, node: str = "") -> None:
        """Apply the event of one of its writes."""
        del node
        new, old = self.written.pop(key, None), self.stored.get(key)
        if new is not None:
            self.stored[key] = new
            self.apply(Added(new) if old is None else Updated(old, new))

    def replace(self, key: str, node: str) -> None:
        """Take a complete list, with another object or none under a key.

        It has the own writes, or what was written has been deleted since.
        """
        name = self._of(key)
        found = self.stored if node == "n2" else self.shown
        mine = {one: obj for one, obj in found.items() if self._of(one) == name}
        if node == "n2":
            mine = {one: obj for one, obj in mine.items() if one not in self.written}
        self.written = {one: obj for one, obj in self.written.items() if self._of(one) != name}
        mine.pop(key, None)
        self.version += 1
        if node != "n3":
            mine[key] = self._new(key, node)
        rest = {one: obj for one, obj in self.stored.items() if self._of(one) != name}
        self.stored = {**rest, **mine}
        overlay, version = self.overlays[name], str(self.version)
        for _ in self.caches[name].replace_nowait(
            mine, version, ended_nowait=lambda: overlay.ended_by(mine, version)
        ):
            pass
        self.position = self.version
        overlay.sweep()

    def answers(self) -> dict[str, Answer]:
        """Return what each read should give now."""
        shown = self.shown
        return {name: expected(shown) for name, (_, expected) in READS.items()}

    def read(self) -> dict[str, Answer]:
        """Read in every way."""
        return {name: read(self.lister) for name, (read, _) in READS.items()}


Step = tuple[str, str, str]
_STEPS = st.tuples(
    st.sampled_from(("put", "put", "delete", "write", "receive", "replace")),
    st.sampled_from(_KEYS),
    st.sampled_from(_NODES),
)


def _take(world: World, step: Step) -> None:
    action, key, node = step
    getattr(world, action)(key, node)


@contextmanager
def _at_each_bytecode(action: Callable[[], None]) -> Iterator[None]:
    """Call something before each bytecode of the cache's code that this thread runs."""

    def trace(frame: FrameType, what: str, _argument: object) -> Any:
        if "pyinformer" not in frame.f_code.co_filename or "tests" in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        if what == "opcode":
            sys.settrace(None)
            try:
                action()
            finally:
                sys.settrace(trace)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


_IS_JOINT = pytest.mark.parametrize(
    "is_joint", [pytest.param(False, id="one"), pytest.param(True, id="several")]
)


@_IS_JOINT
@given(steps=st.lists(_STEPS, max_size=8), last=_STEPS)
@example(steps=[("write", "a/x", "n1")], last=("replace", "a/y", "n2"))
@settings(max_examples=examples(30))
def test_within_a_change_all_reads_show_the_state_before_it_or_all_the_one_after(
    steps: list[Step], last: Step, *, is_joint: bool
) -> None:
    world = World(is_joint=is_joint)
    for step in steps:
        _take(world, step)
    before, seen = world.answers(), []
    with _at_each_bytecode(lambda: seen.append(world.read())):
        _take(world, last)
    after = world.answers()

    assert world.read() == after
    assert [answers for answers in seen if answers not in (before, after)] == []
    assert seen == sorted(seen, key=lambda answers: answers == after)  # never back


@_IS_JOINT
@pytest.mark.parametrize("name", READS)
@given(
    steps=st.lists(_STEPS, max_size=6),
    meanwhile=st.lists(st.tuples(st.integers(0, 60), _STEPS), min_size=1, max_size=12),
)
@settings(max_examples=examples(25))
def test_a_read_returns_a_state_that_existed_during_the_read(
    steps: list[Step], meanwhile: list[tuple[int, Step]], name: str, *, is_joint: bool
) -> None:
    world = World(is_joint=is_joint)
    for step in steps:
        _take(world, step)
    states = [world.answers()]
    todo = list(chain.from_iterable([*[None] * pause, step] for pause, step in meanwhile))

    def write() -> None:
        if todo and (step := todo.pop(0)) is not None:
            _take(world, step)
            states.append(world.answers())

    READS[name][0](world.lister)  # makes label indexes
    with _at_each_bytecode(write):
        found = READS[name][0](world.lister)

    assert found in [answers[name] for answers in states]


@pytest.mark.parametrize("read", ["under", "values", "objects"])
def test_a_read_without_room_on_the_stack_raises_and_is_not_repeated(read: str) -> None:
    """RecursionError is a RuntimeError, as is the error of a dict that changes its size."""
    indexer = Indexer[None]()
    reads: dict[str, Callable[[], object]] = {
        "under": lambda: indexer.snapshot_reader.under("namespace", "a", {}),
        "values": lambda: indexer.snapshot_reader.values("namespace", {}),
        "objects": indexer.snapshot_reader.objects,
    }
    outcomes: list[str] = []

    def dive() -> None:
        """Read at each depth from the deepest one upwards, until a read has room."""
        try:
            dive()
        except RecursionError:
            _read()

    def _read() -> None:
        reads[read]()
        outcomes.append("read")

    dive()

    assert outcomes == ["read"]
