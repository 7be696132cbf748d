"""Smaller limits of label indexes: caches of a few objects make and drop them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer.cache.store import _label_queries

if TYPE_CHECKING:
    import pytest


def lower_limits(
    patch: pytest.MonkeyPatch,
    *,
    reads_before: int = 0,
    least_log: int | None = None,
    most_indexes: int | None = None,
    idle_reads: int | None = None,
) -> None:
    """Let caches of any size have label indexes.

    Args:
        patch: restores the limits.
        reads_before: how many reads by a label precede its index.
        least_log: how many changes are kept for the indexes at least.
        most_indexes: how many indexes a cache has at most.
        idle_reads: an index that none of so many reads used is dropped.
    """
    limits = {
        "_MIN_OBJECTS": 1,
        "_READS_BEFORE": reads_before,
        "_MIN_LOG": least_log,
        "_MAX_INDEXES": most_indexes,
        "_IDLE_READS": idle_reads,
    }
    for name, value in limits.items():
        if value is not None:
            patch.setattr(_label_queries, name, value)
