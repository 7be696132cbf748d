"""Which reflectors of one connection may follow one history, and so can prove it for each other.

What enters are reflectors with their resources and positions; what leaves are those beside one of
them. One address can hide several counters of versions: kube-apiserver can keep Events in an etcd
of their own, and an aggregated API has a storage of its own. Numbers that are far apart are not of
one counter: the furthest in one says nothing about another. Nor does it count for others
what an API says that another server than the kube-apiserver may answer: its versions may be near
by chance, or on purpose. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyinformer.apimachinery import resource_version_is_well_formed
from pyinformer.reflector._conformance import is_built_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyinformer.apimachinery import GroupVersionResource
    from pyinformer.reflector._proof import Witnessing

_EVENTS: Final = "events"
_BUILT_IN: Final = frozenset({"", _EVENTS})
_APART: Final = 10_000  # a stream is behind by what is written between two bookmarks, a minute
_APART_SHARE: Final = 100  # or, where very much is written, by so small a part of all


class History(NamedTuple):
    """Who can be asked about a history, and who follows it."""

    name: str
    """Empty for the server's own."""
    witnesses: list[Witnessing]
    """The reflectors whose answers decide."""
    followers: list[Witnessing]
    """The reflectors that load again if it turns out to be another one."""


def beside(members: Iterable[Witnessing], one: Witnessing | None) -> History:
    """Return the history of one reflector, and who shares it.

    What kube-apiserver itself serves decides for all whose numbers are near. A custom resource may
    be an aggregated API's, so it decides for its own API group only.

    Args:
        members: the reflectors of a connection.
        one: whose history; None, or a reflector without a position that counts: the server's own.
    """
    storages: dict[str, list[Witnessing]] = {}
    for member in members:
        if counts(member):
            storages.setdefault(_storage(member.list_watch.resource), []).append(member)
    asked = "" if one is None else _storage(one.list_watch.resource)
    if asked not in storages:
        asked = "" if "" in storages else min(storages, default="")
    if asked not in _BUILT_IN:
        return History(asked, storages[asked], storages[asked])
    furthest = {name: _furthest(some) for name, some in storages.items()}
    at = "" if _are_near(furthest.get("", 0), furthest.get(asked, 0)) else asked
    near = [name for name in storages if _are_near(furthest[name], furthest.get(at, 0))]
    own = [member for name in near if name in _BUILT_IN for member in storages[name]]
    return History(at, own, [member for name in near for member in storages[name]])


def concerned(members: Iterable[Witnessing], one: Witnessing) -> list[Witnessing]:
    """Return those for whom a list of one reflector proves another history.

    Args:
        members: the reflectors of a connection.
        one: whose list it is.
    """
    storage = _storage(one.list_watch.resource)
    return [
        member
        for member in members
        if storage in _BUILT_IN or _storage(member.list_watch.resource) == storage
    ]


def _furthest(members: Iterable[Witnessing]) -> int:
    return max(int(member.position) for member in members)


def _are_near(one: int, other: int) -> bool:
    return abs(one - other) <= max(_APART, max(one, other) // _APART_SHARE)


def counts(member: Witnessing) -> bool:
    """Tell whether a position can be compared with a server's versions."""
    return member.is_ordered and resource_version_is_well_formed(member.position)


def _storage(resource: GroupVersionResource) -> str:
    """Name what certainly has one counter; a custom resource has the server's own most likely."""
    if resource.resource == "events" and resource.group in {"", "events.k8s.io"}:
        return _EVENTS
    return "" if is_built_in(resource.group) else resource.group
