"""Reads of several objects while another thread writes one after the other, in a fixed order.

Each round updates all objects in turn. So at every moment the versions that a read may see are
those of one round for the first objects, and those of the round before for the others.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyinformer.cache.store import Indexer, JointIndexer, Lister, Overlay, OverlayEntries
from pyinformer.objects import KubeObject
from tests.cache.store.written import node_of, record, version_of

_ROUNDS = 60
_OBJECTS = 200
_READERS = 2


@pytest.fixture(autouse=True)
def _switch_all_the_time() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Rounds:
    """A cache for each namespace, all written in rounds."""

    def __init__(self, namespaces: int) -> None:
        names = [f"ns{number}" for number in range(namespaces)]
        self.caches: dict[str, Indexer[Any]] = {name: Indexer() for name in names}
        self._keys = [f"{names[n % namespaces]}/{n:04}" for n in range(_OBJECTS)]
        self._objects = {key: record(key, key, 1) for key in self._keys}
        for name, cache in self.caches.items():
            cache.add_index("node", node_of)
            mine = {k: obj for k, obj in self._objects.items() if k.startswith(f"{name}/")}
            for _ in cache.replace_nowait(mine, "1"):
                pass
        whole = JointIndexer(self.caches) if namespaces > 1 else self.caches[names[0]]
        self.written: OverlayEntries[Any] = OverlayEntries()
        self._first = self._keys[0]
        self._version = 1
        self._overlay: Overlay[Any] = Overlay(whole.get, lambda: "1", shown=self.written)
        self.lister: Lister[Any] = Lister(whole, resource="pods", written=self.written)

    def run(self, *, own_writes: bool) -> None:
        """Write all rounds; may be called again."""
        for _ in range(_ROUNDS):
            self._version += 1
            for key in self._keys:
                new = record(key, key, self._version)
                if own_writes and key == self._first:  # shown by the overlay, without an event
                    self._overlay.put(new)
                else:
                    cache = self.caches[key.partition("/")[0]]
                    cache.update_nowait(self._objects[key], new)
                    self._objects[key] = new

    def fault(self, found: list[KubeObject[Any]]) -> str:
        """Return what shows that a read was not of one moment."""
        by_key = {str(obj.key): version_of(obj) for obj in found}
        if len(found) != _OBJECTS or len(by_key) != _OBJECTS:
            return f"{len(found)} objects"
        versions = [by_key[key] for key in self._keys]
        is_falling = versions == sorted(versions, reverse=True)
        return "" if is_falling and versions[0] - versions[-1] <= 1 else f"{versions}"


def _read(
    read: Callable[[], list[KubeObject[Any]]],
    rounds: Rounds,
    stop: threading.Event,
    faults: list[str],
    has_read: threading.Event,
) -> None:
    while not stop.is_set() and not faults:
        if fault := rounds.fault(read()):
            faults.append(fault)
        has_read.set()


@pytest.mark.covers("client-go tools/cache: TestTransformingInformerRace")
@pytest.mark.parametrize("own_writes", [False, True], ids=["events", "own writes"])
@pytest.mark.parametrize(
    ("namespaces", "what"),
    [
        pytest.param(1, "list", id="list"),
        pytest.param(1, "by_index", id="index"),
        pytest.param(1, "namespace", id="namespace"),
        pytest.param(20, "list", id="list of 20 namespaces"),
        pytest.param(20, "by_index", id="index of 20 namespaces"),
    ],
)
def test_every_read_is_of_one_moment(namespaces: int, what: str, *, own_writes: bool) -> None:
    rounds = Rounds(namespaces)
    lister = rounds.lister
    reads: dict[str, Callable[[], list[KubeObject[Any]]]] = {
        "list": lister.list,
        "by_index": lambda: lister.by_index("node", "n1"),
        "namespace": lister.namespace("ns0").list,
    }
    faults: list[str] = []
    have_read = [threading.Event() for _ in range(_READERS)]
    stop = threading.Event()
    threads = [
        threading.Thread(target=_read, args=(reads[what], rounds, stop, faults, one))
        for one in have_read
    ]
    for thread in threads:
        thread.start()
    try:
        rounds.run(own_writes=own_writes)
        # A busy machine may have given the readers no turn.
        while not (faults or all(one.is_set() for one in have_read)):
            rounds.run(own_writes=own_writes)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert faults == []
