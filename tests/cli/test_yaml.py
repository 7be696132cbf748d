"""`get -o yaml`: the same values as JSON, for people, and printable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
import yaml

from pyinformer.cli.output import yaml_document, yaml_item
from pyinformer.objects import load_yaml

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject


def _raw(value: JSONObject) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"yes": "no", "n": "1", "date": "2026-11-22", "null": "~"}, id="look-alikes"),
        pytest.param({"a": None, "b": [True, 1.5, 2**63], "c": {}, "d": []}, id="types"),
        pytest.param({"conf": "a: 1\nb: 2\n", "tail": "x \n\ny"}, id="lines"),
        pytest.param({"a": "größe \u202e \x1b[31m \x85 \u2028 \ufeff \x7f"}, id="not-printable"),
        pytest.param({"a": "größe"}, id="printable"),
        pytest.param({"a": ["word " * 100]}, id="long"),
    ],
)
def test_yaml_has_the_values_of_the_json(value: JSONObject) -> None:
    document, item = yaml_document(_raw(value)), yaml_item(_raw(value))

    assert yaml.safe_load(document) == value
    assert yaml.safe_load(f"items:\n{item}") == {"items": [value]}
    assert document.replace("\n", "").isprintable()


def test_a_text_of_several_lines_is_a_block_and_others_are_not_folded() -> None:
    text = yaml_document(_raw({"conf": "a: 1\nb: 2\n", "long": "word " * 100 + "end"}))

    assert text == f"conf: |\n  a: 1\n  b: 2\nlong: {'word ' * 100}end\n"


def test_repeated_values_are_written_in_full() -> None:
    labels = {"app": "web"}

    assert yaml_document(_raw({"a": labels, "b": labels})) == "a:\n  app: web\nb:\n  app: web\n"


@pytest.mark.parametrize("levels", [60, 900, 5_000])
def test_the_text_of_a_deep_object_does_not_grow_with_its_indents(levels: int) -> None:
    text = b'{"a":"1e3 \\ud83d\\ude00"}'
    for _ in range(levels):
        text = b'{"y":%b}' % text
    raw = msgspec.Raw(text)

    document, item = yaml_document(raw), yaml_item(raw)

    assert len(document) < 10 * len(text) + 10_000
    found = load_yaml(document, max_depth=10_000)
    (listed,) = load_yaml(item, max_depth=10_000)
    for _ in range(levels):
        found, listed = found["y"], listed["y"]
    assert found == listed == {"a": "1e3 \U0001f600"}
