"""Iterates over many objects on the event loop within a time budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

from pyinformer.tasks import BUDGET_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.apimachinery import KubeObject, LabelSelector, V


async def walk(
    objects: list[KubeObject[V]], selector: LabelSelector
) -> AsyncIterator[KubeObject[V]]:
    """Yield the objects that match, and yield to the loop when the budget is used up.

    Cancellation:
        Safe; the walk ends.
    """
    matches = None if selector.is_empty else selector.matches
    ends = anyio.current_time() + BUDGET_SECONDS
    for obj in objects:
        if matches is None or matches(obj.metadata.labels):
            yield obj
        if anyio.current_time() > ends:
            await checkpoint()
            ends = anyio.current_time() + BUDGET_SECONDS
