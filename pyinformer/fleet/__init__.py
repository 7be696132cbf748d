"""Programs of many clusters that come and go: a pool opens them, a group runs their controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer._runtime.late_names import late_getattr

if TYPE_CHECKING:
    from pyinformer.fleet._fleet import Fleet as Fleet
    from pyinformer.fleet._status import (
        FleetClusterState,
        FleetClusterStatus,
        FleetStatus,
    )

# Loaded when they are first used.
_HOMES = {
    "Fleet": "_fleet",
    "FleetClusterState": "_status",
    "FleetClusterStatus": "_status",
    "FleetStatus": "_status",
}

__all__ = [
    "Fleet",
    "FleetClusterState",
    "FleetClusterStatus",
    "FleetStatus",
]

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__ = late_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
