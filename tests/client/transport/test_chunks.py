"""Chunks of the usual shape are found in a buffer; everything else is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.client.transport.http._chunked_encoding_parser import scan_chunks
from tests.client.transport.serving import chunk


def scanned(data: bytes, end: int | None = None) -> tuple[list[bytes], int, bool]:
    pieces: list[bytes] = []
    position, is_usual = scan_chunks(
        bytearray(data),
        0,
        len(data) if end is None else end,
        lambda buffer, start, stop: pieces.append(bytes(buffer[start:stop])),
    )
    return pieces, position, is_usual


@given(
    contents=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    ends=st.lists(st.integers(0, 400)),
)
def test_whole_chunks_are_handed_on_wherever_the_bytes_were_cut(
    contents: list[bytes], ends: list[int]
) -> None:
    data = b"".join(map(chunk, contents))
    pieces: list[bytes] = []
    position = 0
    for end in [*sorted(min(end, len(data)) for end in ends), len(data)]:
        position, is_usual = scan_chunks(
            data, position, end, lambda b, start, stop: pieces.append(bytes(b[start:stop]))
        )
        assert is_usual

    assert pieces == contents
    assert position == len(data)


@pytest.mark.parametrize(
    "strange",
    [
        pytest.param(b"zz\r\nx\r\n", id="no-number"),
        pytest.param(b"\r\nx\r\n", id="no-size"),
        pytest.param(b"0\r\n\r\n", id="the-end"),
        pytest.param(b"-1\r\nx\r\n", id="negative"),
        pytest.param(b"+1\r\nx\r\n", id="a-sign"),
        pytest.param(b" 1\r\nx\r\n", id="a-space-in-front"),
        pytest.param(b"1 \r\nx\r\n", id="a-space-behind"),
        pytest.param(b"0x1\r\nx\r\n", id="a-prefix"),
        pytest.param(b"1_0\r\n0123456789abcdef\r\n", id="an-underscore"),
        pytest.param(b"01\r\nx\r\n", id="a-zero-in-front"),
        pytest.param(b"1;a=b\r\nx\r\n", id="an-extension"),
        pytest.param(b"1;and=a-long-extension\r\nx\r\n", id="a-long-extension"),
        pytest.param(b"1\nx\r\n", id="another-line-end-and-no-more"),
        pytest.param(b"123456789\r\nx", id="endless-digits"),
        pytest.param(b"1\r\nxx\r\n", id="longer-than-it-says"),
        pytest.param(b"1\r\nx\n\n", id="another-line-end-behind"),
    ],
)
def test_an_unusual_chunk_is_left_unread(strange: bytes) -> None:
    before = chunk(b"good")

    assert scanned(before + strange.ljust(12, b"#")) == ([b"good"], len(before), False)


@pytest.mark.parametrize("end", range(1, len(chunk(b"0123456789" * 30))))
def test_the_start_of_a_chunk_is_waited_for(end: int) -> None:
    data = chunk(b"0123456789" * 30)

    assert scanned(data[:end]) == ([], 0, True)
    # The bytes behind the end are from an earlier use of the buffer.
    assert scanned(data, end) == ([], 0, True)
