"""Read the fields of a status page without trusting it: it may be older, or of another program.

A field that is missing, or of another type, is recorded and read as unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import final


@final
class PageFields:
    """The fields of one record of a page.

    Args:
        value: the record; anything but a mapping has no fields.
        path: where it is in the page, such as `informers[]`.
        missing: receives the path of each field that could not be read.
    """

    __slots__ = ("_missing", "_path", "_values")

    def __init__(self, value: object, path: str = "", missing: set[str] | None = None) -> None:
        self._values: Mapping[object, object] = value if isinstance(value, Mapping) else {}
        self._path = path
        self._missing = set[str]() if missing is None else missing

    @property
    def missing(self) -> tuple[str, ...]:
        """The paths that could not be read in this page so far."""
        return tuple(sorted(self._missing))

    def has(self, name: str) -> bool:
        """Return whether there is such a field."""
        return name in self._values

    def number(self, name: str) -> float | None:
        """Return a number; None if it is unknown, or null."""
        value = self._values.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                if math.isfinite(value):
                    return float(value)
            except OverflowError:  # an integer beyond the largest float
                pass
        if value is not None or name not in self._values:
            self._note(name)
        return None

    def count(self, name: str) -> int:
        """Return a number of things; 0 if it is unknown."""
        return int(self.number(name) or 0)

    def seconds(self, name: str) -> float:
        """Return a duration; 0 if it is unknown."""
        return self.number(name) or 0.0

    def text(self, name: str) -> str:
        """Return a text; empty if it is unknown, or null."""
        value = self._values.get(name)
        if isinstance(value, str):
            return value
        if value is not None or name not in self._values:
            self._note(name)
        return ""

    def flag(self, name: str) -> bool | None:
        """Return a truth value; None if it is unknown."""
        value = self._values.get(name)
        if isinstance(value, bool):
            return value
        self._note(name)
        return None

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; empty if it is unknown."""
        return [one for one in self._list(name) if isinstance(one, str)]

    def records(self, name: str) -> list[PageFields]:
        """Return a list of records; empty if it is unknown."""
        path = self._join(f"{name}[]")
        return [PageFields(one, path, self._missing) for one in self._list(name)]

    def record(self, name: str) -> PageFields | None:
        """Return a record; None if it is unknown, or null."""
        value = self._values.get(name)
        if isinstance(value, Mapping):
            return PageFields(value, self._join(name), self._missing)
        if value is not None or name not in self._values:
            self._note(name)
        return None

    def _list(self, name: str) -> list[object]:
        value = self._values.get(name)
        if isinstance(value, list | tuple):
            return list(value)
        self._note(name)
        return []

    def _note(self, name: str) -> None:
        self._missing.add(self._join(name))

    def _join(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name
