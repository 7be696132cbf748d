"""What a reflector can bear witness of: the newest it has seen exist, and the newest it saw go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyinformer.apimachinery import V, older
from pyinformer.reflector._budget import TimeBudget
from pyinformer.reflector._proof import Witness

if TYPE_CHECKING:
    from pyinformer.reflector._guard import Guard
    from pyinformer.reflector._sink import Sink

_SLICE = 1000  # objects between two looks at the clock


async def witnesses_of(sink: Sink[V], guard: Guard) -> Sequence[Witness]:
    """Return the newest object and the newest deletion up to where all is applied for certain.

    At the position itself more changes of the same version may be on their way: one of a batch
    of deletions may be all that has arrived. Without a global order there are no witnesses.

    Cancellation:
        Safe.
    """
    if guard.order != "global":
        return []
    at = guard.complete_position
    found: list[Witness] = []
    budget = TimeBudget()
    started = budget.now()
    newest, newest_key, newest_uid = "0", "", ""
    for number, key in enumerate(list(sink.keys()), start=1):
        obj = sink.get(key)
        if obj is not None:
            version = obj.metadata.resource_version
            if older(newest, version) and not older(at, version):
                newest, newest_key, newest_uid = version, key, obj.metadata.uid
        if number % _SLICE == 0:
            if budget.spend_since(started):
                await budget.yield_now()
            started = budget.now()
    if newest_key:
        found.append(Witness(newest_key, newest_uid, newest, at, existed=True))
    gone = guard.newest_tombstone()
    if gone is not None and sink.get(gone[0]) is None and not older(at, gone[2]):
        found.append(Witness(gone[0], gone[1], gone[2], at, existed=False))
    return found
