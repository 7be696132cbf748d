"""The pages on the operators of docs/examples: their tests pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs import pages

if TYPE_CHECKING:
    from types import ModuleType

_REPLICATOR = "docs/howto/replicate-configmaps.md"  # its blocks of "python"
_INVALID = "docs/howto/invalid-objects.md"
_EXAMPLES = pages.ROOT / "docs/examples"


@pytest.fixture
def page(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of a page, which imports a program of docs/examples."""
    monkeypatch.syspath_prepend(_EXAMPLES)
    return pages.module_of(request.param)


@pytest.mark.parametrize("page", [_REPLICATOR], indirect=True)
def test_the_test_of_the_page_on_copies_passes(page: ModuleType) -> None:
    page.test_a_namespace_that_gets_the_label_gets_a_copy()


@pytest.mark.parametrize("page", [_INVALID], indirect=True)
def test_the_test_of_the_page_on_invalid_objects_passes(
    page: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    page.test_a_backup_recovers_when_it_is_corrected()

    assert "1 of 2 backups are invalid: ['shop/odd']" in caplog.text
