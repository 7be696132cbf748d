"""Everything that a server serves, and which resources a name as people type it can mean.

Reads the documents of discovery in both forms, without I/O. The order is that of kubectl: the core
group first, then the groups as the server lists them, each in its preferred version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, final

from msgspec import Struct, ValidationError, field
from msgspec.json import Decoder

from pyinformer.apimachinery import GroupVersionKind, GroupVersionResource, near_names

_AGGREGATED: Final = "APIGroupDiscoveryList"
_STALE: Final = "Stale"
_MAX_ENTRIES: Final = 20_000  # large clusters have 3,000; each costs some 20 us


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class APIResource:
    """One resource as the server describes it."""

    resource: GroupVersionResource
    """Its group, version and plural: `apps`, `v1`, `deployments`."""

    kind: str
    """The kind of its objects: `Deployment`."""

    namespaced: bool
    """Whether its objects live in namespaces."""

    subresources: frozenset[str] = frozenset()
    """Such as `status` and `scale`."""

    singular: str = ""
    """Its singular name: `deployment`; empty if the server does not name one."""

    short_names: tuple[str, ...] = ()
    """Such as `deploy`."""

    verbs: frozenset[str] = frozenset()
    """What can be done with it: `list`, `watch` and so on; empty if the server does not list it."""

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind with its group and version."""
        return GroupVersionKind(self.resource.group, self.resource.version, self.kind)

    @property
    def has_status(self) -> bool:
        """Whether the status is written apart from the rest."""
        return "status" in self.subresources

    @property
    def words(self) -> tuple[str, ...]:
        """What people call it, in lower case: its plural, singular, kind and short names."""
        words = (self.resource.resource, self.singular, self.kind, *self.short_names)
        return tuple(word.lower() for word in words if word)

    @property
    def full_name(self) -> str:
        """Its plural with its group and version: `apps/v1/deployments`."""
        return f"{self.resource.api_version}/{self.resource.resource}"

    @property
    def qualified_name(self) -> str:
        """Its plural with its group, as people type it: `deployments.apps`."""
        group = self.resource.group
        return f"{self.resource.resource}.{group}" if group else self.resource.resource


def near_resources(name: str, table: Iterable[APIResource]) -> tuple[str, ...]:
    """Return resources of one version with similar names, such as `v1/pods`."""
    return near_names(name, {word: one.full_name for one in table for word in one.words})


def near_kinds(name: str, table: Iterable[APIResource]) -> tuple[str, ...]:
    """Return kinds of one version with similar names, such as `Pod`."""
    return near_names(name, {word: one.kind for one in table for word in one.words if one.kind})


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
    """By `v1` or `group/version`, the preferred version of each group before its others."""
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
    yield plain, group, version  # as kubectl: the longest reading first, `pods.v1` for the core's
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


class _Entry(Struct, frozen=True, rename="camel"):
    name: str
    kind: str = ""
    namespaced: bool = False
    singular_name: str = ""
    short_names: list[str] | None = None
    verbs: list[str] | None = None


class _ResourceList(Struct, frozen=True):
    resources: list[_Entry] | None = None


class _Version(Struct, frozen=True):
    version: str


class _Group(Struct, frozen=True, rename="camel"):
    name: str
    versions: list[_Version]
    preferred_version: _Version | None = None


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
    groups: list[_Group] | None = None
    versions: list[str] | None = None


_decode_root = Decoder(_Root).decode
_decode_resource_list = Decoder(_ResourceList).decode


def read_table(api_version: str, answer: bytes) -> list[APIResource]:
    """Read the resource list of one group and version.

    Raises:
        msgspec.DecodeError: it is not a resource list.
    """
    group, _, version = api_version.rpartition("/")
    entries = _decode_resource_list(answer).resources or []
    _check_count(len(entries))
    subresources: dict[str, set[str]] = {}
    for entry in entries:
        plural, _, subresource = entry.name.partition("/")
        subresources.setdefault(plural, set()).update({subresource} - {""})
    return [
        APIResource(
            resource=GroupVersionResource(group, version, entry.name),
            kind=entry.kind,
            namespaced=entry.namespaced,
            subresources=frozenset(subresources[entry.name]),
            singular=entry.singular_name,
            short_names=tuple(entry.short_names or ()),
            verbs=frozenset(entry.verbs or ()),
        )
        for entry in entries
        if "/" not in entry.name
    ]


def _check_count(entries: int) -> None:
    if entries > _MAX_ENTRIES:
        raise ValidationError(f"{entries} resources, and at most {_MAX_ENTRIES} are read")


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


def _in_order(group: _Group) -> GroupVersions:
    preferred = [] if group.preferred_version is None else [group.preferred_version.version]
    versions = dict.fromkeys((*preferred, *(one.version for one in group.versions)))
    return GroupVersions(group.name, tuple(versions))


def _aggregated(items: list[_GroupResources]) -> Catalogue:
    tables: dict[str, list[APIResource]] = {}
    unavailable: list[str] = []
    _check_count(sum(len(one.resources or ()) for item in items for one in item.versions or ()))
    for item in items:
        group = item.metadata.name
        for one in item.versions or []:
            api_version = f"{group}/{one.version}" if group else one.version
            tables[api_version] = [
                _described(GroupVersionResource(group, one.version, each.resource), each)
                for each in one.resources or []
            ]
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
