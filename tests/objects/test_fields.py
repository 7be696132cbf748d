"""Fields of an object of any depth and length, read in pieces: the same as by the JSON decoder."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyinformer.objects import (
    METADATA_BYTES,
    Identity,
    MetadataReader,
    _json_field_scanner,
    fields_of,
    identity_in,
)
from pyinformer.objects._json_field_scanner import _Splitter

_text = st.text(alphabet='ab{}[]",:\\\n é\u2028', max_size=8)
_names = st.sampled_from(["a", "metadata", "name", "object", "kind", "type", '"', "\\", "é"])
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=9,
)
_texts = st.fixed_dictionaries({"name": _text, "uid": _text}, optional={"namespace": _text})


@st.composite
def _objects(draw: st.DrawFn) -> dict[str, Any]:
    """Return an object with its fields, and those of its metadata, in any order."""
    rest = {"labels": draw(_json), "managedFields": draw(_json), "resourceVersion": "7"}
    metadata = [*draw(_texts).items(), *rest.items()]
    body = {"metadata": dict(draw(st.permutations(metadata))), "kind": "Foo", "apiVersion": "v1"}
    return dict(draw(st.permutations([*body.items(), ("spec", draw(_json)), ("é", draw(_json))])))


def known(obj: dict[str, Any]) -> dict[str, Any]:
    """Return what is to be read of an object."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": metadata}


