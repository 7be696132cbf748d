"""One copy of values that many objects share: label sets, owner references, namespaces.

A table maps a JSON text to its decoded, immutable value. It is bounded in entries and bytes: a full
table is emptied, and the objects keep their values. Long texts are decoded and not kept: a tenant
can write any number of long, unique ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# Unique values cost memory here, so a cluster of unique label sets has to stay bounded.
_MAX_ENTRIES = 65_536
MAX_TEXT_BYTES: Final = 2 << 10
"""A longer text is not kept: those of many objects that share one have some 300 bytes."""
MAX_TABLE_BYTES: Final = 4 << 20
"""Of texts in one table. The values take up to eight times as much: short texts, many objects."""


@final
class InternStatistics(Struct, frozen=True, gc=False):
    """Counters of a table of shared values."""

    entries: int
    misses: int
    """How often a text was not in the table."""
    clears: int
    """How often a full table was emptied."""
    held_bytes: int = 0
    """The size of the texts; the values take as much again, or a few times as much."""


@final
class InternTable(Generic[T]):
    """Decodes each distinct text once."""

    __slots__ = ("_bytes", "_clears", "_decode", "_max_bytes", "_max_entries", "_misses", "known")

    def __init__(
        self,
        decode: Callable[[bytes], T],
        *,
        max_entries: int = _MAX_ENTRIES,
        max_bytes: int = MAX_TABLE_BYTES,
    ) -> None:
        self.known: dict[bytes, T] = {}
        self._decode = decode
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._bytes = 0
        self._misses = 0
        self._clears = 0

    def add(self, text: bytes) -> T:
        """Decode a text that is not known yet, and keep the value unless the text is long.

        Raises:
            msgspec.DecodeError: the text is not such a value.
        """
        value = self._decode(text)
        self._misses += 1
        size = len(text)
        if size > MAX_TEXT_BYTES:
            return value
        if len(self.known) >= self._max_entries or self._bytes + size > self._max_bytes:
            self.known.clear()
            self._bytes = 0
            self._clears += 1
        self.known[text] = value
        self._bytes += size
        return value

    def statistics(self) -> InternStatistics:
        """Return the table's size and how often a text was not in it."""
        return InternStatistics(len(self.known), self._misses, self._clears, self._bytes)
