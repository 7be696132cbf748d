"""Statuses of controllers, made by hand."""

from __future__ import annotations

import msgspec

from pyinformer.controller import ControllerStatus, NoopWriteStatus
from pyinformer.workqueue import Queue


def in_trouble(name: str) -> ControllerStatus:
    """Return the status of a controller that has a storm, failures and delays."""
    noops = NoopWriteStatus(
        writes=100,
        noops=56,
        noop_ratio=0.56,
        is_storm=True,
        top=(),
        breaker="open",
        held=60,
        held_total=60,
    )
    return ControllerStatus(
        name=name,
        is_running=True,
        has_synced=True,
        queue=msgspec.structs.replace(Queue[str](name=name).statistics(), delayed=2),
        workers=(),
        stuck=(),
        outcomes={"terminal": 3},
        given_up=2,
        failing=1,
        hot=(),
        hot_loops=(),
        noop_writes=noops,
        postponed=0,
        late_results=0,
        dropped=0,
        last_error="ValueError at x",
        sources=(),
    )
