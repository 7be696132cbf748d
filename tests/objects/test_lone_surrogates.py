r"""Halves of surrogate pairs in JSON: no characters, and read as U+FFFD, as by Go.

Encoders of Java, JavaScript and Python write them as `\ud800`. JSON's grammar allows that.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.objects import without_lone_surrogates

_texts = st.text(st.characters(codec=None) | st.sampled_from('\\ud\ud800\udc00"😀'))


@given(_texts)
def test_a_text_is_read_as_if_halves_were_no_characters(text: str) -> None:
    encoded = json.dumps(text).encode()
    mended = without_lone_surrogates(encoded)
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    halves = [one for one in json.loads(mended) if "\ud800" <= one <= "\udfff"]
    assert halves == []
    assert len(mended) == len(encoded)
    if not any("\ud800" <= one <= "\udfff" for one in text):
        assert json.loads(mended) == text == joined


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (rb'"\ud800"', "\ufffd"),
        (rb'"\uDFFFx"', "\ufffdx"),
        (rb'"\ud83d\ude00"', "😀"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd😀"),
        (rb'"\ude00\ud83d"', "\ufffd\ufffd"),
        (rb'"\\ud800"', "\\ud800"),
        (rb'"\\\ud800"', "\\\ufffd"),
    ],
)
def test_only_a_half_without_its_other_half_is_replaced(text: bytes, read: str) -> None:
    assert json.loads(without_lone_surrogates(text)) == read
