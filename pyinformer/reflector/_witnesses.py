"""What a reflector can bear witness of: the newest it has seen exist, and the newest it saw go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyinformer.apimachinery import V, older
from pyinformer.reflector._proof import Witness
from pyinformer.reflector._sink import keys_of
from pyinformer.tasks import TimeBudget

if TYPE_CHECKING:
    from pyinformer.reflector._guard import Guard
    from pyinformer.reflector._sink import Sink

_SLICE = 1000  # objects between two looks at the clock


async def witnesses_of(sink: Sink[V], guard: Guard) -> Sequence[Witness]:
    """Return the newest object and the newest deletion, each with where it is certain.

    At the position itself more changes of the same version may be on their way: one of a batch
    of deletions may be all that has arrived. So what is older is asked for where all is applied
    for certain, and what came with the position itself, at that: no other change of the same
    object has the same version. Without a global order there are no witnesses.

    Cancellation:
        Safe.
    """
    if guard.order != "global":
        return []
    at, position = guard.complete_position, guard.position
    found: list[Witness] = []
    budget = TimeBudget()
    started = budget.now()
    newest, newest_key, newest_uid = "0", "", ""
    for number, key in enumerate(keys_of(sink), start=1):
        obj = sink.get(key)
        if obj is not None:
            version = obj.metadata.resource_version
            if older(newest, version) and not older(position, version):
                newest, newest_key, newest_uid = version, key, obj.metadata.uid
        if number % _SLICE == 0:
            if budget.spend_since(started):
                await budget.yield_now()
            started = budget.now()
    if newest_key:
        seen_at = _later(newest, at)
        found.append(Witness(newest_key, newest_uid, newest, seen_at, existed=True))
    gone = guard.newest_tombstone()
    if gone is not None and sink.get(gone[0]) is None:
        key, uid, died = gone
        found.append(Witness(key, uid, died, _later(died, at), existed=False))
    return found


def _later(version: str, at: str) -> str:
    return version if older(at, version) else at
