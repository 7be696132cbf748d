"""The page on memory modes: what it shows runs, and names all modes there are."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_args

import pytest

from pyinformer.cache.informer import Memory
from tests.cache.informer.clusters import cluster_of, pod

if TYPE_CHECKING:
    from pyinformer.testing import APIServer

_PAGE = Path(__file__).parents[2] / "docs/howto/memory-modes.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ROW = re.compile(r'^\| `"(\w+)"` \|', re.MULTILINE)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page defines."""
    module = ModuleType("memory_modes")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in _BLOCK.findall(_PAGE.read_text(encoding="utf-8")):
        exec(compile(block, str(_PAGE), "exec"), module.__dict__)  # noqa: S102 - our own page
    return module.__dict__


async def test_the_program_of_the_page_prints_the_images_of_pending_pods(
    apiserver: APIServer, shown: dict[str, Any]
) -> None:
    apiserver.create({**pod("a"), "status": {"phase": "Pending"}})
    apiserver.create({**pod("b"), "status": {"phase": "Running"}})
    async with cluster_of(apiserver) as cluster:
        assert await shown["waiting_images"](cluster) == ["x"]


def test_the_page_names_every_mode() -> None:
    rows = _ROW.findall(_PAGE.read_text(encoding="utf-8"))

    assert sorted(rows) == sorted(get_args(Memory))
