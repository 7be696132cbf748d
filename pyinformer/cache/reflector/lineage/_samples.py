"""Samples of a history: the newest object and the newest deletion that a reflector has seen.

Asking the server for both at the version at which they were certain shows whether it has the
history that was followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from msgspec import Struct

from pyinformer._runtime.tasks import TimeBudget
from pyinformer.cache.reflector._sink import keys_of
from pyinformer.objects import V, older

if TYPE_CHECKING:
    from pyinformer.cache.reflector._sink import Sink
    from pyinformer.cache.reflector.guard import Guard

_SLICE = 1000  # objects between two readings of the clock


@final
class HistorySample(Struct, frozen=True):
    """A fact of the followed history: an object existed, or was deleted, at a position."""

    key: str
    uid: str
    resource_version: str
    """The version of the object, or of its deletion; the newest sample proves the most."""
    at: str
    """The position of the fact."""
    existed: bool


async def history_samples(sink: Sink[V], guard: Guard) -> list[HistorySample]:
    """Return the newest object and the newest deletion, each with the version where it is certain.

    At the position itself more changes of the same version may be on their way: one of a batch of
    deletions may be all that has arrived. So an older fact is certain at the guard's resume
    position, and a fact of the position itself at that position, since no other change of the same
    object has the same version. Without a global order there are no samples.

    Cancellation:
        Safe.
    """
    if guard.order != "global":
        return []
    at, position = guard.resume_position, guard.position
    found: list[HistorySample] = []
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
        found.append(
            HistorySample(newest_key, newest_uid, newest, _later(newest, at), existed=True)
        )
    tombstone = guard.newest_tombstone()
    if tombstone is not None and sink.get(tombstone[0]) is None:
        key, uid, died = tombstone
        found.append(HistorySample(key, uid, died, _later(died, at), existed=False))
    return found


def _later(version: str, at: str) -> str:
    return version if older(at, version) else at
