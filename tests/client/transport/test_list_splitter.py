"""ListSplitter: the items and the metadata of the whole body, from any chunks."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.client.transport import ListMetadata, ListSplitter
from pyinformer.errors import InvalidObjectError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable

META = {"resourceVersion": "42", "continue": "next", "remainingItemCount": 7}
HOSTILE = '\\" }, {"metadata":{"name":"x"}},{"metadata":{ ]} \n é \u2028 \\\\'
ITEMS: list[dict[str, Any]] = [
    {"metadata": {"name": "a", "annotations": {"x": HOSTILE}}},
    {"metadata": {"name": "b"}, "spec": {"items": [{"metadata": {"n": 1}}, {"metadata": {}}]}},
    {"metadata": {"name": "c\\"}, "data": None},
    {},
    {"spec": {}, "metadata": {"name": "d"}},
]
CUSTOM = [{"apiVersion": "e.io/v1", "kind": "Foo", **item} for item in ITEMS]


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def built_in(items: object, **more: object) -> dict[str, object]:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": META, "items": items, **more}


def custom(items: object) -> dict[str, object]:
    return {"apiVersion": "e.io/v1", "items": items, "kind": "FooList", "metadata": META}


class Collector:
    """Decodes the items, as the reflector does, and keeps them."""

    def __init__(self, *, verify: bool = True) -> None:
        self.items: list[object] = []
        self.splitter = ListSplitter(self.take, what="list pods.v1", verify=verify)

    def take(self, buffer: bytes, start: int, end: int) -> None:
        self.items.append(msgspec.json.decode(memoryview(buffer)[start:end]))

    def run(self, chunks: Iterable[bytes]) -> ListMetadata:
        for chunk in chunks:
            self.splitter.feed(chunk)
        return self.splitter.finish()


def in_chunks(body: bytes, size: int) -> list[bytes]:
    return [body[i : i + size] for i in range(0, len(body), size)]


BODIES = [
    pytest.param(compact(built_in(ITEMS)), ITEMS, id="built-in"),
    pytest.param(compact(custom(CUSTOM)), CUSTOM, id="sorted-keys"),
    pytest.param(json.dumps(built_in(ITEMS), indent=2).encode(), ITEMS, id="indented"),
    pytest.param(json.dumps(custom(CUSTOM)).encode() + b"\n", CUSTOM, id="spaced"),
    pytest.param(compact({"items": ITEMS, **built_in(ITEMS)}), ITEMS, id="items-first"),
    pytest.param(compact(built_in([])), [], id="empty"),
    pytest.param(b" " + json.dumps(custom([]), indent=1).encode(), [], id="empty-indented"),
    pytest.param(compact(built_in(None)), [], id="null"),
    pytest.param(compact(custom(None)), [], id="null-sorted"),
    pytest.param(compact(built_in(ITEMS[:1])), ITEMS[:1], id="one"),
    pytest.param(compact(built_in([None])), [{}], id="null-item"),
    pytest.param(
        compact(built_in([None, *ITEMS, None, None])), [{}, *ITEMS, {}, {}], id="null-items"
    ),
    pytest.param(
        json.dumps(custom([*CUSTOM, None, *CUSTOM]), indent=1).encode(),
        [*CUSTOM, {}, *CUSTOM],
        id="null-item-indented",
    ),
    pytest.param(
        compact(built_in([None, *ITEMS])).replace(b'"items":', b'"it\\u0065ms":'),
        [{}, *ITEMS],
        id="null-item-after-an-escaped-key",
    ),
    pytest.param(
        compact({"zzz": {"items": [{"items": [1]}]}, **built_in(ITEMS)}), ITEMS, id="other-items"
    ),
    pytest.param(
        compact(built_in(ITEMS)).replace(
            b'"items":[{"metadata":{"name":"a"', b'"it\\u0065ms":[{"metadata":{"name":"a"'
        ),
        ITEMS,
        id="escaped-key",
    ),
]


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize(("body", "items"), BODIES)
def test_items_are_those_of_the_body_wherever_it_is_cut(
    body: bytes, items: list[object], verify: bool
) -> None:
    for cut in range(len(body) + 1):
        collector = Collector(verify=verify)
        metadata = collector.run([body[:cut], body[cut:]])

        assert collector.items == items
        assert metadata.kind in {"PodList", "FooList"}
        assert metadata.resource_version == "42"
        assert (metadata.continue_token, metadata.remaining_item_count) == ("next", 7)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64, 1_000, 100_000])
@pytest.mark.parametrize(("body", "items"), BODIES)
def test_items_are_those_of_the_body_in_chunks_of_any_size(
    body: bytes, items: list[object], size: int
) -> None:
    collector = Collector()
    collector.run(in_chunks(body, size))

    assert collector.items == items


@pytest.mark.parametrize(("body", "items"), BODIES)
def test_a_body_that_is_cut_off_anywhere_is_an_error_after_a_prefix(
    body: bytes, items: list[object]
) -> None:
    for cut in range(len(body.rstrip())):
        collector = Collector(verify=False)
        with pytest.raises(ProtocolError):
            collector.run([body[:cut]])
        assert collector.items == items[: len(collector.items)]


_text = st.sampled_from(
    ['},{"metadata":{"name":"', "\\", '"', 'a\\"b', "\n},{", "é{", "]}", '"items":[', "x"]
)
_json = st.recursive(
    st.none() | st.integers() | _text,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["metadata", "items", "kind", "{"]), inner, max_size=3)
    ),
    max_leaves=8,
)
_items = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {},
        optional={
            "apiVersion": st.just("v1"),
            "kind": st.sampled_from(["Foo", "Bar"]),
            "metadata": st.fixed_dictionaries({"name": _text}, optional={"x": _json}),
            "spec": _json,
            "list": st.lists(st.fixed_dictionaries({"metadata": _json}), max_size=12),
        },
    ),
    max_size=6,
)


@pytest.mark.covers("apimachinery pkg/api/meta: TestEachList")
@given(
    items=_items,
    order=st.permutations(["kind", "apiVersion", "metadata", "items", "other"]),
    size=st.integers(1, 400),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
    verify=st.booleans(),
    other=_json,
)
def test_items_equal_those_of_whole_body_decoding(
    *,
    items: list[object],
    order: list[str],
    size: int,
    indent: int | None,
    ascii_only: bool,
    verify: bool,
    other: object,
) -> None:
    fields = {**built_in(items), "other": other}
    separators = (",", ":") if indent is None else None
    body = json.dumps(
        {name: fields[name] for name in order},
        indent=indent,
        separators=separators,
        ensure_ascii=ascii_only,
    ).encode()
    collector = Collector(verify=verify)

    metadata = collector.run(in_chunks(body, size))

    assert collector.items == [{} if item is None else item for item in items]
    assert metadata == ListMetadata("PodList", "v1", "42", "next", 7)


def test_kind_is_known_at_the_first_item_if_it_came_before() -> None:
    kinds: list[tuple[str, str]] = []

    first = ListSplitter(lambda *_: kinds.append((first.kind, first.api_version)))
    first.feed(compact(built_in([{}])))
    first.finish()
    second = ListSplitter(lambda *_: kinds.append((second.kind, second.api_version)))
    second.feed(compact(custom([{}])))
    second.finish()

    assert kinds == [("PodList", "v1"), ("", "e.io/v1")]
    assert (second.kind, second.api_version) == ("FooList", "e.io/v1")


def test_the_last_of_duplicate_list_metadata_counts() -> None:
    body = b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[{}],'
    body += b'"metadata":{"resourceVersion":"2"}}'

    assert (
        Collector().run([body]).resource_version == json.loads(body)["metadata"]["resourceVersion"]
    )


def test_an_item_is_delivered_before_the_rest_of_the_body_arrives() -> None:
    pods = [{"metadata": {"name": str(i)}, "spec": "x" * 100} for i in range(10)]
    collector = Collector()
    body = compact(built_in(pods))
    collector.splitter.feed(body[: len(body) // 2])

    assert 3 <= len(collector.items) <= 5
    assert collector.splitter.pending_bytes < 200


BAD = [
    pytest.param(b"<html><body>502</body></html>", "not a JSON object", id="html"),
    pytest.param(b"", "cut off", id="empty"),
    pytest.param(b"[]", "not a JSON object", id="array"),
    pytest.param(
        b'{"kind":"Status","message":"gone fishing","code":504}',
        "Status, not a list: gone fishing",
        id="status",
    ),
    pytest.param(
        b'{"kind":"Table","metadata":{"resourceVersion":"1"},"items":[]}', "Table", id="table"
    ),
    pytest.param(compact({"kind": "PodList", "items": []}), "metadata is missing", id="no-meta"),
    pytest.param(compact({"metadata": META, "items": []}), "kind is missing", id="no-kind"),
    pytest.param(
        compact({"kind": "PodList", "metadata": META}), "items are missing", id="no-items"
    ),
    pytest.param(compact(built_in({})), "items must be an array", id="items-object"),
    pytest.param(compact(built_in(5)), "items must be an array", id="items-number"),
    pytest.param(compact(built_in([1, 2])), "followed by an object", id="numbers"),
    pytest.param(compact(built_in([{}, 2])), "followed by an object", id="number-after-object"),
    pytest.param(b'{"items":[nul]}', "followed by an object", id="not-null"),
    pytest.param(b'{"items":[nullx]}', "followed by an object", id="longer-than-null"),
    pytest.param(b'{"items":[null null]}', "followed by an object", id="null-without-comma"),
    pytest.param(
        compact(built_in([{}])).replace(b"[{}", b"[{},"), "followed by an object", id="comma"
    ),
    pytest.param(
        compact(built_in([{}])).replace(b"[{}", b"[,{}"), "followed by an object", id="first-comma"
    ),
    pytest.param(
        compact(built_in([{}, {}])).replace(b"{},{}", b"{}{}"),
        "followed by an object",
        id="no-comma",
    ),
    pytest.param(compact(built_in([{}])) + b"x", "cut off, or not a list", id="rest"),
    pytest.param(
        compact(built_in([{}])).replace(b"{}]", b"{a}]"), "not a JSON object", id="bad-item"
    ),
    pytest.param(
        b'{"items":[{}],"items":[{}],"kind":"L"}', "items must not occur twice", id="items-twice"
    ),
    pytest.param(b'{"a":"' + b"x" * 70_000, "no items within", id="endless-head"),
    pytest.param(b'{"items":[],"a":"' + b"x" * 70_000, "after the items", id="endless-tail"),
    pytest.param(b'{"items":[' + b" " * 70_000, "white space", id="endless-gap"),
    pytest.param(b'{"kind":"PodList","metadata":{"resourceVersion":5},"items":[]}', "", id="rv-5"),
]


@pytest.mark.parametrize("size", [1, 1_000_000])
@pytest.mark.parametrize(("body", "words"), BAD)
def test_a_body_that_is_not_a_list_is_a_protocol_error(body: bytes, words: str, size: int) -> None:
    with pytest.raises(ProtocolError, match=r"list pods\.v1") as caught:
        Collector().run(in_chunks(body, size if len(body) < 1_000 else 1_000))

    assert words in str(caught.value)


def test_a_list_without_a_version_is_left_to_readers_that_need_none() -> None:
    page = Collector().run([compact({**built_in(ITEMS), "metadata": {}})])
    assert page.resource_version == ""


def test_an_item_over_the_limit_is_refused_before_it_is_complete() -> None:
    splitter = ListSplitter(lambda *_: None, max_item_bytes=1_000)
    small: bytes = compact(built_in([{"a": "x"}, {"a": "y"}])).removesuffix(b"]}")
    splitter.feed(small)

    with pytest.raises(ProtocolError, match="longer than 1000 bytes"):
        splitter.feed(b',{"a":"' + b"x" * 2_000)


def test_an_item_the_consumer_cannot_read_is_named() -> None:
    def take(buffer: bytes, start: int, end: int) -> None:
        msgspec.json.decode(buffer[start:end], type=dict[str, int])

    splitter = ListSplitter(take, what="list pods.v1", verify=False)
    with pytest.raises(InvalidObjectError, match=r"item 2 of list pods\.v1"):
        splitter.feed(compact(built_in([{"a": 1}, {"a": "x"}, {"a": 3}])) + b" ")
        splitter.finish()


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("size", [7, 1_000_000])
def test_unreadable_items_are_set_aside_and_the_list_continues(verify: bool, size: int) -> None:
    deep: Any = '{"a":' * 5_000 + "1" + "}" * 5_000
    texts = ['{"a":1}', '{"a":"bad"}', deep, '{"a":4}', '{"a":"bad"}', '{"a":6}']
    body = b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":['
    body += ",".join(texts).encode() + b"]}"
    good: list[object] = []
    bad: list[str] = []

    def take(buffer: bytes, start: int, end: int) -> None:
        good.append(msgspec.json.decode(buffer[start:end], type=dict[str, int]))

    def set_aside(buffer: bytes, start: int, end: int, error: Exception) -> None:
        bad.append(buffer[start:end].decode())

    splitter = ListSplitter(take, verify=verify, on_invalid=set_aside)
    for chunk in in_chunks(body, size):
        splitter.feed(chunk)
    splitter.finish()

    assert good == [{"a": 1}, {"a": 4}, {"a": 6}]
    assert bad == [texts[1], texts[2], texts[4]]
    assert splitter.item_count == 6


def test_nested_lookalikes_cost_linear_work() -> None:
    nested = [{"metadata": {"name": str(i)}} for i in range(20_000)]
    items = [{"metadata": {"name": "a"}, "list": nested} for _ in range(5)]
    body = compact(built_in(items))
    offers = 0

    def take(buffer: bytes, start: int, end: int) -> None:
        nonlocal offers
        offers += 1
        msgspec.json.decode(memoryview(buffer)[start:end])

    splitter = ListSplitter(take, verify=False)
    for chunk in in_chunks(body, 65_536):
        splitter.feed(chunk)
    splitter.finish()

    assert splitter.item_count == 5
    assert offers < 5 * 10  # each item: some wrong borders, then the scanner's right one


@pytest.mark.parametrize("size", [7, 50, 1_000])
def test_regular_items_are_offered_once_however_small_the_chunks(size: int) -> None:
    items = [{"metadata": {"name": str(i), "list": [{"a": 1}, {"b": 2}]}} for i in range(300)]
    lengths: list[int] = []
    splitter = ListSplitter(lambda _, start, end: lengths.append(end - start), verify=False)
    for chunk in in_chunks(compact(built_in(items)), size):
        splitter.feed(chunk)
    splitter.finish()

    assert lengths == [len(compact(item)) for item in items]


def test_changing_first_keys_fall_back_to_scanning_and_stay_right() -> None:
    names = ["metadata", "spec", "status", "data"]
    items = [{names[i % 4]: {"i": i}, "metadata": {"name": str(i)}} for i in range(2_000)]
    collector = Collector()
    collector.run(in_chunks(compact(built_in(items)), 10_000))

    assert collector.items == items


def test_indented_lists_are_not_held_either() -> None:
    items = [{"metadata": {"name": str(i)}, "x": "y" * 1_000} for i in range(1_000)]
    splitter = ListSplitter(lambda *_: None)
    most = 0
    for chunk in in_chunks(json.dumps(built_in(items), indent=2).encode(), 10_000):
        splitter.feed(chunk)
        most = max(most, splitter.pending_bytes)
    splitter.finish()

    assert most < 3_000
    assert splitter.item_count == 1_000


def test_feeding_one_network_chunk_does_not_block_for_long() -> None:
    pod = {"metadata": {"name": "a" * 40}, "spec": {"c": [{"n": "v" * 20}] * 150}}
    body = compact(built_in([pod] * 400))

    def longest() -> float:
        """Return the CPU seconds of the chunk that took most."""
        splitter = ListSplitter(lambda *_: None)
        took: list[float] = []
        for chunk in in_chunks(body, 256 << 10):
            start = time.thread_time()
            splitter.feed(chunk)
            took.append(time.thread_time() - start)
        splitter.finish()
        return max(took)

    # The garbage collector may run during a chunk, but not in each round.
    assert min(longest() for _ in range(10)) < 0.025


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("size", [1, 3, 50, 1_000_000])
@pytest.mark.parametrize("huge", [(0,), (1,), (3,), (0, 1), (1, 2, 3), (0, 1, 2, 3)])
def test_an_item_over_the_limit_is_skipped_but_for_its_metadata(
    huge: tuple[int, ...], size: int, verify: bool
) -> None:
    """Whatever the chunks and wherever it is, the items around it arrive in order."""
    items: list[dict[str, Any]] = [
        {"spec": HOSTILE * (20 if number in huge else 1), "metadata": {"name": f"i{number}"}}
        for number in range(4)
    ]
    arrived: list[object] = []
    splitter = ListSplitter(
        lambda b, s, e: arrived.append(msgspec.json.decode(memoryview(b)[s:e])),
        verify=verify,
        max_item_bytes=300,
        on_oversized=lambda head, size: arrived.append((json.loads(head), size)),
    )
    for chunk in in_chunks(compact(built_in(items)), size):
        splitter.feed(chunk)
    metadata = splitter.finish()

    texts = [compact(item) for item in items]
    assert arrived == [
        ({"metadata": {"name": f"i{n}"}}, len(texts[n])) if n in huge else item
        for n, item in enumerate(items)
    ]
    assert metadata.resource_version == "42"
    assert splitter.item_count == 4


@pytest.mark.parametrize("item", [b"{}", b'{"metadata":{"name":"a"}}'])
@pytest.mark.parametrize("fails", [True, False])
def test_a_step_ends_after_64_items(item: bytes, fails: bool) -> None:
    """A caller can yield to other tasks within one read, whatever items cost."""
    seen: list[int] = []

    def take(buffer: bytes, start: int, end: int) -> None:
        seen.append(end - start)
        if fails:
            raise InvalidObjectError("pods.v1", "no name")

    splitter = ListSplitter(take, verify=False, on_invalid=lambda *_: None)
    head = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":['
    steps = splitter.steps(head + b",".join([item] * 5_000) + b"]}")
    counts = [0, *(len(seen) for _ in steps)]
    assert splitter.finish().resource_version == "5"
    assert seen == [len(item)] * 5_000
    assert max(after - before for before, after in pairwise(counts)) == 64


def test_an_item_over_the_limit_that_never_ends_is_a_list_cut_off() -> None:
    splitter = ListSplitter(lambda *_: None, max_item_bytes=100, on_oversized=lambda *_: None)
    splitter.feed(compact(built_in([{"a": "x" * 500}]))[:-20])

    assert splitter.pending_bytes <= 100
    with pytest.raises(ProtocolError, match="the body ends early"):
        splitter.finish()


def test_the_metadata_of_a_long_item_is_read_as_it_arrives() -> None:
    """Reading an item of 64 MiB at once would block the event loop for seconds."""
    items: list[int] = []
    splitter = ListSplitter(lambda _, s, e: items.append(e - s), on_oversized=lambda *_: None)
    item = compact({"metadata": {"name": "n" * 1000}, "a": "x" * (3 << 20)})
    splitter.feed(b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[')
    for start in range(0, len(item) - 10, 1 << 19):
        splitter.feed(item[start : min(start + (1 << 19), len(item) - 10)])
    assert splitter.pending_bytes > len(item) - 10 + 1000

    splitter.feed(item[-10:] + b"," + item + b"]}")
    splitter.finish()
    assert items == [len(item), len(item)]


def test_a_huge_item_costs_no_memory() -> None:
    splitter = ListSplitter(lambda *_: None, on_oversized=lambda *_: None)
    splitter.feed(b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[{"a":"')
    chunk = b"x" * (1 << 20)
    for _ in range(80):
        splitter.feed(chunk)

    assert splitter.pending_bytes == 0


def test_a_long_content_type_is_cut_in_the_log() -> None:
    body = b'{"kind":"%s","metadata":{},"items":[]}'
    for kind in (b"K" * 40_000, b"K" * 40_000 + b"List\\n"):
        splitter = ListSplitter(lambda *_: None)
        with pytest.raises(ProtocolError) as caught:
            splitter.feed(body % kind)
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize("step", [1, 64 << 10])
def test_a_head_that_names_items_again_and_again_is_refused(step: int) -> None:
    head = b'{"a":{' + b'"items":[],' * 5_900
    began = time.process_time()
    with pytest.raises(ProtocolError, match="more than 64 fields named items"):
        Collector().run(head[at : at + step] for at in range(0, len(head), step))
    assert time.process_time() - began < 0.2, "each was decoded with all before it"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"\xff":1,"items":[{}]}', id="before-the-items"),
        pytest.param(b'{"kind":"PodList","items":[],"\xff":1}', id="behind-the-items"),
        pytest.param(b'{"kind":"PodList","it\\u0065ms":["\xff"]}', id="in-a-small-body"),
        pytest.param(b'{"kind":"PodList","items":[{"\xff":1}]}', id="in-an-item"),
    ],
)
def test_bytes_that_are_not_text_are_an_error_of_the_protocol(body: bytes) -> None:
    with pytest.raises((ProtocolError, InvalidObjectError)):
        Collector().run([body])
