"""Own writes read from other threads: no object vanishes or grows older between write and event.

One thread writes, receives its writes later as events, and lists; the others read in every way. A
reader never sees an older state of a key than before, and a key that always exists is always found.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from pyinformer.cache.store import Indexer, Lister, Overlay
from pyinformer.objects import Added, KubeObject, Updated
from tests.cache.store.written import node_of, record, version_of

_WRITES = 15_000
_KEYS = [f"default/k{number}" for number in range(5)]


@pytest.fixture
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Process:
    """A process that writes, and its cache, which receives the events a little later."""

    def __init__(self) -> None:
        self._random = Random(3)
        self._version = 1
        self._late: deque[KubeObject[Any]] = deque()
        self.store: Indexer[Any] = Indexer()
        self.store.add_index("node", node_of)
        self.overlay: Overlay[Any] = Overlay(self.store.get, lambda: str(self.position))
        self.lister: Lister[Any] = Lister(self.store, resource="pods", written=self.overlay.entries)
        self.position = 1
        self.newest = {key: record(key, key, 1) for key in _KEYS}
        self._list()

    def run(self) -> None:
        """Write, and receive the events; may be called again."""
        for _ in range(_WRITES):
            chance = self._random.random()
            if chance < 0.5:
                self._write()
            elif chance < 0.99:
                self._hear()
            else:
                self._list()

    def _write(self) -> None:
        key = self._random.choice(_KEYS)
        self._version += 1
        written = record(key, key, self._version, self._random.choice(["n1", "n2"]))
        self.newest[key] = written
        self._late.append(written)
        self.overlay.put(written)

    def _hear(self) -> None:
        if not self._late:
            return
        new = self._late.popleft()
        old = self.store.get(new.key)
        event = Added(new) if old is None else Updated(old, new)
        self.store.apply_nowait(event)
        self.overlay.observe(event)
        self.position = version_of(new)

    def _list(self) -> None:
        self._late.clear()
        for _ in self.store.replace_nowait(dict(self.newest), str(self._version)):
            pass
        self.position = self._version
        self.overlay.sweep()


class Reader:
    """Reads again and again, and notes what no reader may see."""

    def __init__(self, process: Process, ended: threading.Event) -> None:
        self._lister = process.lister
        self._ended = ended
        self._seen = dict.fromkeys(_KEYS, 0)
        self.faults: list[str] = []
        self.rounds = 0

    def run(self) -> None:
        """Read until the writer has ended."""
        lister = self._lister
        while not self._ended.is_set() and not self.faults:
            self.rounds += 1
            for key in _KEYS:
                self._check(key, lister.get(key))
            for what, found in (
                ("list", lister.list()),
                ("namespace", lister.namespace("default").list()),
            ):
                by_key = {str(obj.key): obj for obj in found}
                if len(by_key) != len(found):
                    self.faults.append(f"{what}: twice")
                for key in _KEYS:
                    self._check(f"{key}", by_key.get(key))
            if sorted(lister.keys()) != _KEYS:
                self.faults.append("keys")
            for node in ("n1", "n2"):
                for obj in lister.by_index("node", node):
                    if node_of(obj) != node:
                        self.faults.append(f"{obj} is not on {node}")
                    self._check(obj.key, obj)

    def _check(self, key: str, seen: KubeObject[Any] | None) -> None:
        if version_of(seen) < self._seen[key]:
            self.faults.append(f"{key}: {version_of(seen)} after {self._seen[key]}")
        self._seen[key] = max(self._seen[key], version_of(seen))


@pytest.mark.usefixtures("_switch_often")
def test_no_reader_sees_an_older_state_than_it_saw_before() -> None:
    process, ended = Process(), threading.Event()
    readers = [Reader(process, ended) for _ in range(2)]
    threads = [threading.Thread(target=reader.run) for reader in readers]
    for thread in threads:
        thread.start()
    try:
        process.run()
        # A busy machine may have given the readers few turns.
        while any(reader.rounds <= 10 and not reader.faults for reader in readers):
            process.run()
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert [fault for reader in readers for fault in reader.faults] == []
