"""Reads from other threads while the cache is written: each one is a moment that existed.

One thread moves, deletes and recreates objects and replaces whole lists, as fast as it can, with
a switch of threads every ten microseconds. Others read, and check each answer by itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from pyinformer.cache.store import Indexer
from pyinformer.objects import (
    Added,
    Deleted,
    GroupVersionKind,
    KubeObject,
    Labels,
    ObjectMeta,
    Updated,
)
from tests.cache.store.objects import PodView, Spec, pod
from tests.soak import in_soak

_WRITES = 8_000
_READS = 1_000
_READERS = 2
_TURNS = in_soak(2_000, otherwise=600)
_MOVERS = [f"default/m{number}" for number in range(24)]
_STEADY = [f"default/s{number}" for number in range(6)]  # updated all the time, never moved
_NODES = [f"n{number}" for number in range(4)]
_KIND = GroupVersionKind("", "v1", "Pod")
_LIST_EVERY = 400


@pytest.fixture
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def _labels_of(obj: KubeObject[Any]) -> list[str]:
    return list(obj.metadata.labels.values())


class Writer:
    """Changes a cache at random; every version it writes is newer than all before."""

    def __init__(self, store: Indexer[Any]) -> None:
        self._store = store
        self._random = Random(7)
        self._version = 0
        self._objects: dict[str, KubeObject[Any]] = {}
        self.list()

    def run(self) -> None:
        """Write; may be called again."""
        for number in range(1, _WRITES):
            self.list() if number % _LIST_EVERY == 0 else self.change()

    def change(self) -> None:
        """Apply one event."""
        key = self._random.choice(_MOVERS if self._random.random() < 0.8 else _STEADY)
        old = self._objects.get(key)
        if old is None:
            self._objects[key] = self._new(key)
            self._store.apply_nowait(Added(self._objects[key]))
        elif key in _MOVERS and self._random.random() < 0.2:
            self._store.apply_nowait(Deleted(self._objects.pop(key)))
        else:
            self._objects[key] = self._new(key)
            self._store.apply_nowait(Updated(old, self._objects[key]))

    def list(self) -> None:
        """Hand over a complete list: some objects changed, some appeared, some are gone."""
        keys = [*_STEADY, *(key for key in _MOVERS if self._random.random() < 0.7)]
        known = self._objects
        self._objects = {
            key: known[key] if key in known and self._random.random() < 0.5 else self._new(key)
            for key in keys
        }
        for _ in self._store.replace_nowait(dict(self._objects), str(self._version)):
            pass

    def _new(self, key: str) -> KubeObject[Any]:
        self._version += 1
        node = _NODES[0] if key in _STEADY else self._random.choice(_NODES)
        others = self._random.choice(_NODES), self._random.choice(_NODES)
        meta = ObjectMeta(
            namespace="default",
            name=key.rpartition("/")[2],
            uid=key,
            resource_version=str(self._version),
            labels=Labels((*"abc", node, *others)),
        )
        return KubeObject(key, meta, PodView(spec=Spec(node_name=node)), b"{}", _KIND)


class Reader(threading.Thread):
    """Reads in every way there is, and keeps what cannot have been."""

    def __init__(self, store: Indexer[Any], seed: int) -> None:
        super().__init__(name=f"reader-{seed}")
        self._store = store
        self._random = Random(seed)
        self._newest: dict[str, int] = {}
        self.stop = threading.Event()
        self.reads = 0
        self.violations: list[str] = []

    def run(self) -> None:
        """Read until stopped."""
        checks = (self._node, self._labels, self._namespace, self._list, self._values)
        try:
            while not self.stop.is_set() and not self.violations:
                self._random.choice(checks)()
                self.reads += 1
        except Exception as error:
            self.violations.append(repr(error))

    def _node(self) -> None:
        self._read_index("node", lambda obj: [obj.view.spec.node_name])

    def _labels(self) -> None:
        self._read_index("labels", _labels_of)

    def _namespace(self) -> None:
        self._read_index("namespace", lambda obj: [obj.metadata.namespace])

    def _read_index(self, name: str, values_of: Any) -> None:
        key = self._random.choice(_MOVERS + _STEADY)
        before = self._store.get(key)
        if before is None:
            return
        value = self._random.choice(values_of(before))
        found = self._store.by_index(name, value)
        after = self._store.get(key)
        if before is after and before not in found:
            self._complain(name, f"{before!r} was there throughout and was not found")
        for obj in found:
            if value not in values_of(obj):
                self._complain(name, f"{obj!r} has no value {value}")
        self._check(name, found)
        if value == _NODES[0] or name == "namespace":
            self._expect_steady(name, found)
        if after is not None:
            self._check("get", [after])

    def _list(self) -> None:
        found = self._store.list()
        self._check("list", found)
        self._expect_steady("list", found)

    def _values(self) -> None:
        if _NODES[0] not in self._store.index_values("node"):
            self._complain("index_values", "a value that always has objects is missing")

    def _check(self, what: str, found: list[KubeObject[Any]]) -> None:
        if len({obj.key for obj in found}) != len(found):
            self._complain(what, "the same key twice")
        for obj in found:
            version = int(obj.metadata.resource_version)
            if version < self._newest.get(obj.key, 0):
                self._complain(what, f"{obj!r} went back in time")
            self._newest[obj.key] = version

    def _expect_steady(self, what: str, found: list[KubeObject[Any]]) -> None:
        missing = set(_STEADY) - {obj.key for obj in found}
        if missing:
            self._complain(what, f"{missing} never left and are missing")

    def _complain(self, what: str, reason: str) -> None:
        self.violations.append(f"{what}: {reason}")


@pytest.mark.covers("client-go tools/cache: TestTransformingInformerRace")
@pytest.mark.usefixtures("_switch_often")
def test_every_read_from_another_thread_is_a_state_that_existed() -> None:
    """Bounded by counts of writes and reads; about a second."""
    store: Indexer[Any] = Indexer(PodView)
    store.add_index("node", "spec.nodeName")
    store.add_index("labels", _labels_of)
    writer = Writer(store)
    readers = [Reader(store, seed) for seed in range(_READERS)]
    for reader in readers:
        reader.start()
    try:
        writer.run()
        # A busy machine may have given the readers few turns.
        while any(reader.reads < _READS and not reader.violations for reader in readers):
            writer.run()
    finally:
        for reader in readers:
            reader.stop.set()
        for reader in readers:
            reader.join()

    assert [reader.violations for reader in readers] == [[]] * _READERS


class BodyReader(threading.Thread):
    """Asks an index that reads bodies, and keeps objects that were found by another's value."""

    def __init__(self, store: Indexer[Any]) -> None:
        super().__init__()
        self._store = store
        self.stop = threading.Event()
        self.wrong: list[str] = []

    def run(self) -> None:
        """Read until stopped: pods on n0 have version 1, those on n1 version 2."""
        while not self.stop.is_set():
            for node, version in (("n0", "1"), ("n1", "2")):
                found = self._store.by_index("node", node)
                if {obj.metadata.resource_version for obj in found} - {version}:
                    self.wrong.append(f"{node}: {found}")


@pytest.mark.soak
@pytest.mark.usefixtures("_switch_often")
def test_values_of_the_body_are_never_taken_for_another_objects() -> None:
    """One decode serves all paths of a cache, and is remembered for the objects of the moment."""
    store: Indexer[Any] = Indexer()
    store.add_index("node", "spec.nodeName")
    pods = [[pod(f"p{p}", f"n{n}", version=n + 1) for n in range(2)] for p in range(4)]
    for first, _ in pods:
        store.apply_nowait(Added(first))
    readers = [BodyReader(store) for _ in range(_READERS)]
    for reader in readers:
        reader.start()
    for turn in range(_TURNS):
        if turn % 200 == 0:
            store.add_index(f"phase-{turn}", f"status.phase{turn}")
        for pair in pods:
            store.apply_nowait(Updated(pair[turn % 2], pair[1 - turn % 2]))
    for reader in readers:
        reader.stop.set()
        reader.join()
    assert [reader.wrong for reader in readers] == [[]] * _READERS
    assert all(index.failures == 0 for index in store.indexes())
