"""Tables of shared values: one copy of each text, bounded, counted, and honest about failures.

The labels of the objects that one codec decodes are such a table.
"""

from __future__ import annotations

import json
from typing import Any

from pyinformer.objects import (
    GroupVersionResource,
    InternStatistics,
    KubeObject,
    Labels,
    ObjectCodec,
)

_ENTRIES = 65_536
_TABLE_BYTES = 4 << 20
_TEXT_BYTES = 2 << 10


class Bench:
    """A codec of pods."""

    def __init__(self) -> None:
        self._codec: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("v1", "pods"))

    def decode(self, labels: str) -> KubeObject[Any]:
        """Decode a pod with labels, which are JSON."""
        head = '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":'
        text = f"{head}{labels}}}}}".encode()
        return self._codec.decode(text, 0, len(text))

    def labels(self, labels: str) -> Labels:
        """Return the labels of such a pod."""
        obj = self.decode(labels)
        assert not obj.problem
        return obj.metadata.labels

    @property
    def table(self) -> InternStatistics:
        """The counters of the table of labels."""
        return self._codec.statistics()["labels"]


def test_the_same_text_is_the_same_value() -> None:
    bench = Bench()
    first = bench.labels('{"a":"1"}')
    assert bench.labels('{"a":"1"}') is first
    other = bench.labels('{ "a":"1"}')
    assert other == first
    assert other is not first
    assert bench.table == InternStatistics(entries=2, misses=2, clears=0, held_bytes=19)


def test_a_full_table_starts_over_and_its_values_stay_usable() -> None:
    bench, count = Bench(), _ENTRIES + 10
    held = [bench.labels(json.dumps({"a": str(number)})) for number in range(count)]
    assert held == [{"a": str(number)} for number in range(count)]
    assert (bench.table.entries, bench.table.misses, bench.table.clears) == (10, count, 1)
    assert bench.labels('{"a": "1"}') == {"a": "1"}


def test_a_text_that_cannot_be_decoded_is_not_stored() -> None:
    bench = Bench()
    for _ in range(2):
        assert bench.decode('{"a":[1]}').problem
    assert bench.table == InternStatistics(entries=0, misses=0, clears=0)


def test_a_table_is_bounded_in_bytes() -> None:
    bench, text, before = Bench(), "", 0
    for number in range(2 * _TABLE_BYTES // _TEXT_BYTES):
        text = json.dumps({"a": f"{number:04}".ljust(_TEXT_BYTES - len('{"a": ""}'), "x")})
        bench.labels(text)
        now = bench.table
        assert now.held_bytes == now.entries * _TEXT_BYTES <= _TABLE_BYTES
        assert now.entries == (before + 1 if before * _TEXT_BYTES < _TABLE_BYTES else 1)
        before = now.entries
    assert len(text) == _TEXT_BYTES
    assert bench.table.clears == 1


def test_a_long_text_is_decoded_and_not_kept() -> None:
    bench = Bench()
    long = json.dumps({"a": "1" + "x" * _TEXT_BYTES})
    first = bench.labels(long)
    assert first == json.loads(long)
    assert bench.labels(long) is not first
    assert bench.table == InternStatistics(entries=0, misses=2, clears=0)
