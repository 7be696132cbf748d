"""One of several equal shares of all objects, by a hash of the uid, as API servers compute it.

A uid never changes, so an object is in the same share from its creation to its deletion.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self, final

_BITS: Final = 64
_MASK: Final = (1 << _BITS) - 1
_OFFSET_BASIS: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3


@final
@dataclass(frozen=True, slots=True)
class UidRange:
    """The share with an index, of a number of shares.

    Source:
        KEP-5866; apimachinery pkg/sharding.
    """

    index: int
    """From 0 on."""
    total: int

    @property
    def start(self) -> int:
        """The least hash in it."""
        return (self.index << _BITS) // self.total

    @property
    def end(self) -> int:
        """The least hash behind it."""
        return (self.index + 1 << _BITS) // self.total

    @property
    def selector(self) -> str:
        """The value of the parameter `shardSelector` of lists and watches."""
        return f"shardRange(object.metadata.uid, '0x{self.start:016x}', '0x{self.end:016x}')"

    @classmethod
    def of(cls, uid: str, total: int) -> Self:
        """Return the one of `total` shares that an object with this uid is in."""
        return cls((uid_hash(uid) + 1) * total - 1 >> _BITS, total)

    def has(self, uid: str) -> bool:
        """Return whether an object with this uid is in it."""
        return self.start <= uid_hash(uid) < self.end

    def __str__(self) -> str:
        return f"shard {self.index} of {self.total}"


def uid_hash(uid: str) -> int:
    """Return the hash of a uid: FNV-1a with 64 bits."""
    value = _OFFSET_BASIS
    for byte in uid.encode(errors="backslashreplace"):
        value = (value ^ byte) * _PRIME & _MASK
    return value
