"""Which reflectors of one connection may follow one history, and so can prove it for each other.

What enters are reflectors with their resources and positions; what leaves are those beside one of
them. One address can hide several counters of versions: kube-apiserver can keep Events in an etcd
of their own, and an aggregated API has a storage of its own. Numbers that are far apart are not of
one counter: whoever is furthest in one says nothing about another. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyinformer.apimachinery import resource_version_is_well_formed
from pyinformer.reflector._conformance import is_built_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyinformer.apimachinery import GroupVersionResource
    from pyinformer.reflector._proof import Witnessing

_APART: Final = 10_000  # a stream is behind by what is written between two bookmarks, a minute
_APART_SHARE: Final = 100  # or, where very much is written, by so small a part of all


def beside(members: Iterable[Witnessing], one: Witnessing | None) -> tuple[str, list[Witnessing]]:
    """Return those who may follow the same history as one of them, and a name for it.

    Args:
        members: the reflectors of a connection.
        one: whose history; None, or somebody without a position that counts: the server's own.
    """
    storages: dict[str, list[Witnessing]] = {}
    for member in members:
        if counts(member):
            storages.setdefault(_storage(member.list_watch.resource), []).append(member)
    furthest = {
        name: max(int(member.position) for member in some) for name, some in storages.items()
    }
    histories: list[list[str]] = []
    top = 0
    for name in sorted(furthest, key=lambda name: (-furthest[name], name)):
        if not histories or top - furthest[name] > max(_APART, top // _APART_SHARE):
            histories.append([])
            top = furthest[name]
        histories[-1].append(name)
    asked = ["" if one is None else _storage(one.list_watch.resource), ""]
    found = next((some for name in asked for some in histories if name in some), None)
    found = found or (histories[0] if histories else [""])
    everybody = [member for name in found for member in storages.get(name, ())]
    return "" if "" in found else min(found), everybody


def counts(member: Witnessing) -> bool:
    """Tell whether a position can be compared with a server's versions."""
    return member.is_ordered and resource_version_is_well_formed(member.position)


def _storage(resource: GroupVersionResource) -> str:
    """Name what certainly has one counter; custom resources have the server's own, most likely."""
    if resource.resource == "events" and resource.group in {"", "events.k8s.io"}:
        return "events"
    return "" if is_built_in(resource.group) else resource.group
