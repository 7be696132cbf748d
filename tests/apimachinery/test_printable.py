"""Texts of objects never put control characters on a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer._printable import printable, printable_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("web-1", "web-1", id="plain"),
        pytest.param("grün 東京", "grün 東京", id="letters"),
        pytest.param("\x1b[31mred", "\\x1b[31mred", id="colour"),
        pytest.param("a\nb\r\tc", "a\\nb\\r\\tc", id="lines"),
        pytest.param("\x9b2J", "\\x9b2J", id="c1"),
        pytest.param("abc\u202edef", "abc\\u202edef", id="direction"),
        pytest.param("\U000e0041", "\\U000e0041", id="tag"),
    ],
)
def test_non_printable_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_no_non_printable_character_remains(text: str) -> None:
    assert printable(text).isprintable()
    assert printable_json(json.dumps(text, ensure_ascii=False)).isprintable()


@given(st.text())
def test_escaping_does_not_change_the_meaning_of_json(text: str) -> None:
    written = json.dumps({text: [text]}, ensure_ascii=False, separators=(",", ":"))

    assert json.loads(printable_json(written)) == {text: [text]}
