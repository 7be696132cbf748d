"""The picture of an event's way shows every station, and the imports of the code."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

_DOCS = Path(__file__).parents[2] / "docs"
_PAGE = _DOCS / "explanation/how-sync-works.md"


@pytest.fixture
def stations(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The extension that draws the picture."""
    monkeypatch.syspath_prepend(str(_DOCS / "_extensions"))
    monkeypatch.delitem(sys.modules, "stations", raising=False)
    return importlib.import_module("stations")


def words(svg: str) -> list[str]:
    """Return the texts of an SVG."""
    return [one.text or "" for one in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314 - our own


def test_each_station_of_the_page_is_drawn_before_and_now(stations: ModuleType) -> None:
    page = _PAGE.read_text(encoding="utf-8")
    texts = words(stations.picture(page))
    shown = [found[1] for text in texts if (found := re.match(r"([\w.]+) \(", text))]

    assert stations.MARKER in page
    assert shown == 2 * stations.stations_of(page)


def test_only_imports_at_run_time_between_stations_count(
    stations: ModuleType, tmp_path: Path
) -> None:
    for folder in ("cache/store", "cache/informer"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "cache/store/_lister.py").write_text("from pyinformer.errors import X\nimport os\n")
    (tmp_path / "cache/informer/_factory.py").write_text(
        "if TYPE_CHECKING:\n    from pyinformer.cache.store import A\n"
    )
    (tmp_path / "cache/informer/_events.py").write_text(
        "from pyinformer.cache.store import A, B\ndef f():\n    import pyinformer.cache.store\n"
    )

    counts = stations.count(tmp_path, ["cache.store", "cache.informer"])

    assert counts == {
        "modules": {"cache.store": 1, "cache.informer": 2},
        "imports": {"cache.store": {}, "cache.informer": {"cache.store": 1}},
    }
