"""The catalogue of failures: every number once, every verdict with its reason, every test real."""

from __future__ import annotations

import re

import pytest

from tests.docs.named_tests import ROOT, malformed_names, missing_tests, named_tests

_PAGE = (ROOT / "docs/reference/failure-catalogue.md").read_text(encoding="utf-8")
_ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in _PAGE.splitlines()
    if re.match(r"\| C\d", line)
]


def test_each_of_the_72_failures_is_listed_once() -> None:
    assert [row[0] for row in _ROWS] == [f"C{number:02}" for number in range(1, 73)]
    assert {len(row) for row in _ROWS} == {4}


def test_every_classification_has_its_reason() -> None:
    """What is guarded names its tests; what is not says why in words."""
    for number, failure, verdict, reason in _ROWS:
        assert failure.endswith("."), number
        if verdict == "guarded":
            assert named_tests(reason), number
        else:
            assert verdict in {"not applicable", "open"}, number
            assert reason.endswith("."), number


def test_every_named_test_exists() -> None:
    assert missing_tests(_PAGE) == []
    assert malformed_names(_PAGE) == []


@pytest.mark.parametrize(
    ("text", "missing", "malformed"),
    [
        pytest.param(
            "`docs/test_failure_catalogue.py::test_every_named_test_exists`", 0, 0, id="is"
        ),
        pytest.param(
            "`docs/test_failure_catalogue.py::test_that_nobody_wrote`", 1, 0, id="no-test"
        ),
        pytest.param("`docs/test_nothing.py::test_every_named_test_exists`", 1, 0, id="no-file"),
        pytest.param("`docs/named_tests.py::named_tests`", 1, 0, id="no-test-file"),
        pytest.param("`test_every_named_test_exists`", 0, 1, id="without-its-file"),
    ],
)
def test_a_missing_name_is_found(text: str, missing: int, malformed: int) -> None:
    assert len(missing_tests(text)) == missing
    assert len(malformed_names(text)) == malformed
