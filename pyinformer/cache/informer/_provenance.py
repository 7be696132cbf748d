"""Finds the list or watch that brought an object into a cache, for explanations.

A list brought every object that is newer than the position before it and not newer than its own. A
list that went back, after a restore of the server, brought everything.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from pyinformer._runtime.clock import utc_text
from pyinformer.objects import older, resource_version_is_well_formed

if TYPE_CHECKING:
    from pyinformer.cache.reflector import RelistRecord


@final
class Provenance(Struct, frozen=True):
    """The list or watch that brought an object."""

    what: str
    at: float = 0.0
    """When, as a Unix time; 0 if that is not known."""
    is_relist: bool = False

    def __str__(self) -> str:
        return self.what


_UNKNOWN: Final = Provenance("a list or a watch")
_WATCH: Final = Provenance("the watch")
_UNFINISHED: Final = Provenance("a load that is not finished yet")


def provenance_of(version: str, loads: Sequence[RelistRecord], position: str) -> Provenance:
    """Return which list or watch brought an object of this version.

    Args:
        version: the object's resource version.
        loads: the lists that are remembered, the oldest first.
        position: how far the cache is; behind its objects while a load is applied in steps.
    """
    known = _since_the_last_reset(loads)
    versions = (version, position, *(load.position for load in known))
    if not known or not all(map(resource_version_is_well_formed, versions)):
        return _UNKNOWN
    if older(position, version):
        return _UNFINISHED
    for number, load in enumerate(known):
        is_all = not load.before or (number == 0 and _went_back(load))
        if (is_all or older(load.before, version)) and not older(load.position, version):
            return _of(load)
        if number == 0 and not is_all and not older(load.before, version):
            return _UNKNOWN  # before anything that is remembered
    return _WATCH


def _since_the_last_reset(loads: Sequence[RelistRecord]) -> Sequence[RelistRecord]:
    resets = [number for number, load in enumerate(loads) if _went_back(load)]
    return loads[resets[-1] :] if resets else loads


def _went_back(load: RelistRecord) -> bool:
    if load.is_reset:
        return True
    both = (load.before, load.position)
    return all(map(resource_version_is_well_formed, both)) and older(load.position, load.before)


def _of(load: RelistRecord) -> Provenance:
    if not load.before:
        return Provenance(f"the first load, a {load.mode} at {utc_text(load.at)}", load.at)
    why = f" ({load.reason})" if load.reason else ""
    what = f"a relist, a {load.mode} at {utc_text(load.at)}{why}"
    return Provenance(what, load.at, is_relist=True)
