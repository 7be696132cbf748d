"""Reading the body of a watch: pieces go to the splitter of its lines as soon as they are there.

A body that can hand on its bytes in place does so, within the loop's own callbacks; of any other
the pieces are waited for. After everything that arrived at once, others on the loop have a turn,
and somebody is told.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pyinformer.tasks import TimeBudget
from pyinformer.transport import PushBody

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.transport import Body, LineSplitter


async def read_body(body: Body, splitter: LineSplitter, on_turn: Callable[[float], bool]) -> None:
    """Feed a body to a splitter, to the end of the body or until `on_turn` says so.

    Args:
        body: what to read.
        splitter: takes the pieces; what its reader raises ends the reading.
        on_turn: is called with the loop's time after all that arrived at once; returns whether to
            go on.

    Raises:
        InformerError: as `Body.pieces`.

    Cancellation:
        Safe; what was fed stays fed, and nothing is lost that was not.
    """
    if isinstance(body, PushBody):
        now = asyncio.get_running_loop().time
        await body.deliver(splitter.feed_part, lambda: on_turn(now()))
        return
    budget = TimeBudget()
    while arrived := await body.pieces():
        started = budget.now()
        for piece in arrived:
            splitter.feed(piece)
        if not on_turn(started):
            return
        if budget.spend_since(started):
            await budget.yield_now()
