"""A buffer of recorded watch lines, which is reused after it is written.

A line is copied once. All lines of a buffer are searched for secrets at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, final

_Find = Callable[[bytes, int], int]
"""Returns the first place of a text at or after an offset; -1 if it does not occur."""

LINE_FIELD: Final = b'"line":'
"""The name of the last field of a recorded line, whose value is what the server sent."""

_AFTER: Final = b"}\n\0"  # the NUL is where the search ends, and is not written


@final
class LineBuffer:
    """Holds lines of the file until they are written. One thread uses it at a time.

    Args:
        capacity_bytes: how much it can hold.
    """

    __slots__ = (
        "_bytes",
        "_find",
        "_has_nul",
        "_view",
        "capacity_bytes",
        "lines",
        "size_bytes",
        "text_bytes",
    )

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes: int = capacity_bytes
        self.size_bytes: int = 0
        self.text_bytes: int = 0
        """The size of what the server sent."""
        self.lines: int = 0
        self._has_nul: bool | None = None
        """Whether a line has a NUL byte; None until a search needs to know."""
        self._bytes = bytearray(capacity_bytes + 1)
        self._view = memoryview(self._bytes)
        self._find = _finder(self._bytes)

    @property
    def content(self) -> memoryview:
        """All lines, with their line ends; valid until the next change."""
        return self._view[: self.size_bytes]

    def add(self, head: bytes, data: bytes | bytearray, start: int, end: int) -> bool:
        """Add a line whose last field is `data[start:end]`; return False if it does not fit."""
        begin = self.size_bytes
        middle = begin + len(head)
        stop = middle + end - start
        after = stop + 2
        if after > self.capacity_bytes:
            return False
        view = self._view
        view[begin:middle] = head
        view[middle:stop] = memoryview(data)[start:end]
        view[stop : after + 1] = _AFTER
        self.size_bytes = after
        self.text_bytes += end - start
        self.lines += 1
        self._has_nul = None
        return True

    def clear(self) -> None:
        """Remove all lines."""
        self._view[:1] = b"\0"
        self.size_bytes = self.text_bytes = self.lines = 0

    def lines_with(self, texts: Iterable[bytes]) -> list[tuple[int, int]]:
        """Return the offsets of all lines that have any of the texts, in order."""
        found: set[tuple[int, int]] = set()
        for text in texts:
            at = self._search(text, 0)
            while at >= 0:
                line = self._line_at(at)
                found.add(line)
                at = self._search(text, line[1])
        return sorted(found)

    def lines_with_suffixes(
        self, text: bytes, suffixes: tuple[bytes, ...], *, most: int
    ) -> list[tuple[int, int]] | None:
        """Return the offsets of all lines that have a text with one of the suffixes, in order.

        It is quick where the text is rare: each place of the text costs a call.

        Returns:
            None if the text occurs in more than `most` places.
        """
        found: list[tuple[int, int]] = []
        at = self._search(text, 0)
        while at >= 0:
            if not most:
                return None
            most -= 1
            end = at + len(text)
            if self._bytes.startswith(suffixes, end, self.size_bytes):
                line = self._line_at(at)
                found.append(line)
                end = line[1]
            at = self._search(text, end)
        return found

    def _line_at(self, at: int) -> tuple[int, int]:
        return self._bytes.rfind(b"\n", 0, at) + 1, self._bytes.find(b"\n", at) + 1

    def _search(self, text: bytes, start: int) -> int:
        if self._has_nul is None:
            self._has_nul = self._bytes.find(b"\0", 0, self.size_bytes) >= 0
        if self._find is None or self._has_nul:  # the quick search would end at the NUL
            return self._bytes.find(text, start, self.size_bytes)
        return self._find(text, start)


def _finder(buffer: bytearray) -> _Find | None:
    """Return the C library's search in a buffer of a fixed size, up to the next NUL byte.

    It takes a twentieth of the time of bytearray.find where it uses vector registers. The
    interpreter's lock is not released: a search is over sooner. None if there is no such library.
    """
    import ctypes  # takes milliseconds, and most programs never record

    try:
        strstr = ctypes.PyDLL(None).strstr
    except (TypeError, OSError, AttributeError):  # Windows
        return None
    strstr.restype = ctypes.c_void_p
    strstr.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
    first = ctypes.c_char.from_buffer(buffer)  # while it exists, the buffer cannot be moved
    address = ctypes.addressof(first)

    def find(text: bytes, start: int, _first: ctypes.c_char = first) -> int:
        found = strstr(address + start, text)
        return -1 if found is None else found - address

    return find
