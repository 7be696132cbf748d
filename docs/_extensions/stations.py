"""Draw the rooms that an event passes as stations, and the imports between them, as SVG.

The imports of today are read from the code when the documentation is built. Those of commit 03dee5d
are kept in `stations_before.json`, under the names of today; for that commit's package and its
folders as arguments, `python docs/_extensions/stations.py` prints them.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MARKER: Final = "<!-- picture: the stations and their imports -->"
_DOCS: Final = Path(__file__).resolve().parents[1]
_BEFORE: Final = Path(__file__).with_name("stations_before.json")
_STATION: Final = re.compile(r"^\d+\. `([\w.]+)`", re.MULTILINE)
_ROW, _BOX, _HEIGHT, _SIDE, _STEP = 54, 180, 30, 130, 20


class Counts(TypedDict):
    """The size of each folder, and its imports."""

    modules: dict[str, int]
    """Modules by folder."""
    imports: dict[str, dict[str, int]]
    """How many modules of a folder (outer key) import another folder (inner key) at run time."""


def stations_of(page: str) -> list[str]:
    """Return the folders that a page numbers, in its order."""
    return _STATION.findall(page)


def count(package: Path, stations: Sequence[str]) -> Counts:
    """Read the modules of the stations, and which of them import another station."""
    counts: Counts = {"modules": {}, "imports": {}}
    for station in stations:
        folder = package.joinpath(*station.split("."))
        inner = [package.joinpath(*one.split(".")) for one in stations if one != station]
        modules = sorted(
            path
            for path in folder.rglob("*.py")
            if not any(folder in one.parents and one in path.parents for one in inner)
        )
        counts["modules"][station] = len(modules)
        row = counts["imports"][station] = {}
        for module in modules:
            tree = ast.parse(module.read_text(encoding="utf-8"))
            for other in sorted(set(_imported_folders(tree)) & set(stations) - {station}):
                row[other] = row.get(other, 0) + 1
    return counts


def picture(page: str) -> str:
    """Return the SVG for a page's stations: before on the left, now on the right."""
    stations = stations_of(page)
    before: Counts = json.loads(_BEFORE.read_text(encoding="utf-8"))  # noqa: TID251 - ours
    now = count(_DOCS.parent / "pyinformer", stations)
    panel = _BOX + 2 * _SIDE
    height = _ROW * len(stations) + 50
    body = [*_panel("before", before, stations, 0), *_panel("now", now, stations, panel + 20)]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * panel + 20} {height}" '
        'role="img" aria-label="the stations of an event and the imports between them" '
        'font-family="sans-serif" font-size="12" fill="currentColor" text-anchor="middle">'
    )
    return "\n".join([head, *body, "</svg>"])


def _imported_folders(node: ast.AST) -> Iterator[str]:
    """Yield the rooms and wings of the package that code imports at run time."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        names = [one.name for one in child.names] if isinstance(child, ast.Import) else []
        if isinstance(child, ast.ImportFrom):
            names = [f"{child.module}.{one.name}" for one in child.names]
        for name in names:
            package, *rooms = name.split(".")
            if package == "pyinformer":
                yield rooms[0]
                yield ".".join(rooms[:2])
        yield from _imported_folders(child)


def _panel(title: str, counts: Counts, stations: Sequence[str], left: int) -> Iterator[str]:
    """Draw a box for each station, and a curve for each pair of which one imports the other."""
    middle = left + _SIDE + _BOX // 2
    total = sum(sum(row.values()) for row in counts["imports"].values())
    modules = sum(counts["modules"].values())
    yield f'<text x="{middle}" y="16">{title}: {modules} modules, {total} imports</text>'
    for importer, row in counts["imports"].items():
        for imported, number in row.items():
            yield from _curve(stations.index(importer), stations.index(imported), number, middle)
    for place, station in enumerate(stations):
        top = 30 + place * _ROW
        yield (
            f'<rect x="{middle - _BOX // 2}" y="{top}" width="{_BOX}" height="{_HEIGHT}" rx="6" '
            'fill="none" stroke="currentColor"/>'
        )
        words = f"{station} ({counts['modules'][station]} modules)"
        yield f'<text x="{middle}" y="{top + 20}">{words}</text>'


def _curve(importer: int, imported: int, number: int, middle: int) -> Iterator[str]:
    """Draw an import: on the right of the boxes if it goes up, on the left if it goes down."""
    side = 1 if imported < importer else -1
    edge = middle + side * _BOX // 2
    reach = edge + side * _STEP * abs(importer - imported)
    middle_y = 30 + _HEIGHT // 2 + (importer + imported) * _ROW // 2
    start, end = (30 + _HEIGHT // 2 + place * _ROW for place in (importer, imported))
    control = 2 * reach - edge
    yield (
        f'<path d="M{edge} {start}Q{control} {middle_y} {edge} {end}" fill="none" '
        f'stroke="currentColor" stroke-opacity="0.4" stroke-width="{1 + number / 6:.1f}"/>'
    )
    yield f'<text x="{reach + 9 * side}" y="{middle_y + 4}" font-size="11">{number}</text>'


if __name__ == "__main__":
    sys.stdout.write(json.dumps(count(Path(sys.argv[1]), sys.argv[2:]), indent=2) + "\n")
