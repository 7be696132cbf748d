"""The page of guarantees: each is proven by tests that exist, each default is that of the code."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.named_tests import ROOT, malformed_names, missing_tests, named_tests
from tests.gates.test_exports import PUBLIC

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = (ROOT / "docs/reference/guarantees.md").read_text(encoding="utf-8")
_SWITCHES = re.findall(r"^\| `([\w.]+)` \| `(.+?)` \| .+ \|$", _PAGE, re.MULTILINE)
_CASES = [line for line in _PAGE.splitlines() if line.startswith("| ") and "::test_" in line]
_PROOF = re.compile(r"^  - `.+`$", re.MULTILINE)


def guarantees() -> Iterator[str]:
    """Give each guarantee with the proofs below it."""
    for found in re.split(r"^- ", _PAGE, flags=re.MULTILINE)[1:]:
        yield found.partition("\n\n")[0]


def default_of(setting: str) -> object:
    """Look up the default of an option, or of an argument of a class or a method."""
    owner, _, name = setting.rpartition(".")
    first = owner.partition(".")[0]
    namespaces = map(importlib.import_module, PUBLIC)
    found: Any = attrgetter(owner)(next(one for one in namespaces if hasattr(one, first)))
    if dataclasses.is_dataclass(found):
        field = {each.name: each for each in dataclasses.fields(found)}[name]
        made = field.default_factory
        return field.default if made is dataclasses.MISSING else made()
    return inspect.signature(found).parameters[name].default


def test_every_guarantee_is_proven() -> None:
    unproven = [one for one in guarantees() if not named_tests(one)]
    assert unproven == []
    assert len(list(guarantees())) > 60
    assert all(named_tests(line) for line in _PROOF.findall(_PAGE))


def test_every_row_of_the_rules_is_proven() -> None:
    heading = "## The rules for events and lists, row by row"
    rows = _PAGE.partition(heading)[2].partition("\n## ")[0]
    cases = [line for line in rows.splitlines() if line.startswith("| ")][1:]
    assert len(cases) > 30
    assert cases == _CASES


def test_every_named_test_exists() -> None:
    assert missing_tests(_PAGE) == []
    assert malformed_names(_PAGE) == []


def test_the_page_lists_options() -> None:
    assert len(_SWITCHES) > 15
    assert len(dict(_SWITCHES)) == len(_SWITCHES)


@pytest.mark.parametrize(("setting", "default"), _SWITCHES, ids=[name for name, _ in _SWITCHES])
def test_the_default_of_a_switch_is_that_of_the_code(setting: str, default: str) -> None:
    assert repr(default_of(setting)) == default
