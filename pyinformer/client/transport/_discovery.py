"""The documents of discovery: the groups that a server has, and the resources of each version.

Reads them without I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, final

from msgspec import Struct, ValidationError

from pyinformer.objects import (
    GroupVersionKind,
    GroupVersionResource,
    near_names,
    null_as_absent,
    split_api_version,
)

_MAX_ENTRIES: Final = 20_000  # large clusters have 3,000; each costs some 20 us
_READS: Final = frozenset({"get", "list"})


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
    """Return resources of one version with similar names, such as `v1/pods`.

    Of two with the same word the first of the table counts, as where a name is looked up.
    """
    known = {word: one.full_name for one in reversed(list(table)) for word in one.words}
    return near_names(name, known)


def readable_first(resources: Iterable[APIResource]) -> list[APIResource]:
    """Return the resources of one version in the server's order, those without reads last.

    Where two have one kind, the first stands for it. OpenShift lists `processedtemplates`, which
    only has `create` and stores nothing, before `templates`.
    """
    return sorted(resources, key=lambda one: bool(one.verbs) and not one.verbs & _READS)


def near_kinds(name: str, table: Iterable[APIResource]) -> tuple[str, ...]:
    """Return kinds of one version with similar names, such as `Pod`."""
    return near_names(name, {word: one.kind for one in table for word in one.words if one.kind})


class _Entry(Struct, frozen=True, rename="camel"):
    name: str
    kind: str = ""
    namespaced: bool = False
    singular_name: str = ""
    short_names: list[str] | None = None
    verbs: list[str] | None = None


_LIST: Final = "APIResourceList"


class ResourceList(Struct, frozen=True, rename="camel"):
    """The resources of one group and version."""

    kind: str = ""
    group_version: str = ""
    resources: list[_Entry] | None = None


class GroupVersion(Struct, frozen=True):
    """One version of a group."""

    version: str


class Group(Struct, frozen=True, rename="camel"):
    """A group and its versions."""

    name: str
    versions: list[GroupVersion] = []
    preferred_version: GroupVersion | None = None


class GroupList(Struct, frozen=True):
    """All groups but the core."""

    kind: str = ""
    groups: list[Group] | None = None


decode_resources: Final[Callable[[bytes], ResourceList]] = null_as_absent(ResourceList)
decode_groups: Final[Callable[[bytes], GroupList]] = null_as_absent(GroupList)


def table_of(api_version: str, found: ResourceList) -> list[APIResource]:
    """Return the resources of one group and version, those without reads last.

    Raises:
        msgspec.DecodeError: it is another document, such as the late answer to another request; or
            there are too many.
    """
    is_empty = found.resources is None and not found.group_version
    is_list = found.kind == _LIST or not (found.kind or is_empty)
    if not is_list or found.group_version not in {"", api_version}:
        reason = f"it is {found.kind or 'without a kind'} of {found.group_version or 'no version'}"
        raise ValidationError(f"{reason}, not {_LIST} of {api_version}")
    group, version = split_api_version(api_version)
    entries = found.resources or []
    check_resource_count(len(entries))
    subresources: dict[str, set[str]] = {}
    for entry in entries:
        plural, _, subresource = entry.name.partition("/")
        subresources.setdefault(plural, set()).update({subresource} - {""})
    return readable_first(
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
    )


def check_resource_count(entries: int) -> None:
    """Refuse a document with too many resources: each of them costs time.

    Raises:
        msgspec.ValidationError: there are too many.
    """
    if entries > _MAX_ENTRIES:
        raise ValidationError(f"{entries} resources, and at most {_MAX_ENTRIES} are read")
