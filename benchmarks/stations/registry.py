"""The stations that are measured, each a small function with a name.

A station's function makes everything again, untimed, and returns the work that is timed: one pass,
which returns how many operations it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks.stations.material import Material

Work: TypeAlias = Callable[[], int]
"""One pass; returns how many operations it was."""

Prepare: TypeAlias = Callable[[Material], Work]


@dataclass(frozen=True, slots=True)
class Station:
    """What is measured, and under which name."""

    name: str
    does: str
    prepare: Prepare


STATIONS: dict[str, Station] = {}


def station(name: str) -> Callable[[Prepare], Prepare]:
    """Register a function; its docstring's first line says what an operation is."""

    def register(prepare: Prepare) -> Prepare:
        does = (prepare.__doc__ or "").partition("\n")[0].rstrip(".")
        STATIONS[name] = Station(name, does, prepare)
        return prepare

    return register
