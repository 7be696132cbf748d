"""The reports from the field: each once, with a verdict and a test, and an honest figure."""

from __future__ import annotations

import re

from tests.docs.named_tests import ROOT, malformed_names, missing_tests, named_tests

_PAGE = (ROOT / "docs/reference/field-reports.md").read_text(encoding="utf-8")
_ROWS = re.findall(
    r"^\| \[(\S+)\]\((\S+)\) \| (.+) \| (right|fault) \| (.+) \|$", _PAGE, re.MULTILINE
)
_FIGURE = re.compile(r"\*\*(\d+) reports were tried; (\d+) of them were right at the first try")


def test_the_figure_is_that_of_the_table() -> None:
    found = _FIGURE.search(_PAGE)
    assert found is not None
    right = sum(row[3] == "right" for row in _ROWS)
    assert (int(found[1]), int(found[2])) == (len(_ROWS), right)
    assert len(_ROWS) == _PAGE.count("\n| [")


def test_each_report_is_listed_once_at_its_address() -> None:
    reports = [row[0] for row in _ROWS]
    assert len(set(reports)) == len(reports)
    for report, url, *_ in _ROWS:
        repository, _, number = report.partition("#")
        assert url == f"https://github.com/{repository}/issues/{number}"


def test_each_report_names_a_test_that_exists() -> None:
    assert all(named_tests(row[4]) for row in _ROWS)
    assert missing_tests(_PAGE) == []
    assert malformed_names(_PAGE) == []
