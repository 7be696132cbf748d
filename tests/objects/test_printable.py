"""Texts of objects never put control characters on a terminal: errors show them, escaped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.errors import InformerError


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
    assert str(InformerError(text)) == shown


@given(st.text())
def test_no_non_printable_character_remains(text: str) -> None:
    assert str(InformerError(text)).isprintable()
