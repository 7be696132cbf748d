"""Groups of reflectors that follow one history, and so can prove it for each other.

One address can hide several counters of versions: kube-apiserver can keep Events in an etcd of
their own, and an aggregated API has its own storage. Versions that are far apart do not come from
one counter, so the furthest position of one says nothing about another. An API that another server
than kube-apiserver may answer decides only for itself: its versions may be near by chance or on
purpose.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pyinformer.objects import resource_version_is_well_formed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyinformer.cache.reflector.lineage._samples import HistorySample
    from pyinformer.client.transport import ListWatch
    from pyinformer.objects import GroupVersionResource

_EVENTS: Final = "events"
_BUILT_IN: Final = frozenset({"", _EVENTS})
_WITHOUT_DOMAIN: Final = frozenset({"", "apps", "autoscaling", "batch", "extensions", "policy"})
_AGGREGATED: Final = frozenset(
    {"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"}
)
_APART: Final = 10_000  # a stream is behind by what is written between two bookmarks, a minute
_APART_SHARE: Final = 100  # or, where very much is written, by this small a part of all versions


class HistoryMember(Protocol):
    """A reflector as the proof of a history sees it."""

    @property
    def list_watch(self) -> ListWatch:
        """The resource and the scope that it follows."""
        ...

    @property
    def position(self) -> str:
        """The resource version up to which it has every change."""
        ...

    @property
    def is_ordered(self) -> bool:
        """Whether its versions have one order that still holds, so that its position counts."""
        ...

    async def history_samples(self) -> Sequence[HistorySample]:
        """Return the newest object and the newest deletion that it knows.

        Cancellation:
            Safe.
        """
        ...

    def on_history_broken(self, reason: str) -> None:
        """List again, and trust nothing that is cached."""
        ...


class HistoryGroup(NamedTuple):
    """The reflectors that share one history."""

    name: str
    """The API group that has its own storage; empty for the server's own history."""
    deciding: list[HistoryMember]
    """The reflectors whose resources the proof reads."""
    affected: list[HistoryMember]
    """The reflectors that list again if the history turns out to be another one."""


def is_built_in(group: str) -> bool:
    """Return whether an API group is one of kube-apiserver itself, whose order is a promise.

    Source:
        KEP-5504: versions of built-in and custom resources compare; aggregated APIs may differ.
    """
    return group in _WITHOUT_DOMAIN or (group.endswith(".k8s.io") and group not in _AGGREGATED)


def history_group(members: Iterable[HistoryMember], one: HistoryMember | None) -> HistoryGroup:
    """Return the group of reflectors that share the history of one of them.

    The resources of kube-apiserver itself decide for every reflector whose position is near. A
    custom resource may belong to an aggregated API, and Events may have an etcd of their own, whose
    versions can be near those of the other by chance: each decides for its own storage only.

    Args:
        members: the reflectors of a connection.
        one: the reflector; None, or one without a comparable position: the server's own history.
    """
    storages: dict[str, list[HistoryMember]] = {}
    for member in members:
        if has_comparable_position(member):
            storages.setdefault(storage_of(member.list_watch.resource), []).append(member)
    asked = "" if one is None else storage_of(one.list_watch.resource)
    if asked not in storages:
        asked = "" if "" in storages else min(storages, default="")
    if asked:
        return HistoryGroup(asked, storages[asked], storages[asked])
    own = storages.get("", [])
    furthest = _furthest(own)
    near = [some for some in storages.values() if _are_near(_furthest(some), furthest)]
    return HistoryGroup("", own, [member for some in near for member in some])


def affected_by(members: Iterable[HistoryMember], one: HistoryMember) -> list[HistoryMember]:
    """Return the reflectors for which a list of one reflector proves another history.

    Args:
        members: the reflectors of a connection.
        one: the reflector that listed.
    """
    storage = storage_of(one.list_watch.resource)
    return [
        member
        for member in members
        if storage in _BUILT_IN or storage_of(member.list_watch.resource) == storage
    ]


def has_comparable_position(member: HistoryMember) -> bool:
    """Return whether a reflector's position can be compared with a server's versions."""
    return member.is_ordered and resource_version_is_well_formed(member.position)


def _furthest(members: Iterable[HistoryMember]) -> int:
    return max((int(member.position) for member in members), default=0)


def _are_near(one: int, other: int) -> bool:
    return abs(one - other) <= max(_APART, max(one, other) // _APART_SHARE)


def storage_of(resource: GroupVersionResource) -> str:
    """Return the name of what certainly has one counter.

    A custom resource most likely has the server's own.
    """
    if resource.resource == "events" and resource.group in {"", "events.k8s.io"}:
        return _EVENTS
    return "" if is_built_in(resource.group) else resource.group
