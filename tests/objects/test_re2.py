"""Patterns that Go's regexp refuses; `tests/foreign/test_re2.py` asks Go itself."""

from __future__ import annotations

import pytest

from pyinformer.objects import re2_problem, schema_causes
from tests.re2_patterns import ACCEPTED, REFUSED


@pytest.mark.parametrize("pattern", ACCEPTED)
def test_what_go_accepts_has_no_problem(pattern: str) -> None:
    assert re2_problem(pattern) is None


@pytest.mark.parametrize(("pattern", "words"), REFUSED.items())
def test_what_go_refuses_has_a_problem_that_names_it(pattern: str, words: str) -> None:
    problem = re2_problem(pattern)

    assert problem is not None
    assert words in problem


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"^[[:alpha:]_-]+$", "a_-", True),
        (r"^[^[:space:]]+$", "a b", False),
        (r"^[][]+$", "[]", True),
        (r"^[:alpha:]+$", "alph:", True),
        (r"^[&&a||~~[]+$", "&a|~[", True),
        (r"^a{,3}$", "a{,3}", True),
        (r"^[a$]\$$", "$$", True),
        (r"^(a|b$)", "b\n", False),
        (r"(?m)^a$", "b\na\n", True),
        (r"^\d\z", "1", True),
        (r"^\d$", "\u0661", False),
        (r"^(?<name>a)$", "b", False),
        (r"^\pL$", "1", True),  # Python has no such classes, so it is not checked
        (r"^[%--]$", "z", True),  # Python warns of this range, so it is not checked
    ],
)
def test_a_pattern_matches_as_in_go(pattern: str, text: str, *, matches: bool) -> None:
    """What Python reads otherwise neither refuses what the server takes, nor warns."""
    assert any(schema_causes(text, {"type": "string", "pattern": pattern})) is not matches
