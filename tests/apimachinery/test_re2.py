"""Patterns that Go's regexp refuses; `tests/foreign/test_re2.py` asks Go itself."""

from __future__ import annotations

import pytest

from pyinformer.apimachinery import re2_problem
from tests.re2_patterns import ACCEPTED, REFUSED


@pytest.mark.parametrize("pattern", ACCEPTED)
def test_what_go_accepts_has_no_problem(pattern: str) -> None:
    assert re2_problem(pattern) is None


@pytest.mark.parametrize(("pattern", "words"), REFUSED.items())
def test_what_go_refuses_has_a_problem_that_names_it(pattern: str, words: str) -> None:
    problem = re2_problem(pattern)

    assert problem is not None
    assert words in problem
