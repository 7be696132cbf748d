"""LineSplitter: every line once and whole, whatever the chunks, at linear cost."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.client.transport import LineSplitter
from pyinformer.errors import ProtocolError
from pyinformer.objects import METADATA_BYTES

BODY = '{"a":"\\n"}\n\n{"b":"é\u2028\x85"}\n{"c":1}\r\n{"unfinished'.encode()
LINES = [b'{"a":"\\n"}', '{"b":"é\u2028\x85"}'.encode(), b'{"c":1}\r']


def split(chunks: list[bytes]) -> tuple[list[bytes], LineSplitter]:
    lines: list[bytes] = []
    splitter = LineSplitter(lambda buffer, start, end: lines.append(bytes(buffer[start:end])))
    for chunk in chunks:
        splitter.feed(chunk)
    return lines, splitter


@pytest.mark.covers("client-go rest/watch: TestDecoder")
@pytest.mark.parametrize("cut", range(len(BODY) + 1))
def test_lines_are_whole_wherever_the_chunks_are_cut(cut: int) -> None:
    lines, splitter = split([BODY[:cut], BODY[cut:]])

    assert lines == LINES
    assert splitter.pending_bytes == len(b'{"unfinished')


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_whole_in_chunks_of_any_size(size: int) -> None:
    lines, _ = split([BODY[i : i + size] for i in range(0, len(BODY), size)])

    assert lines == LINES


@given(st.lists(st.binary(max_size=20)), st.data())
def test_lines_equal_those_of_the_whole_body(pieces: list[bytes], data: st.DataObject) -> None:
    body = b"\n".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)))))
    chunks = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    lines, splitter = split(chunks)

    assert lines == [line for line in body.split(b"\n")[:-1] if line]
    assert splitter.pending_bytes == len(body.split(b"\n")[-1])


def test_a_line_that_is_one_chunk_is_not_copied() -> None:
    chunk = b'{"type":"ADDED"}\n'
    seen: list[tuple[bytes, int, int]] = []
    LineSplitter(lambda *line: seen.append(line)).feed(chunk)

    assert seen == [(chunk, 0, len(chunk) - 1)]
    assert seen[0][0] is chunk


def test_empty_chunks_and_empty_lines_yield_nothing() -> None:
    assert split([b"", b"\n", b"", b"\n\n"])[0] == []


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"x" * 11], id="unfinished"),
        pytest.param([b"x" * 6, b"x" * 5], id="unfinished-over-chunks"),
        pytest.param([b"x" * 11 + b"\n"], id="one-chunk"),
        pytest.param([b"ok\n" + b"x" * 11 + b"\nok\n"], id="amid-others"),
        pytest.param([b"x" * 6, b"x" * 5 + b"\n"], id="finished-over-chunks"),
    ],
)
def test_a_line_over_the_limit_is_refused(chunks: list[bytes]) -> None:
    splitter = LineSplitter(lambda *_: None, max_line_bytes=10, what="watch pods.v1")

    with pytest.raises(ProtocolError, match=r"a line of watch pods\.v1: longer than 10 bytes"):
        for chunk in chunks:
            splitter.feed(chunk)


def test_a_line_at_the_limit_passes() -> None:
    lines: list[bytes] = []
    splitter = LineSplitter(lambda b, s, e: lines.append(bytes(b[s:e])), max_line_bytes=10)
    for chunk in (b"x" * 10 + b"\n", b"y" * 6, b"y" * 4 + b"\n"):
        splitter.feed(chunk)

    assert lines == [b"x" * 10, b"y" * 10]


def test_a_line_in_many_chunks_costs_linear_work() -> None:
    lines: list[bytes] = []
    splitter = LineSplitter(lambda b, s, e: lines.append(bytes(b[s:e])))
    for _ in range(100_000):  # quadratic joins would copy half a terabyte
        splitter.feed(b"x" * 100)
    splitter.feed(b"\n")

    assert [len(line) for line in lines] == [10_000_000]


def test_an_error_of_the_callback_leaves_no_half_line_behind() -> None:
    def refuse(buffer: bytes | bytearray, start: int, end: int) -> None:
        raise KeyError(buffer[start:end])

    splitter = LineSplitter(refuse)
    splitter.feed(b"ab")
    with pytest.raises(KeyError):
        splitter.feed(b"c\n")

    assert splitter.pending_bytes == 0


@pytest.mark.parametrize(
    ("rest", "left"),
    [
        pytest.param(b"", 0, id="nothing"),
        pytest.param(b" \r\t", 0, id="blank"),
        pytest.param(b'{"a":"}"}', 0, id="an-object"),
        pytest.param(b'{"a":1} \r', 0, id="an-object-and-blanks"),
        pytest.param(b'{"a":%s1%s}' % (b"[" * 5000, b"]" * 5000), 0, id="a-deep-object"),
        pytest.param(b'{"a":1', 6, id="cut-off"),
        pytest.param(b'{"a":"}', 7, id="cut-off-within-a-text"),
        pytest.param(b'{"a":1}{', 8, id="one-and-a-half"),
        pytest.param(b"[1]", 3, id="a-list"),
        pytest.param(b"1", 1, id="a-number"),
        pytest.param(b'{"a":%s' % (b"[" * 5000), 5005, id="cut-off-and-deep"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_the_end_of_a_body_ends_a_line_that_is_a_whole_object(
    rest: bytes, left: int, size: int
) -> None:
    body = b'{"b":2}\n' + rest
    lines, splitter = split([body[at : at + size] for at in range(0, len(body), size)])
    assert lines == [b'{"b":2}']

    assert splitter.finish() == left
    assert lines[1:] == ([rest] if rest.strip() and not left else [])
    if not left:
        assert splitter.finish() == 0
        assert len(lines) == 1 + bool(rest.strip())


@pytest.mark.parametrize("max_line_bytes", [1_000, 400_000, 4_000_000])
@pytest.mark.parametrize("is_cut_off", [False, True])
def test_the_end_of_a_body_ends_a_long_line(max_line_bytes: int, is_cut_off: bool) -> None:
    body = event(name="x", annotations={"a": "b" * 600_000})
    body = body[:-1] if is_cut_off else body
    arrived: list[str] = []
    splitter = LineSplitter(
        lambda b, s, e: arrived.append(json.loads(b[s:e])["object"]["metadata"]["name"]),
        max_line_bytes=max_line_bytes,
        on_oversized=lambda head, _: arrived.append(json.loads(head)["object"]["metadata"]["name"]),
    )
    for start in range(0, len(body), 100_000):
        splitter.feed(body[start : start + 100_000])
    assert splitter.finish() == (len(body) if is_cut_off else 0)
    assert arrived == ([] if is_cut_off else ["x"])


def event(**metadata: object) -> bytes:
    """Return an event of a watch with a long body behind its object's metadata."""
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"a": ["}{" * 20]}}
    return json.dumps({"type": "MODIFIED", "object": body}).encode()


