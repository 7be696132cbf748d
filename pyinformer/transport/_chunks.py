r"""A body in chunks: bytes of a buffer in, the places of its whole chunks out.

Servers frame a watch as `<size>\r\n<bytes>\r\n`, sizes in hexadecimal without leading zeros, and
nearly always with one event in a chunk. Only this shape is read here, in place and without a copy.
Whatever else there may be (extensions, trailers, zeros in front, an end, an error) is left, with
all that follows it, to a parser that knows HTTP whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

OnPiece: TypeAlias = Callable[[bytes | bytearray, int, int], None]
"""Takes a piece of a body: a buffer, and the offsets of the piece's first byte and behind its last.

The buffer is used again when the call is over: whoever keeps bytes copies them.
"""

_SIZE_LINE_BYTES: Final = 10  # eight digits and the line end: no buffer has room for more
_CR, _LF = b"\r\n"


def scan_chunks(
    buffer: bytes | bytearray, position: int, end: int, take: OnPiece
) -> tuple[int, bool]:
    """Hand on each whole chunk of `buffer[position:end]`.

    Args:
        buffer: what has arrived.
        position: where a chunk begins.
        end: behind the last byte that has arrived.
        take: is given the chunks' content, in order.

    Returns:
        Where the first chunk begins that was not handed on, and whether its rest is to be waited
        for; if not, what stands there is not of the usual shape.
    """
    find = buffer.find
    while True:
        line_end = find(b"\r\n", position, position + _SIZE_LINE_BYTES)
        start = line_end + 2
        if line_end < 0 or start > end:
            return position, end - position < _SIZE_LINE_BYTES
        try:
            size = int(buffer[position:line_end], 16)
        except ValueError:
            return position, False
        # So many digits make no less than this, unless the first is a zero or not all are digits:
        # signs, spaces and underscores mean something to `int`.
        if size >> 4 * (line_end - position - 1) <= 0:
            return position, False
        stop = start + size
        if stop + 2 > end:  # a bare line feed is not waited for: nothing may come after it
            return position, stop >= end or buffer[stop] == _CR
        if buffer[stop] != _CR or buffer[stop + 1] != _LF:
            return position, False
        take(buffer, start, stop)
        position = stop + 2
