r"""Find the chunks of a chunked body in a buffer, without a copy.

Servers frame a watch as `<size>\r\n<bytes>\r\n`, sizes in hexadecimal without leading zeros, nearly
always with one event in a chunk. Only this shape is read here. Everything else (extensions,
trailers, leading zeros, the end, an error) and all that follows it is left to llhttp.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

OnPiece: TypeAlias = Callable[[bytes | bytearray, int, int], None]
"""Called with a piece of a body: a buffer, the offset of the first byte, and that behind the last.

The buffer is reused after the call: copy the bytes to keep them.
"""

_SIZE_LINE_BYTES: Final = 10  # eight digits and the line end: no buffer has room for more
_CR, _LF = b"\r\n"


def scan_chunks(
    buffer: bytes | bytearray, position: int, end: int, take: OnPiece
) -> tuple[int, bool]:
    """Pass each complete chunk of `buffer[position:end]` to a callback.

    Args:
        buffer: the bytes that have arrived.
        position: the offset at which a chunk begins.
        end: the offset behind the last byte that has arrived.
        take: called with the content of each chunk, in order.

    Returns:
        The offset of the first chunk that was not passed on, and whether more bytes may complete
        it; if not, the bytes there are not of the usual shape.
    """
    find = buffer.find
    while position < end:
        line_end = find(b"\r\n", position, position + _SIZE_LINE_BYTES)
        start = line_end + 2
        if line_end < 0 or start > end:
            return position, end - position < _SIZE_LINE_BYTES
        try:
            size = int(buffer[position:line_end], 16)
        except ValueError:
            return position, False
        # The leading digit must not be zero, and all must be digits: `int` also accepts signs,
        # spaces and underscores.
        if size >> 4 * (line_end - position - 1) <= 0:
            return position, False
        stop = start + size
        if stop + 2 > end:  # no wait after a bare line feed: nothing may follow it
            return position, stop >= end or buffer[stop] == _CR
        if buffer[stop] != _CR or buffer[stop + 1] != _LF:
            return position, False
        take(buffer, start, stop)
        position = stop + 2
    return position, True