def head_of(text: bytes) -> object:
    """Return the expected head of an oversized event; None if the line is not an event."""
    try:
        whole = json.loads(text)
    except ValueError:
        return None
    if not isinstance(whole, dict):
        return None
    body = whole["object"]
    known = {name: body[name] for name in ("kind", "apiVersion", "metadata")}
    return {"type": whole["type"], "object": known}


_events = st.builds(event, name=st.text(max_size=9), labels=st.dictionaries(st.text(), st.text()))


@given(st.lists(st.binary(max_size=40) | _events, max_size=8), st.data())
def test_a_line_over_the_limit_is_skipped_but_for_its_metadata(
    pieces: list[bytes], data: st.DataObject
) -> None:
    """Whatever the chunks, the lines around it arrive in order."""
    body = b"".join(piece + b"\n" for piece in pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)))))
    arrived: list[bytes | tuple[object, int]] = []
    splitter = LineSplitter(
        lambda b, s, e: arrived.append(bytes(b[s:e])),
        max_line_bytes=10,
        on_oversized=lambda head, size: arrived.append((json.loads(head or b"null"), size)),
    )
    for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True):
        splitter.feed(body[a:b])

    lines = [line for line in body.split(b"\n")[:-1] if line]
    assert arrived == [line if len(line) <= 10 else (head_of(line), len(line)) for line in lines]


@pytest.mark.parametrize("size", [1 << 20, 1 << 16, 7_919])
def test_metadata_longer_than_the_limit_is_found_wherever_it_stands(size: int) -> None:
    """A metadata field that is itself too long is null."""
    owner = {"name": "<" * 300_000, "uid": "u"}
    metadata = {"annotations": {"a": "b"}, "ownerReferences": [owner], "uid": "5", "name": "x"}
    body = event(**metadata).replace(b"<", b"\\u003c") + b"\n"
    heads: list[bytes] = []
    splitter = LineSplitter(
        lambda *_: None, max_line_bytes=100_000, on_oversized=lambda head, _: heads.append(head)
    )
    for start in range(0, len(body), size):
        splitter.feed(body[start : start + size])
        assert splitter.pending_bytes <= 2 * METADATA_BYTES

    expected = {"annotations": {"a": "b"}, "ownerReferences": None, "uid": "5", "name": "x"}
    assert [json.loads(head)["object"]["metadata"] for head in heads] == [expected]


def test_the_metadata_of_a_long_line_is_read_as_it_arrives() -> None:
    """Reading a line of 64 MiB at once would block the event loop for seconds."""
    lines: list[int] = []
    splitter = LineSplitter(lambda _, s, e: lines.append(e - s), on_oversized=lambda *_: None)
    start = b'{"type":"MODIFIED","object":{"metadata":{"name":"%s"},"a":["' % (b"n" * 1000)
    splitter.feed(start)
    splitter.feed(b"x" * (1 << 20))
    assert splitter.pending_bytes > splitter.unfinished_bytes + 1000

    splitter.feed(b'"]}}\n')
    assert lines == [len(start) + (1 << 20) + 4]
    assert (splitter.pending_bytes, splitter.unfinished_bytes) == (0, 0)


def test_a_line_without_an_end_holds_no_more_than_a_byte() -> None:
    splitter = LineSplitter(lambda *_: None, on_oversized=lambda *_: None)
    chunk = b"x" * (1 << 20)
    for _ in range(80):
        splitter.feed(chunk)

    assert splitter.pending_bytes == 1


def test_lines_over_the_limit_go_to_the_current_reader() -> None:
    sizes: list[int] = []
    splitter = LineSplitter(lambda *_: None, max_line_bytes=10)
    splitter.feed(b"x" * 8)
    splitter.redirect(lambda *_: None, lambda _, size: sizes.append(size))
    splitter.feed(b"x" * 8 + b"\n")

    assert sizes == [16]
