"""One copy of what many objects share: label sets, owner references, namespaces.

What enters is the JSON text of a value; what leaves is the decoded, immutable value, the same one
for the same text. The table is bounded: when it is full it is emptied, and the objects that hold
values keep them. Less memory, and less work than decoding again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_MAX_ENTRIES = (
    65_536  # unique values cost memory here: a cluster of unique label sets stays bounded
)


@final
class InternStatistics(Struct, frozen=True, gc=False):
    """How a table of shared values does."""

    entries: int
    misses: int
    clears: int


@final
class InternTable(Generic[T]):
    """Decodes each distinct text once."""

    __slots__ = ("_clears", "_decode", "_max_entries", "_misses", "known")

    def __init__(self, decode: Callable[[bytes], T], *, max_entries: int = _MAX_ENTRIES) -> None:
        self.known: dict[bytes, T] = {}
        self._decode = decode
        self._max_entries = max_entries
        self._misses = 0
        self._clears = 0

    def add(self, text: bytes) -> T:
        """Decode a text that is not known yet.

        Raises:
            msgspec.DecodeError: the text is no such value.
        """
        value = self._decode(text)
        if len(self.known) >= self._max_entries:
            self.known.clear()
            self._clears += 1
        self.known[text] = value
        self._misses += 1
        return value

    def statistics(self) -> InternStatistics:
        """Return the table's size and how often it failed to help."""
        return InternStatistics(len(self.known), self._misses, self._clears)
