"""Reading the body of a watch: each piece goes to the splitter as soon as it arrives.

A body that can push its bytes does so within the loop's own callbacks; any other body is read piece
by piece. When all that arrived at once is read, the caller is called back and other tasks run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer._runtime.tasks import TimeBudget
from pyinformer.client.transport import PushBody

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.client.transport import Body, LineSplitter


async def read_body(
    body: Body,
    splitter: LineSplitter,
    on_turn: Callable[[], bool],
    *,
    spacing_seconds: float = 0.0,
) -> None:
    """Feed a body to a splitter, to the end of the body or until `on_turn` returns False.

    Args:
        body: what to read.
        splitter: takes the pieces; what its reader raises ends the reading.
        on_turn: called when all that arrived at once is read; returns whether to continue.
        spacing_seconds: the pause between two reads while much arrives; see PushBody.deliver.

    Raises:
        InformerError: as `Body.read`.

    Cancellation:
        Safe; every piece that was taken from the body was fed.
    """
    if isinstance(body, PushBody):
        await body.deliver(splitter.feed_part, on_turn, spacing_seconds=spacing_seconds)
        return
    budget = TimeBudget()
    while arrived := await body.read():
        started = budget.now()
        splitter.feed(arrived)
        if not on_turn():
            return
        if budget.spend_since(started):
            await budget.yield_now()
