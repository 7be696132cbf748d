"""YAML of Kubernetes: what Go reads in a text, and texts that every reader reads as the values."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import example, given, settings

from pyinformer.objects import (
    YAMLError,
    dump_yaml,
    dump_yaml_documents,
    json_as_yaml,
    json_for_yaml,
    load_yaml,
    yaml_scalar,
)
from tests import go_yaml
from tests.go_yaml import DOCUMENTS, KEYS, REFUSED, SCALARS, same
from tests.soak import examples


@pytest.fixture(params=["libyaml", "python"])
def _parsers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use PyYAML with libyaml, and as it is where there is none."""
    if request.param == "python":
        monkeypatch.delattr(yaml, "CSafeLoader")
        monkeypatch.delattr(yaml, "CSafeDumper")


@pytest.mark.usefixtures("_parsers")
def test_scalars_are_read_as_go_reads_them() -> None:
    read = {text: load_yaml(f"a: {text}\n")["a"] for text in SCALARS}

    assert {text: value for text, value in read.items() if not same(value, SCALARS[text])} == {}


@pytest.mark.usefixtures("_parsers")
def test_keys_become_the_texts_that_go_makes_of_them() -> None:
    assert {key: [*load_yaml(f"{key}: 1\n")] for key in KEYS} == {
        key: [name] for key, name in KEYS.items()
    }


@pytest.mark.parametrize(("text", "value"), DOCUMENTS.items())
def test_documents_are_read_as_go_reads_them(text: str, value: Any) -> None:
    assert same(load_yaml(text), value)
    assert same(load_yaml(text.encode()), value)


@pytest.mark.parametrize("text", REFUSED)
def test_what_go_refuses_is_refused(text: str) -> None:
    with pytest.raises(YAMLError):
        load_yaml(text)


def test_the_values_of_an_alias_are_copies() -> None:
    found = load_yaml("a: &x {y: [1]}\nb: *x\nc: {<<: *x}")

    found["a"]["true"].append(2)
    assert found == {"a": {"true": [1, 2]}, "b": {"true": [1]}, "c": {"true": [1]}}


def test_utf_16_is_read_where_a_mark_says_so() -> None:
    assert load_yaml("a: größe".encode("utf-16")) == {"a": "größe"}
    assert load_yaml("\ufeffa: größe".encode()) == {"a": "größe"}
    with pytest.raises(YAMLError, match="must be UTF-8"):
        load_yaml(b"a: \xff")
    with pytest.raises(YAMLError, match="must be UTF-8"):
        load_yaml("a: \ud800")


@pytest.mark.parametrize(
    ("text", "line"), [("a:\n  b: [\n\n\n", 2), ("a: 1\nb: .inf\n", 2), ("a: 1\nb: c: d\n", 2)]
)
def test_an_error_names_the_line_and_not_the_text(text: str, line: int) -> None:
    with pytest.raises(YAMLError) as raised:
        load_yaml(text)

    assert raised.value.line == line
    assert str(raised.value) == f"line {line}: {raised.value.problem}"


def test_limits_are_kept_without_building_what_is_over_them() -> None:
    laughs = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60)
    )
    tracemalloc.start()
    with pytest.raises(YAMLError, match="excessive aliasing"):
        load_yaml(laughs)
    with pytest.raises(YAMLError, match="must not have more than 100 values"):
        load_yaml(laughs, max_values=100)
    with pytest.raises(YAMLError, match="nested deeper than 3 levels"):
        load_yaml("a: {b: {c: {}}}", max_depth=3)
    with pytest.raises(YAMLError, match="nested deeper than 512 levels"):
        load_yaml("[" * 100_000)
    chain = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 30))
    with pytest.raises(YAMLError, match="line 20: must not be nested deeper than 20 levels"):
        load_yaml(chain, max_depth=20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
    assert load_yaml("a: {b: {c: 1}}", max_depth=3) == {"a": {"b": {"c": 1}}}


@pytest.mark.usefixtures("_parsers")
@settings(max_examples=examples(100), deadline=None)
@given(value=go_yaml.values)
def test_what_is_printed_is_read_as_the_same_value(value: Any) -> None:
    printed = dump_yaml(value)

    assert printed.replace("\n", "").isprintable()
    assert same(load_yaml(printed), value)
    assert same(yaml.safe_load(printed), value)
    first, second = yaml.safe_load_all(dump_yaml_documents([value, value]))
    assert same(first, value)
    assert same(second, value)


@settings(max_examples=examples(100), deadline=None)
@given(value=go_yaml.values)
@example(value={"\xad" * 300: 1})  # too long for a key once it is escaped
def test_json_for_yaml_is_the_same_value_in_both(value: Any) -> None:
    raw = msgspec.json.encode(value)

    text = json_for_yaml(raw)

    if b"? " not in text:
        assert same(json.loads(text), value)
    assert same(load_yaml(text), value)
    line = json_as_yaml(raw)
    assert line.isprintable()
    assert same(load_yaml(line), value)


@settings(max_examples=examples(100), deadline=None)
@given(text=go_yaml.texts)
def test_a_scalar_for_a_template_is_a_text_of_one_line(text: str) -> None:
    scalar = yaml_scalar(text)

    assert scalar.isprintable()
    assert load_yaml(f"a: {scalar}\nb: 1") == {"a": text, "b": 1}


def test_plain_texts_stay_plain_in_templates() -> None:
    texts = ["web", "registry:5000/team/op:1.2.3", "op@sha256:0a", "my-op"]

    assert [yaml_scalar(text) for text in texts] == texts
    assert [yaml_scalar(text) for text in ("y", "1e3", "a b", "")] == [
        '"y"',
        '"1e3"',
        '"a b"',
        '""',
    ]


def test_words_of_other_dialects_are_quoted_as_keys_and_values() -> None:
    words = ["y", "n", "08", "1e3", "7e12", "0o17", "22:22", "2026-01-01", "=", "~", ""]

    printed = dump_yaml({word: [word] for word in words})

    lines = printed.splitlines()
    assert lines[0::2] == [f"'{word}':" for word in words]
    assert lines[1::2] == [f"- '{word}'" for word in words]
    assert dump_yaml({"image": "nginx:1.27", "cpu": "50m", "ip": "10.0.0.1"}) == (
        "image: nginx:1.27\ncpu: 50m\nip: 10.0.0.1\n"
    )
