"""What verifies showed: the state of single keys, read beyond the position.

What a list of one key shows enters, with the list's resource version; whether an event is from
before that leaves. A reading is of use until the
position reaches it: from there on the stream itself vouches for what is cached. Bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import final

from msgspec import Struct

from pyinformer.apimachinery import older

_MAX_READINGS = 1_000  # a verify is rare; what is forgotten is verified again
_MAX_KEY_LENGTH = 2_048  # a Role's name has no limit; a longer key is verified again


@final
class Reading(Struct, frozen=True):
    """What a verify showed of one key."""

    version: str
    """The object's; empty if there was none."""
    read_at: str
    """The list's: the key's state is known up to here, however far the stream is."""
    is_source: bool
    """What is cached came from here, and from no list or watch."""


@final
class Readings:
    """The readings beyond the position, by key."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: OrderedDict[str, Reading] = OrderedDict()

    def note(self, key: str, reading: Reading) -> None:
        """Keep what a verify showed."""
        self._by_key.pop(key, None)
        if len(key) > _MAX_KEY_LENGTH:
            return
        self._by_key[key] = reading
        if len(self._by_key) > _MAX_READINGS:
            self._by_key.popitem(last=False)

    def cover(self, key: str, version: str) -> bool:
        """Tell whether a key was read at this version or later."""
        reading = self._by_key.get(key) if self._by_key else None
        return reading is not None and not older(reading.read_at, version)

    def is_source(self, key: str, version: str) -> bool:
        """Tell whether this cached version came from a verify, and from nothing else yet."""
        reading = self._by_key.get(key) if self._by_key else None
        return reading is not None and reading.is_source and reading.version == version

    def beyond(self, version: str) -> dict[str, Reading]:
        """Return what was read after a version, by key."""
        return {key: one for key, one in self._by_key.items() if older(version, one.read_at)}

    def reached(self, position: str) -> None:
        """Forget what the position has reached."""
        if self._by_key:
            self._by_key = OrderedDict(self.beyond(position))

    def clear(self) -> None:
        """Forget everything."""
        self._by_key.clear()
