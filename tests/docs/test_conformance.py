"""Every test of upstream is accounted for by its name, and each test that holds one exists."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from tests.docs import pages

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


@pytest.fixture
def conformance(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that writes the pages."""
    monkeypatch.syspath_prepend(str(pages.ROOT / "docs/_extensions"))
    monkeypatch.delitem(sys.modules, "conformance", raising=False)
    return importlib.import_module("conformance")


def test_each_row_is_held_by_a_test_or_says_why_not(conformance: ModuleType) -> None:
    assert conformance.mistakes(conformance.rows(), conformance.markers()) == []


def test_the_pages_are_up_to_date(conformance: ModuleType) -> None:
    found = {path.name: path.read_text(encoding="utf-8") for path in conformance.pages()}
    assert found == {path.name: text for path, text in conformance.pages().items()}, (
        "run: make conformance"
    )


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            '@pytest.mark.covers("p: TestOther")\ndef test_a(): ...',
            "no row is called 'p: TestOther'",
        ),
        ("def test_a(): ...", "no test covers 'p: TestHeld'"),
        (
            '@pytest.mark.covers("p: TestHeld", "p: TestGo")\ndef test_a(): ...',
            "absent, and covered",
        ),
        (
            'pytestmark = pytest.mark.covers("p: TestHeld")\ndef test_a(): ...',
            "the marker of a module outlives its tests: mark those of 'p: TestHeld' in test_a.py",
        ),
    ],
)
def test_a_test_that_vanished_or_is_marked_wrongly_is_a_mistake(
    conformance: ModuleType, tmp_path: Path, text: str, mistake: str
) -> None:
    (tmp_path / "test_a.py").write_text(text)
    rows = [
        conformance.Row("p", "a_test.go", ("TestHeld",)),
        conformance.Row("p", "a_test.go", ("TestGo",), absent="of Go"),
    ]
    assert mistake in "\n".join(conformance.mistakes(rows, conformance.markers(tmp_path)))


def test_a_marker_of_a_module_a_class_or_a_function_is_found(
    conformance: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "test_a.py").write_text(
        'pytestmark = [pytest.mark.real, pytest.mark.covers("p: One")]\n'
        '@pytest.mark.covers("p: Two")\nclass TestA:\n'
        '    @pytest.mark.covers("p: Three", "p: Two")\n    async def test_b(self): ...\n'
    )
    assert conformance.markers(tmp_path) == {
        "p: One": ["test_a.py"],
        "p: Two": ["test_a.py::TestA", "test_a.py::test_b"],
        "p: Three": ["test_a.py::test_b"],
    }
