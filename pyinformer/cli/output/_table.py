"""Tables of objects: one row for each, with the columns of its kind.

Rows are not kept: a table of a hundred thousand rows is computed twice, once for the widths of the
columns and once to print it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, final

from pyinformer._printable import printable
from pyinformer.cli.output._kind_columns import Cells, KindColumns, columns_of
from pyinformer.errors import InvalidObjectError
from pyinformer.objects import KubeObject

Object: TypeAlias = KubeObject[Any]

_GAP: Final = "   "
_NONE: Final = "<none>"
_UNREADABLE: Final = "?"
_ROWS_AT_ONCE: Final = 1000
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Which columns a table has."""

    is_wide: bool = False
    with_namespace: bool = False
    metadata_only: bool = False
    now: float = 0.0
    """The current time, in seconds of the Unix epoch, for the ages."""

    def headings(self, kind: KindColumns) -> tuple[str, ...]:
        """Return the headings for a kind."""
        first = ("NAMESPACE", "NAME") if self.with_namespace else ("NAME",)
        wide = (*kind.wide, "LABELS") if self.is_wide else ()
        return (*first, *kind.headings, "AGE", *wide)

    def columns(self, obj: Object) -> KindColumns:
        """Return the columns of an object's kind."""
        return columns_of("" if self.metadata_only else obj.gvk.kind, obj.gvk.group)

    def cells(self, obj: Object, kind: KindColumns) -> tuple[str, ...]:
        """Return the row of an object under the headings of a kind."""
        meta = obj.metadata
        first = (meta.namespace, meta.name) if self.with_namespace else (meta.name,)
        known, wide = read_cells(obj, kind)
        row = (*first, *known, age_text(meta.creation_timestamp, self.now))
        if self.is_wide:
            row = (*row, *wide, labels_text(obj))
        return tuple(printable(cell) or _NONE for cell in row)


def read_cells(obj: Object, kind: KindColumns) -> tuple[Cells, Cells]:
    """Return the cells of the columns of a kind, and those of its wide columns."""
    if kind.read is None:
        return (), ()
    try:
        found = kind.read(obj)
    except InvalidObjectError:
        return (_UNREADABLE,) * len(kind.headings), (_UNREADABLE,) * len(kind.wide)
    return found[: len(kind.headings)], found[len(kind.headings) :]


def facts_of(obj: Object, layout: Layout) -> str:
    """Return the cells of an object as one text: `ready=1/1 status=Running`."""
    kind = layout.columns(obj)
    known, wide = read_cells(obj, kind)
    headings = (*kind.headings, *kind.wide)
    cells = (*known, *wide)[: None if layout.is_wide else len(known)]
    return " ".join(
        f"{heading.lower()}={printable(cell)}"
        for heading, cell in zip(headings, cells, strict=False)
        if cell
    )


def table_of(
    objects: Sequence[Object], layout: Layout, *, heading: Callable[[str], str] = str
) -> Iterator[str]:
    """Yield a table in chunks of many lines.

    Args:
        objects: the objects in the order of the rows; all of one kind.
        layout: which columns the table has.
        heading: styles the first line.
    """
    if not objects:
        return
    kind = layout.columns(objects[0])
    headings = layout.headings(kind)
    widths = [len(one) for one in headings]
    for obj in objects:
        for place, cell in enumerate(layout.cells(obj, kind)):
            if len(cell) > widths[place] or not cell.isascii():
                widths[place] = max(widths[place], _width(cell))
    yield f"{heading(_line(headings, widths))}\n"
    for start in range(0, len(objects), _ROWS_AT_ONCE):
        some = objects[start : start + _ROWS_AT_ONCE]
        yield "".join(f"{_line(layout.cells(obj, kind), widths)}\n" for obj in some)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell.ljust(width) if cell.isascii() else cell + " " * (width - _width(cell))
        for cell, width in zip(cells, widths, strict=True)
    )
    return _GAP.join(padded).rstrip()


def _width(cell: str) -> int:
    """Return the width of a text on a terminal."""
    if cell.isascii():
        return len(cell)
    from rich.cells import cell_len  # imported only for non-ASCII text: it takes a megabyte

    return cell_len(cell)


def labels_text(obj: Object) -> str:
    """Return the labels of an object in the syntax of a selector."""
    labels: Mapping[str, str] = obj.metadata.labels
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def age_text(created: str | None, now: float) -> str:
    """Return the age of an object, in at most two units: `3m10s`, `5h`, `12d`."""
    try:
        began = datetime.fromisoformat(created or "").astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return ""
    seconds = max(0, int(now - began))
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if seconds < 10 * _MINUTE:
        return f"{seconds // _MINUTE}m{seconds % _MINUTE or ''}{'s' if seconds % _MINUTE else ''}"
    for unit, name, most in ((_MINUTE, "m", 3 * _HOUR), (_HOUR, "h", 2 * _DAY)):
        if seconds < most:
            return f"{seconds // unit}{name}"
    return f"{seconds // _DAY}d" if seconds < 2 * _YEAR else f"{seconds // _YEAR}y"
