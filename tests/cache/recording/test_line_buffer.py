"""Lines of watches wait in memory that is used again, and no search misses one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.cache.recording._line_buffer import LineBuffer

_HEAD = b'{"line":'


def _filled(*texts: bytes, capacity_bytes: int = 1000) -> LineBuffer:
    buffer = LineBuffer(capacity_bytes)
    for text in texts:
        assert buffer.add(_HEAD, b"<" + text + b">", 1, len(text) + 1)
    return buffer


def _lines_with(buffer: LineBuffer, *texts: bytes) -> list[bytes]:
    content = bytes(buffer.content)
    return [content[start:stop] for start, stop in buffer.lines_with(texts)]


def test_a_buffer_has_the_lines_of_the_file() -> None:
    buffer = _filled(b"{}", b"[1]")

    assert bytes(buffer.content) == b'{"line":{}}\n{"line":[1]}\n'
    assert (buffer.lines, buffer.text_bytes) == (2, 5)


def test_a_line_that_does_not_fit_changes_nothing() -> None:
    buffer = _filled(b"{}", capacity_bytes=20)

    assert not buffer.add(_HEAD, b"[1]", 0, 3)
    assert bytes(buffer.content) == b'{"line":{}}\n'


def test_what_was_cleared_is_not_found() -> None:
    buffer = _filled(b'"hidden"', b'"hidden"')
    buffer.clear()

    assert buffer.lines_with((b"hidden",)) == []
    assert buffer.add(_HEAD, b"1", 0, 1)
    assert buffer.lines_with((b"hidden",)) == []


_texts = st.lists(st.text("ab\0", max_size=6).map(str.encode), max_size=6)


@pytest.mark.parametrize("has_library", [True, False], ids=["strstr", "bytearray"])
@given(stale=_texts, texts=_texts, wanted=st.lists(st.sampled_from([b"a", b"ab", b"abb", b"bb"])))
def test_each_line_with_a_text_is_found(
    stale: list[bytes], texts: list[bytes], wanted: list[bytes], *, has_library: bool
) -> None:
    buffer = _filled(*stale)
    assert bool(_lines_with(buffer, b"a")) == any(b"a" in text for text in stale)
    buffer.clear()
    if not has_library:  # as on Windows
        buffer._find = None
    lines = [_HEAD + text + b"}\n" for text in texts]
    for text in texts:
        buffer.add(_HEAD, text, 0, len(text))

    assert _lines_with(buffer, *wanted) == [
        line for line in lines if any(one in line for one in wanted)
    ]


@given(texts=_texts)
def test_each_line_with_a_text_and_a_suffix_is_found(texts: list[bytes]) -> None:
    buffer = _filled(*texts)
    content = bytes(buffer.content)

    found = buffer.lines_with_suffixes(b"a", (b"a", b"bb"), most=len(content))

    assert found is not None
    lines = [content[start:stop] for start, stop in found]
    assert lines == [_HEAD + one + b"}\n" for one in texts if b"aa" in one or b"abb" in one]


def test_a_text_with_suffixes_that_is_not_rare_is_not_searched_on() -> None:
    buffer = _filled(b"a1 a2", b"a3")

    assert buffer.lines_with_suffixes(b"a", (b"4",), most=3) == []
    assert buffer.lines_with_suffixes(b"a", (b"3",), most=2) is None
