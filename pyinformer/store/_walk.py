"""Iterates over many objects on the event loop within a time budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.apimachinery import KubeObject, LabelSelector, V

_BUDGET_SECONDS = 0.004  # a reader shares the loop with watches that must not fall behind


async def walk(
    objects: list[KubeObject[V]], selector: LabelSelector
) -> AsyncIterator[KubeObject[V]]:
    """Yield the objects that match, and yield to the loop when the budget is used up.

    Cancellation:
        Safe; the walk ends.
    """
    matches = None if selector.is_empty else selector.matches
    ends = anyio.current_time() + _BUDGET_SECONDS
    for obj in objects:
        if matches is None or matches(obj.metadata.labels):
            yield obj
        if anyio.current_time() > ends:
            await checkpoint()
            ends = anyio.current_time() + _BUDGET_SECONDS
