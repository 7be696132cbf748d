"""The page on kopf shows the tests that cannot hold, and its tables can be written again."""

from __future__ import annotations

import re

import pytest

from tests.docs.named_tests import ROOT
from tests.kopf_proofs.suite import CANNOT_HOLD
from tests.kopf_proofs.table import page_with

_PAGE = (ROOT / "docs/reference/kopf.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `(tests/.+?)` \| \d+ \| (.+) \|$", re.MULTILINE)


def test_the_page_shows_the_tests_that_cannot_hold() -> None:
    assert dict(_ROW.findall(_PAGE)) == CANNOT_HOLD


@pytest.mark.parametrize("server", ["the embedded server", "a real kube-apiserver"])
def test_a_table_is_written_again_without_the_other_sections(server: str) -> None:
    heading = f"## Outages, on {server}\n"
    before, after = _PAGE.split(heading)
    section, _, others = after.partition("\n## ")

    assert page_with(_PAGE, heading, section) == _PAGE
    assert page_with(_PAGE, heading, "\nnew\n") == f"{before}{heading}\nnew\n\n## {others}"
