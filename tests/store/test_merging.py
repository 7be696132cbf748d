"""The order of two looks: overlay first, then store, whatever happens between them.

Between the two an event can arrive in another thread. The entries here let it arrive at the worst
moment: when they are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyinformer.apimachinery import Updated
from pyinformer.store import Indexer, Overlay
from pyinformer.store._merging import merged_by_index, merged_get, merged_items
from tests.store.written import node_of, record, version_of

KEY = "default/a"


class Racing(Mapping[str, Any]):
    """The entries of an overlay, whose event arrives just before they are read."""

    def __init__(self) -> None:
        self.store: Indexer[Any] = Indexer()
        self.store.add_index("node", node_of)
        self._old, self._new = record(KEY, "1", 90, "n1"), record(KEY, "1", 105, "n2")
        for _ in self.store.replace_nowait({KEY: self._old}, "100"):
            pass
        self._overlay: Overlay[Any] = Overlay(self.store.get, lambda: "100")
        self._overlay.put(self._new)

    def _hear(self) -> None:
        if self._overlay.entries:
            event = Updated(self._old, self._new)
            self.store.apply_nowait(event)
            self._overlay.observe(event)

    def __getitem__(self, key: str) -> Any:
        self._hear()
        return self._overlay.entries[key]

    def __iter__(self) -> Iterator[str]:
        self._hear()
        return iter(self._overlay.entries)

    def __len__(self) -> int:
        return 1


def test_an_object_does_not_grow_older_while_it_is_read() -> None:
    racing = Racing()
    assert version_of(merged_get(racing.store, racing, KEY)) == 105


def test_a_list_does_not_grow_older_while_it_is_read() -> None:
    racing = Racing()
    assert [version_of(obj) for obj in merged_items(racing.store, racing).values()] == [105]


def test_an_index_does_not_grow_older_while_it_is_read() -> None:
    racing = Racing()
    assert [version_of(obj) for obj in merged_by_index(racing.store, racing, "node", "n2")] == [105]
