"""The page of kopf's own tests shows those that cannot hold, each with its reason."""

from __future__ import annotations

import re

from tests.docs.named_tests import ROOT
from tests.kopf_proofs.suite import CANNOT_HOLD

_PAGE = (ROOT / "docs/reference/kopf-tests.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `(tests/.+?)` \| \d+ \| (.+) \|$", re.MULTILINE)


def test_the_page_shows_the_tests_that_cannot_hold() -> None:
    assert dict(_ROW.findall(_PAGE)) == CANNOT_HOLD
