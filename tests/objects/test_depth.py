"""Depth: one limit for every text, whatever the interpreter and however small the stack."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from pyinformer.client.transport import ListSplitter, read_frame, status_error
from pyinformer.errors import InvalidObjectError
from pyinformer.objects import (
    GroupVersionResource,
    KubeObject,
    ObjectCodec,
    PathSet,
    decode_object,
    decoder_of,
    diff,
    fields_of,
)
from tests.objects.samples import decode

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 512
WIDGETS = GroupVersionResource.of("example.com/v1", "widgets")
POD_RESOURCE = GroupVersionResource.of("v1", "pods")
SHAPES = {"objects": ('{"a":', "}"), "arrays": ("[", "]"), "both": ('{"a":[', "]}")}
DEPTHS = [600, 3_000, 9_900, 100_000]

_STRINGS = ['""', '"a"', '"{"', '"}"', '"[]"', r'"\\"', r'"\""', r'"\"{"', r'"\\\"]"', r'"\u007b"']


def depth_of(text: str) -> int:
    """Return how many levels a decoder enters, one character after the other."""
    depth = deepest = 0
    for token in re.findall(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', text):
        depth += (token in "[{") - (token in "]}")
        deepest = max(deepest, depth)
    return deepest


def nested(levels: int, rng: Random) -> str:
    """Return a value of so many levels, with values and hostile strings at each."""
    text = rng.choice(_STRINGS)
    for _ in range(levels):
        beside = [rng.choice([*_STRINGS, "{}", "[[]]", "1"]) for _ in range(rng.randrange(3))]
        beside.insert(rng.randrange(len(beside) + 1), text)
        if rng.random() < 0.5:
            text = f"[{','.join(beside)}]"
        else:
            text = f"{{{','.join(f'{rng.choice(_STRINGS)}:{one}' for one in beside)}}}"
    return text


def in_small_stack(work: Callable[[], object]) -> object:
    """Call a function in a thread of 256 KiB, and return its result."""
    results: list[object] = []
    before = threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=lambda: results.append(work()))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    (result,) = results
    return result


@given(
    levels=st.one_of(st.integers(0, 40), st.integers(LIMIT - 3, LIMIT + 3)),
    seed=st.integers(0, 1 << 32),
    cut=st.integers(0, 2_000),
)
def test_texts_over_the_limit_are_refused_and_no_others(levels: int, seed: int, cut: int) -> None:
    """Brackets in strings do not count, and a text that is cut off counts up to there."""
    text = nested(levels, Random(seed))
    text = text[: max(len(text) - cut, 1)]
    is_refused = False
    try:
        decoder_of()(text.encode())
    except RecursionError:
        is_refused = True
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    assert is_refused == (depth_of(text) > LIMIT)


@pytest.mark.parametrize("wide", ['{"a":1}', "[]", '{"a":[{"b":{}}]}', '"{[{["', r'"\"[[{"'])
def test_a_wide_text_is_not_a_deep_one(wide: str) -> None:
    text = f"[{','.join([wide] * 20_000)}]".encode()
    assert len(decoder_of()(text)) == 20_000


@pytest.mark.parametrize("levels", [510, 511])
def test_an_object_within_the_limit_has_no_problem_and_one_over_it_has(levels: int) -> None:
    """Object and spec are levels, too."""
    obj = decode(ObjectCodec(WIDGETS), widget("[", "]", levels))
    again = decode(ObjectCodec(WIDGETS), widget('{"a":', "}", levels))
    for one in (obj, again):
        assert bool(one.problem) == (levels + 2 > LIMIT)
        assert one.at("spec.x")
        if one.problem:
            with pytest.raises(InvalidObjectError, match="512 levels are the limit"):
                one.to_dict()
        else:
            assert one.to_dict()["spec"]["x"]


class Spec(msgspec.Struct):
    """Of a widget; a field of any depth."""

    x: Any = None


class Model(msgspec.Struct):
    """A model with such a field."""

    spec: Spec


class PydanticModel(BaseModel):
    """Another."""

    spec: dict[str, Any]


@dataclass
class Converting:
    """A model that converts itself, as those of lightkube."""

    content: Any

    @classmethod
    def from_dict(cls, content: Any) -> Converting:
        """Take it."""
        return cls(content)

    def to_dict(self) -> Any:
        """Return it."""
        return self.content


def widget(opening: str, closing: str, levels: int, api_version: str = "example.com/v1") -> str:
    """Return an object with a value of so many levels in its spec."""
    value = opening * levels + closing * levels
    value = value.replace(":}", ":1}")
    head = f'{{"apiVersion":"{api_version}","kind":"Widget","metadata":{{"annotations":{{"a":"b"}}'
    return f'{head},"name":"w","namespace":"n","uid":"u"}},"spec":{{"n":3,"x":{value}}}}}'


READS: dict[str, Callable[[KubeObject[Any]], object]] = {
    "to_dict": lambda obj: obj.to_dict(),
    "at": lambda obj: obj.at("spec.x"),
    "at-typed": lambda obj: obj.at("spec", dict),
    "model": lambda obj: obj.as_type(Model),
    "pydantic": lambda obj: obj.as_type(PydanticModel),
    "converting": lambda obj: obj.as_type(Converting),
    "diff": lambda obj: diff(obj, obj),
}


@pytest.mark.parametrize("levels", DEPTHS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("read", READS)
def test_no_read_of_a_deep_object_overflows_a_small_stack(
    read: str, shape: str, levels: int
) -> None:
    def work() -> object:
        text = widget(*SHAPES[shape], levels)
        obj = decode(ObjectCodec(WIDGETS), text)
        assert "512 levels are the limit" in obj.problem
        assert obj.at("spec.n", int) == 3
        assert dict(obj.annotations) == {"a": "b"}
        assert PathSet(("spec.n", "kind")).read(obj.raw) == (3, "Widget")
        with pytest.raises(InvalidObjectError, match=r"nested too deeply|recursion") as raised:
            READS[read](obj)
        return raised.value

    assert in_small_stack(work)


@pytest.mark.parametrize("levels", DEPTHS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "options",
    [
        {"strip_managed_fields": True},
        {"strip_managed_fields": False},
        {"compact": True},
        {"metadata_only": True},
        {"transform": lambda obj: {**obj, "marked": True}},
    ],
    ids=["stripped", "whole", "compact", "metadata-only", "transformed"],
)
def test_no_way_of_keeping_a_deep_object_overflows_a_small_stack(
    options: dict[str, Any], shape: str, levels: int
) -> None:
    """Its managedFields repeat its structure. Both the fast path and the slow one are taken."""

    def work() -> object:
        codec: ObjectCodec[None] = ObjectCodec(WIDGETS, **options)
        decode(codec, widget("[", "]", 1))
        text = widget(*SHAPES[shape], levels)
        fields = '"managedFields":[{"fieldsV1":%s}]},"spec"' % (
            '{"f:a":' * levels + "1" + "}" * levels
        )
        for one in (text, text.replace('},"spec"', f",{fields}"), text):
            obj = decode(codec, one)
            assert obj.key == "n/w"
            assert bool(obj.problem) != options.get("metadata_only", False)
        return obj

    assert in_small_stack(work)


@pytest.mark.parametrize("levels", [3_000, 6_000, 9_900, 100_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_a_deep_object_of_a_built_in_kind_overflows_no_stack_either(
    opening: str, levels: int
) -> None:
    """No API server stores one; another server may send it, cut off as well."""

    def work() -> object:
        codec: ObjectCodec[None] = ObjectCodec(POD_RESOURCE)
        decode(codec, widget("[", "]", 1, "v1"))
        closing = "]" if opening == "[" else "}"
        text = widget(opening, closing, levels, "v1")
        obj = decode(codec, text)
        for read in READS.values():
            with pytest.raises(InvalidObjectError, match=r"nested too deeply|recursion"):
                read(obj)
        with pytest.raises(InvalidObjectError):
            decode(codec, text[: text.index('"x"') + len(opening) * levels])
        return obj

    assert in_small_stack(work)


@pytest.mark.parametrize("levels", DEPTHS)
def test_nothing_that_a_server_sends_overflows_a_small_stack(levels: int) -> None:
    deep = b'{"a":' * levels + b"1" + b"}" * levels

    def work() -> object:
        assert [*fields_of(b'{"a":%b,"b":1}' % deep)] == ["a", "b"]
        with pytest.raises(InvalidObjectError, match="512 levels are the limit"):
            decode_object(deep, "it")
        line = b'{"x":%b,"type":"ADDED","object":{"a":%b}}' % (deep, deep)
        assert read_frame(line, 0, len(line))[0] == "ADDED"
        assert status_error(500, {}, deep).status == 500
        items: list[bytes] = []
        item = b'{"metadata":{"name":"a"},"spec":%b}' % deep
        for chunk in (1 << 20, 100):
            splitter = ListSplitter(lambda data, start, end: items.append(data[start:end]))
            body = b'{"kind":"WidgetList","apiVersion":"v1","metadata":{},"items":[%b,%b]}' % (
                item,
                item,
            )
            for start in range(0, len(body), chunk):
                splitter.feed(body[start : start + chunk])
            splitter.finish()
        return items == [item] * 4

    assert in_small_stack(work)