def written(obj: object, *, indent: int | None, is_ascii: bool) -> bytes:
    """Return the JSON of an object."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(obj, indent=indent, separators=separators, ensure_ascii=is_ascii)
    return text.encode()


@settings(deadline=None)
@given(
    obj=_objects(),
    size=st.integers(1, 60),
    indent=st.sampled_from([None, 1]),
    is_ascii=st.booleans(),
    is_event=st.booleans(),
)
def test_kind_and_metadata_are_those_of_the_whole_object_in_pieces_of_any_size(
    *, obj: dict[str, Any], size: int, indent: int | None, is_ascii: bool, is_event: bool
) -> None:
    event = {"type": "ADDED", "object": obj}
    text = written(event if is_event else obj, indent=indent, is_ascii=is_ascii)
    reader = MetadataReader(is_event=is_event)
    for start in range(0, len(text), size):
        assert not reader.head(), "it is not complete"
        reader.feed(text[start : start + size])

    expected = {"type": "ADDED", "object": known(obj)} if is_event else known(obj)
    assert json.loads(reader.head()) == expected


@settings(deadline=None)
@given(obj=_objects(), indent=st.sampled_from([None, 1]), is_ascii=st.booleans())
def test_an_identity_is_read_from_any_object(
    *, obj: dict[str, Any], indent: int | None, is_ascii: bool
) -> None:
    meta = obj["metadata"]
    found = identity_in(written(obj, indent=indent, is_ascii=is_ascii))
    assert found == Identity(meta.get("namespace", ""), meta["name"], meta["uid"], "7")


@settings(deadline=None)
@given(obj=_objects(), indent=st.sampled_from([None, 1]), levels=st.integers(1_000, 3_000))
def test_fields_beside_a_deep_one_are_read(
    obj: dict[str, Any], indent: int | None, levels: int
) -> None:
    marked = written({**obj, "deep": "DEEP", "last": {"a": 1}}, indent=indent, is_ascii=True)
    deep = b'{"]":[' * levels + b"{}" + b"]}" * levels
    fields = fields_of(marked.replace(b'"DEEP"', deep))

    assert bytes(fields.pop("deep")) == deep
    expected = {**obj, "last": {"a": 1}}
    assert {name: json.loads(bytes(text)) for name, text in fields.items()} == expected


@pytest.mark.parametrize("cut", [1, 2, 3, 1_000, 6_000, 12_000])
def test_a_deep_object_that_is_cut_off_has_no_fields(cut: int) -> None:
    text = b'{"a":' + b"[{}," * 3_000 + b"1" + b"]" * 3_000 + b"}"
    with pytest.raises(msgspec.DecodeError):
        fields_of(text[:-cut])


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"x", b"{,}", b'{"a"}', b'{"a":}', b'{"a":1,}', b'{"a":1}x', b"{1:2}", b"{}}"],
)
def test_a_body_that_is_not_one_object_has_no_fields(text: bytes) -> None:
    reader = MetadataReader()
    for start in range(len(text)):
        reader.feed(text[start : start + 1])
    assert reader.head() == b""
    assert identity_in(text) == Identity()


def test_buffered_fields_are_bounded() -> None:
    reader = MetadataReader()
    reader.feed(b'{"metadata":{"name":"a"')
    for number in range(100):
        reader.feed(b',"f%d":"' % number)
        for _ in range(4):
            reader.feed(b"x" * (METADATA_BYTES // 8))
        assert reader.held_bytes <= 2 * METADATA_BYTES
        reader.feed(b'"')
    reader.feed(b',"uid":"u"}}')

    found = json.loads(reader.head())["metadata"]
    assert (found["name"], found["uid"]) == ("a", "u")
    assert sum(value is not None for value in found.values()) == 3


def test_an_identity_that_is_not_text_is_none() -> None:
    assert identity_in(b'{"metadata":{"name":"a","namespace":5}}') == Identity()


def test_the_work_for_a_text_that_no_server_stores_is_bounded() -> None:
    """It takes seconds, for which the event loop stands still."""
    deep = b"[" * 500_000 + b"]" * 500_000
    wide = b"[" + b"[]," * (2 << 20) + b"[]]"
    assert list(fields_of(b'{"a":%s,"b":"%s"}' % (deep, b"[" * (3 << 20)))) == ["a", "b"]
    with pytest.raises(msgspec.DecodeError, match="nested too deeply"):
        fields_of(b'{"a":%s,"b":%s}' % (deep, wide))


_SHALLOW = "[" * 60 + "]" * 60  # too deep to be read at once with others
_MANY = ",".join(f'"k{number}":{_SHALLOW}' for number in range(10_001))
_NAMED = '"kind":"Foo","metadata":{"name":"a","uid":"u"}'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            f"{{{_NAMED},{_MANY}}}",
            {"kind": "Foo", "metadata": {"name": "a", "uid": "u"}},
            id="named-first",
        ),
        pytest.param(f"{{{_MANY},{_NAMED}}}", {}, id="named-last"),
        pytest.param(f'{{"metadata":{{"name":"a",{_MANY},"namespace":"b"}}}}', {}, id="metadata"),
    ],
)
@pytest.mark.parametrize("size", [1_000, 1 << 20])
@pytest.mark.exhaustive
def test_of_many_fields_only_the_first_are_read(
    body: str, expected: dict[str, Any], size: int
) -> None:
    """To step over all of them would take seconds, in which the event loop does nothing else."""
    text = f'{{"type":"MODIFIED","object":{body}}}'.encode()
    reader = MetadataReader(is_event=True)
    for start in range(0, len(text), size):
        reader.feed(text[start : start + size])

    assert json.loads(reader.head()) == {"type": "MODIFIED", "object": expected}


def test_an_object_with_many_fields_beside_a_deep_one_is_not_read() -> None:
    deep = b'{"a":' * 500_000 + b"1" + b"}" * 500_000
    with pytest.raises(msgspec.DecodeError, match="more than 10000 fields"):
        fields_of(b'{"deep":%s,%s}' % (deep, _MANY.encode()))


@given(obj=_objects(), levels=st.integers(44, 52), indent=st.sampled_from([None, 1]))
def test_members_are_read_alike_whether_they_are_read_at_once_or_one_by_one(
    *, obj: dict[str, Any], levels: int, indent: int | None
) -> None:
    body = {**obj, "deep": _nested([], levels), 'e"': _nested(obj, levels), "z": {}}
    text = written(body, indent=indent, is_ascii=True)

    assert {name: bytes(value) for name, value in _Splitter(text).split().items()} == {
        name: bytes(value) for name, value in fields_of(text).items()
    }
    reader = MetadataReader()
    reader.feed(text)
    assert json.loads(reader.head()) == known(body)


def _nested(value: object, levels: int) -> object:
    for _ in range(levels):
        value = [value]
    return value


class _Bytes:
    """Counts how many bytes the patterns of a function read."""

    def __init__(self) -> None:
        self.count = self.calls = 0

    def counted(self, match: Callable[..., Any]) -> Callable[..., Any]:
        """Return the pattern, counted."""

        def counting(data: bytes, start: int) -> Any:
            found = match(data, start)
            self.calls += 1
            self.count += 0 if found is None else found.end() - start
            return found

        return counting


@pytest.mark.parametrize("value", [b"1", b"[]", b'{"a":[[]]}', b"[" * 60 + b"]" * 60])
def test_many_members_beside_a_deep_one_are_each_read_once(
    monkeypatch: pytest.MonkeyPatch, value: bytes
) -> None:
    """A megabyte of small lists took 30 s: the reader looked far ahead of each."""
    seen = _Bytes()
    members_of = _json_field_scanner._members
    monkeypatch.setattr(
        _json_field_scanner, "_members", lambda name: seen.counted(members_of(name))
    )
    monkeypatch.setattr(
        _json_field_scanner, "_reaches", [seen.counted(one) for one in _json_field_scanner._reaches]
    )
    deep = b"[" * 2_000 + b"]" * 2_000
    members = b",".join(b'"k%d":%b' % (number, value) for number in range(2_000))
    text = b'{"deep":%b,"metadata":{"name":"a"},%b}' % (deep, members)

    assert len(fields_of(text)) == 2_002
    assert identity_in(text).name == "a"
    assert seen.count <= 16 * len(text)
    assert seen.calls <= (20_000 if value.startswith(b"[[") else 100)
