"""Tables of shared values: one copy of each text, bounded, counted, and honest about failures."""

from __future__ import annotations

import msgspec
import pytest

from pyinformer.objects import InternStatistics
from pyinformer.objects._intern import MAX_TEXT_BYTES, InternTable


def lookup(table: InternTable[list[int]], text: bytes) -> list[int]:
    """Look up as the codec does: a get on the table, and `add` for what it does not know."""
    return table.known.get(text) or table.add(text)


def numbers(max_entries: int = 3) -> InternTable[list[int]]:
    """Return a table of lists; lists, so that `is` distinguishes one copy from two."""
    return InternTable(msgspec.json.Decoder(list[int]).decode, max_entries=max_entries)


def test_the_same_text_is_the_same_value() -> None:
    table = numbers()
    first = lookup(table, b"[1]")
    assert lookup(table, b"[1]") is first
    assert lookup(table, b"[ 1]") == first
    assert table.statistics() == InternStatistics(entries=2, misses=2, clears=0, held_bytes=7)


def test_a_full_table_starts_over_and_its_values_stay_usable() -> None:
    table = numbers()
    held = [lookup(table, b"[%d]" % number) for number in range(1, 11)]
    assert held == [[number] for number in range(1, 11)]
    assert table.statistics() == InternStatistics(entries=1, misses=10, clears=3, held_bytes=4)
    assert lookup(table, b"[1]") == [1]


def test_a_text_that_cannot_be_decoded_is_not_stored() -> None:
    table = numbers()
    for _ in range(2):
        with pytest.raises(msgspec.DecodeError):
            table.add(b'["a"]')
    assert table.statistics() == InternStatistics(entries=0, misses=0, clears=0)


def test_a_table_is_bounded_in_bytes() -> None:
    table = InternTable(msgspec.json.Decoder(list[int]).decode, max_bytes=100)
    for number in range(1, 1_000):
        lookup(table, b"[%d]" % number)
        assert table.statistics().held_bytes == sum(map(len, table.known)) <= 100
    assert table.statistics().clears


def test_a_long_text_is_decoded_and_not_kept() -> None:
    table = numbers()
    long = b"[1" + b" " * MAX_TEXT_BYTES + b"]"
    assert lookup(table, long) == [1]
    assert lookup(table, long) is not lookup(table, long)
    assert table.statistics().held_bytes == 0
