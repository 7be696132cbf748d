"""Everything that a server serves, and which resources a name as people type it can mean.

Reads the documents of discovery in both forms, without I/O. The order is that of kubectl: the core
group first, then the groups as the server lists them, each in its preferred version.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, final

from msgspec import Struct, field

from pyinformer.client.transport import APIResource, Group, check_resource_count, readable_first
from pyinformer.objects import GroupVersionResource, near_names, null_as_absent

_AGGREGATED: Final = "APIGroupDiscoveryList"
_STALE: Final = "Stale"


@final
@dataclass(frozen=True, slots=True)
class GroupVersions:
    """One group as the server lists it: its versions, the preferred one first."""

    group: str
    versions: tuple[str, ...]

    @property
    def api_versions(self) -> tuple[str, ...]:
        """`v1`, or `apps/v1` and so on."""
        return tuple(f"{self.group}/{one}" if self.group else one for one in self.versions)


@final
@dataclass(frozen=True, slots=True)
class Catalogue:
    """What a server serves, in the server's order of preference."""

    tables: dict[str, list[APIResource]]
    """By `v1` or `group/version`, the preferred version of each group before its others; in each,
    the resources without reads come last."""
    unavailable: tuple[str, ...] = ()
    """The groups and versions that are listed, and whose resources could not be read."""

    def find(self, name: str) -> tuple[APIResource, ...]:
        """Return the resources that a name can mean, at most one of each group.

        Args:
            name: a plural, singular, kind or short name in any case, alone or with group and
                version: `deployments.apps`, `deployments.v1.apps`.
        """
        for plain, group, version in _readings(name.lower()):
            found = [
                (rank, one)
                for one in self._all()
                if group in {None, one.resource.group}
                and version in {None, one.resource.version}
                and (rank := _rank(one, plain))
            ]
            if found:
                best = max(rank for rank, _ in found)
                return tuple(_first_of_each_group(one for rank, one in found if rank == best))
        return ()

    def by_kind(self) -> dict[str, APIResource]:
        """Return the resource of each kind: `StatefulSet.apps`, or `Secret` of the core group."""
        every = reversed(list(self._all()))  # of several versions the first, which is preferred
        return {one.gvk.group_kind: one for one in every}

    def near(self, name: str) -> tuple[str, ...]:
        """Return similar names."""
        plain = name.lower().partition(".")[0]
        known = {
            word: one.qualified_name for one in reversed(list(self._all())) for word in one.words
        }
        return near_names(plain, known)

    def _all(self) -> Iterator[APIResource]:
        for table in self.tables.values():
            yield from table


def _readings(name: str) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield what a name can mean: plural, group and version; None where it has no such part."""
    plain, dot, rest = name.partition(".")
    if not dot:
        yield plain, None, None
        return
    version, _, group = rest.partition(".")
    yield plain, group, version  # first, as kubectl does; `pods.v1` has the empty group
    yield plain, rest, None


def _rank(one: APIResource, name: str) -> int:
    """Return how well a name fits; 0 if it does not."""
    if name in {one.resource.resource.lower(), one.singular.lower(), one.kind.lower()}:
        return 2
    return int(name in one.short_names)


def _first_of_each_group(found: Iterable[APIResource]) -> Iterator[APIResource]:
    groups = set[str]()
    for one in found:
        if one.resource.group not in groups:
            groups.add(one.resource.group)
            yield one


class _Kind(Struct, frozen=True):
    kind: str = ""


class _Sub(Struct, frozen=True):
    subresource: str


class _Resource(Struct, frozen=True, rename="camel"):
    resource: str
    response_kind: _Kind | None = None
    scope: str = ""
    singular_resource: str = ""
    short_names: list[str] | None = None
    verbs: list[str] | None = None
    subresources: list[_Sub] | None = None


class _VersionResources(Struct, frozen=True):
    version: str
    resources: list[_Resource] | None = None
    freshness: str = ""


class _Name(Struct, frozen=True):
    name: str = ""


class _GroupResources(Struct, frozen=True):
    metadata: _Name = field(default_factory=_Name)
    versions: list[_VersionResources] | None = None


class _Root(Struct, frozen=True):
    """Any of the three documents that may stand at `/api` and `/apis`."""

    kind: str = ""
    items: list[_GroupResources] | None = None
    groups: list[Group] | None = None
    versions: list[str] | None = None


_decode_root = null_as_absent(_Root)


def read_root(answer: bytes) -> Catalogue | tuple[GroupVersions, ...]:
    """Read what `/api` or `/apis` answers.

    Returns:
        Everything, if the server supports aggregated discovery; else the groups to read one by one.

    Raises:
        msgspec.DecodeError: it is not a document of discovery.
    """
    root = _decode_root(answer)
    if root.kind == _AGGREGATED:
        return _aggregated(root.items or [])
    if root.versions is not None:
        return (GroupVersions("", tuple(root.versions)),)
    return tuple(_in_order(group) for group in root.groups or [])


def _in_order(group: Group) -> GroupVersions:
    preferred = [] if group.preferred_version is None else [group.preferred_version.version]
    versions = dict.fromkeys((*preferred, *(one.version for one in group.versions)))
    return GroupVersions(group.name, tuple(versions))


def _aggregated(items: list[_GroupResources]) -> Catalogue:
    tables: dict[str, list[APIResource]] = {}
    unavailable: list[str] = []
    resources = (one.resources or () for item in items for one in item.versions or ())
    check_resource_count(sum(map(len, resources)))
    for item in items:
        group = item.metadata.name
        for one in item.versions or []:
            api_version = f"{group}/{one.version}" if group else one.version
            tables[api_version] = readable_first(
                _described(GroupVersionResource(group, one.version, each.resource), each)
                for each in one.resources or []
            )
            if one.freshness == _STALE:  # the server could not reach it just now
                unavailable.append(api_version)
    return Catalogue(tables, tuple(unavailable))


def _described(resource: GroupVersionResource, entry: _Resource) -> APIResource:
    return APIResource(
        resource=resource,
        kind=entry.response_kind.kind if entry.response_kind else "",
        namespaced=entry.scope == "Namespaced",
        subresources=frozenset(one.subresource for one in entry.subresources or ()),
        singular=entry.singular_resource,
        short_names=tuple(entry.short_names or ()),
        verbs=frozenset(entry.verbs or ()),
    )


def merged(parts: Iterable[Catalogue]) -> Catalogue:
    """Return one catalogue of several, in their order."""
    tables: dict[str, list[APIResource]] = {}
    unavailable: list[str] = []
    for part in parts:
        tables |= part.tables
        unavailable += part.unavailable
    return Catalogue(tables, tuple(unavailable))
